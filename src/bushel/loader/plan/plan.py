"""Plans: the units of an epoch that each batch of each rank holds. Pure: no I/O, no clock, no state.

A unit is a range of positions of the order: a sample, a row of a pack or of chunks, or a whole
batch of similar samples. Global batch t of an epoch is its next `batch_size * world_size` units,
which the ranks divide among themselves. So the consumed units of an epoch are at any time a prefix
of its positions: a single number says where any number of ranks, with any batch size, continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, NO_NUMBERS, offsets_of, ranges
from bushel.loader.values.rows import Rows

if TYPE_CHECKING:
    from bushel._runtime.scheduled import SampleOrder
    from bushel.loader.order.bucketed import Bucketed
    from bushel.loader.order.chunks import Chunks
    from bushel.loader.order.packed import Packed

    AnyOrder: TypeAlias = SampleOrder | Bucketed | Packed | Chunks

Pad = Literal["wrap"] | None

# computing the order for single positions costs a hundred times more
POSITIONS_AT_A_TIME = 1 << 13


class BatchPlan(Struct, frozen=True):
    """One batch of one rank.

    Attributes:
        epoch: Number of the epoch.
        positions: int64[n], positions of the order.
        samples: int64[n], the samples at these positions.
        consumed: Positions of the epoch that all ranks have consumed after this batch.
        rows: How the samples share the rows of the batch; None if each has its own.
    """

    epoch: int
    positions: I64
    samples: I64
    consumed: int
    rows: Rows | None = None

    def part(self, places: Any) -> BatchPlan:
        """Return a batch of the samples at some places of this one."""
        return BatchPlan(self.epoch, self.positions[places], self.samples[places], self.consumed)

    @property
    def first(self) -> int:
        """A number that no other batch of the epoch has: the first of its positions."""
        if self.rows is None:
            return int(self.positions[0])
        return self.rows.first


class UnitBatches(Struct, frozen=True):
    """Some batches on a rank, as ranges of positions.

    Attributes:
        begins: int64[units], the first position of each unit.
        ends: int64[units], the position after it.
        borders: int64[batches + 1], the units before each batch, and all of them.
        consumed: Positions that all ranks have consumed after each batch.
    """

    begins: I64
    ends: I64
    borders: I64
    consumed: Sequence[int]

    @property
    def positions(self) -> tuple[I64, I64]:
        """All positions, one after another, and where each batch begins among them: int64[batches + 1]."""
        sizes = self.ends - self.begins
        return ranges(self.begins, sizes), offsets_of(sizes)[self.borders]


class Span(Struct, frozen=True):
    """The borders of units of one position each, from one position to another, without an array of them."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start + 1

    def __getitem__(self, index: Any) -> I64:
        if isinstance(index, slice):
            chosen = range(self.start, self.stop + 1)[index]
            return np.arange(chosen.start, chosen.stop, chosen.step)
        borders: I64 = self.start + index
        return borders


class Units(Struct, frozen=True):
    """The units of an epoch: single positions of its order, unless a subclass says otherwise.

    Attributes:
        order: The order.
        epoch: Number of the epoch.
        until: The epoch may be taken to end after this unit, if that is known sooner; None to know
            its end.
    """

    order: Any
    epoch: int
    until: int | None = None

    unit: ClassVar[str] = "samples"
    """The unit of the positions that a state counts."""

    @property
    def is_even(self) -> bool:
        """Whether all epochs of the order have equally many units."""
        return True

    def sizes(self, batch_size: int) -> str:
        """Return the sizes of batches, in words."""
        return f"batches of {batch_size}"

    @property
    def positions(self) -> int:
        """Number of positions of the epoch."""
        return int(self.order.samples)

    def at_a_time(self, batch_size: int) -> int:
        """Return the number of batches that are planned together."""
        return max(1, POSITIONS_AT_A_TIME // batch_size)

    def borders(self, consumed: int = 0) -> Iterator[Span | I64]:
        """Yield the borders of the units after a position, of some neighbours at a time: int64[units + 1]."""
        if consumed < self.positions:
            yield Span(consumed, self.positions)

    def count(self, consumed: int = 0) -> int:
        """Return the number of units after a position."""
        return max(0, self.positions - consumed)

    def position(self, consumed: int, units: int) -> int:
        """Return the position that is some units after another one, at most the end of the epoch."""
        return min(self.positions, consumed + units)

    def share(self, borders: I64, rank: int, world_size: int) -> tuple[I64, I64]:
        """Return where a rank's units begin and end, if fewer are left than the last step needs."""
        left = len(borders) - 1
        mine = slice(left * rank // world_size, left * (rank + 1) // world_size)
        return borders[:-1][mine], borders[1:][mine]

    def has_share(self, left: int, rank: int, world_size: int) -> bool:
        """Return whether `share` gives a rank anything."""
        return left * rank // world_size < left * (rank + 1) // world_size

    def plans(self, batches: UnitBatches) -> Iterator[BatchPlan]:
        """Yield the plans of batches: which samples they have."""
        return self._plans(batches, batches.begins, batches.borders)

    def _plans(self, batches: UnitBatches, positions: I64, starts: I64) -> Iterator[BatchPlan]:
        """Yield the plans of batches, given all of their positions, and where each begins among them."""
        samples, borders = self.order.take(self.epoch, positions), starts.tolist()
        for first, end, consumed in zip(borders, borders[1:], batches.consumed, strict=False):
            yield BatchPlan(self.epoch, positions[first:end], samples[first:end], consumed)


class Plan(Struct, frozen=True):
    """How epochs are divided into batches.

    Attributes:
        order: The order of the samples, or of rows or batches of samples.
        batch_size: Number of units in a batch of one rank.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last: Whether to leave out the units at the end of an epoch that do not fill a global
            batch.
        pad: `"wrap"` fills the last global batch with units from the start of the epoch. With None,
            the ranks share the remaining units as evenly as possible, and some may have one batch
            fewer.
        steps_per_read: Number of steps whose batches are planned as one; above 1 only without a
            batch size.
        kind: The kind of its units.
    """

    order: Any
    batch_size: int = 1
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None
    steps_per_read: int = 1
    kind: type[Units] = Units

    @property
    def stride(self) -> int:
        """Number of units in a global batch."""
        return self.batch_size * self.world_size

    def at(self, epoch: int, until: int | None = None) -> Steps:
        """Return the steps of an epoch. With `until`, it may be taken to end after this unit."""
        return Steps(self, self.kind(self.order, epoch, until))


class Steps(Struct, frozen=True):
    """The steps of an epoch of a plan.

    Attributes:
        plan: The plan.
        units: The units of the epoch.
    """

    plan: Plan
    units: Units

    def all_steps(self, consumed: int = 0) -> int:
        """Return the number of global batches that remain after `consumed` positions."""
        whole, left = divmod(self.units.count(consumed), self.plan.stride)
        return whole + (left > 0 and not self.plan.drop_last)

    def steps(self, consumed: int = 0) -> int:
        """Return the number of batches that remain for this rank."""
        whole, left = divmod(self.units.count(consumed), self.plan.stride)
        return whole + self._has_last(left)

    def reads(self, consumed: int = 0) -> int:
        """Return the number of plans that `batches` yields."""
        whole, left = divmod(self.units.count(consumed), self.plan.stride)
        return -(-whole // self.plan.steps_per_read) + self._has_last(left)

    def consumed(self, consumed: int, steps: int) -> int:
        """Return the positions that all ranks have consumed `steps` batches after `consumed`."""
        if steps:
            return self.units.position(consumed, steps * self.plan.stride)
        return consumed

    def is_over(self, consumed: int) -> bool:
        """Return whether no batches remain for any rank after `consumed` positions."""
        missing = self.plan.stride if self.plan.drop_last else 1
        for borders in self.units.borders(consumed):
            missing -= len(borders) - 1
            if missing <= 0:
                return False
        return True

    def batches(self, consumed: int = 0) -> Iterator[BatchPlan]:
        """Yield the batches of this rank from `consumed` to the end of the epoch."""
        return chain.from_iterable(map(self.units.plans, self._unit_batches(consumed)))

    def _unit_batches(self, consumed: int) -> Iterator[UnitBatches]:
        """Yield the units of the batches, of some batches at a time."""
        stride, together = self.plan.stride, self.plan.steps_per_read
        most = max(1, self.units.at_a_time(self.plan.batch_size) // together) * together
        left = NO_NUMBERS
        for more in self.units.borders(consumed):
            borders: Any = np.concatenate([left[:-1], more]) if len(left) else more
            whole = (len(borders) - 1) // stride
            first = 0
            while first < whole:
                last = min(first + together, whole)
                yield self._whole(borders, first, last)
                # only the first batch need not wait for others
                first, together = last, most
            left = borders[whole * stride :]
        if self._has_last(len(left) - 1):
            yield self._last(left)

    def _whole(self, borders: Any, first: int, last: int) -> UnitBatches:
        """Return this rank's units of some steps that are full."""
        plan = self.plan
        starts = np.arange(first, last) * plan.stride
        mine = plan.rank * plan.batch_size + np.arange(plan.batch_size)
        units = (starts[:, None] + mine).reshape(-1)
        # the steps up to the end of each read
        ends = np.append(
            np.arange(plan.steps_per_read, last - first, plan.steps_per_read), last - first
        )
        consumed = borders[starts[ends - 1] + plan.stride].tolist()
        reads = np.append(0, ends * plan.batch_size)
        return UnitBatches(borders[units], borders[units + 1], reads, consumed)

    def _last(self, borders: I64) -> UnitBatches:
        """Return this rank's units of the last step, for which fewer are left than it needs."""
        plan = self.plan
        if plan.pad == "wrap":
            more_begins, more_ends = self._first_units(plan.stride - (len(borders) - 1))
            mine = slice(plan.rank * plan.batch_size, (plan.rank + 1) * plan.batch_size)
            begins = np.concatenate([borders[:-1], more_begins])[mine]
            ends = np.concatenate([borders[1:], more_ends])[mine]
        else:
            begins, ends = self.units.share(borders, plan.rank, plan.world_size)
        return UnitBatches(begins, ends, offsets_of([len(begins)]), [int(borders[-1])])

    def _first_units(self, count: int) -> tuple[I64, I64]:
        """Return where the first units of the epoch begin and end, and the same again if it has fewer."""
        begins, ends, missing = list[I64](), list[I64](), count
        while missing:
            for borders in self.units.borders():
                first = borders[: missing + 1]
                begins.append(first[:-1])
                ends.append(first[1:])
                missing -= len(first) - 1
                if not missing:
                    break
        return np.concatenate(begins), np.concatenate(ends)

    def _has_last(self, left: int) -> bool:
        """Return whether this rank has a batch of the last step, if some units are left for it."""
        plan = self.plan
        if left <= 0 or plan.drop_last:
            return False
        return plan.pad == "wrap" or self.units.has_share(left, plan.rank, plan.world_size)
