"""The plan of packs: the rows of each rank at each step. Pure, as `bushel.loader.plan.plan`.

A global batch is the next `batch_size * world_size` rows, which the ranks divide among themselves.
The position is therefore a prefix of the epoch. It ends at the end of a row, from whose position
any number of ranks can continue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from bushel._runtime.arrays import I64, ranges
from bushel._runtime.structs import Struct
from bushel.loader.order.packed import Packed
from bushel.loader.plan.plan import BatchPlan, Pad, check_plan
from bushel.loader.values.rows import Rows


class PackPlan(Struct, frozen=True):
    """The division of epochs of packs among ranks.

    Attributes:
        order: The order of the rows and their documents.
        batch_size: Number of rows in a batch of one rank.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last: Whether to leave out the rows at the end of an epoch that do not fill a global
            batch.
        pad: `"wrap"` fills the last global batch with rows from the start of the epoch. With None,
            the ranks share the remaining rows as evenly as possible, and some may have one batch
            fewer.
    """

    order: Packed
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None

    is_even: ClassVar[bool] = False
    """Whether all epochs have equally many steps."""

    unit: ClassVar[str] = "pieces"
    """The unit of positions."""

    def __post_init__(self) -> None:
        check_plan(self.rank, self.world_size, self.pad, drop_last=self.drop_last)

    @property
    def sizes(self) -> str:
        """The sizes of the batches, in words."""
        return f"batches of {self.batch_size} rows of {self.order.tokens} tokens"

    @property
    def stride(self) -> int:
        """Number of rows in a global batch."""
        return self.batch_size * self.world_size

    def at(self, epoch: int) -> PackEpoch:
        """Return the steps of an epoch."""
        return PackEpoch(self, epoch)

    def batches(self, epoch: int, consumed: int = 0) -> Iterator[BatchPlan]:
        """Yield the batches of this rank from `consumed` to the end of the epoch.

        Rows are planned window by window, so the first batch takes as long wherever it is.
        """
        steps, stride = self.at(epoch), self.stride
        starts = ends = np.zeros(0, np.int64)
        first, last = self.rank * self.batch_size, (self.rank + 1) * self.batch_size
        for own_starts, own_ends in steps.windows(consumed):
            starts, ends = np.concatenate([starts, own_starts]), np.concatenate([ends, own_ends])
            whole = len(starts) // stride * stride
            for step in range(0, whole, stride):
                mine = slice(step + first, step + last)
                yield self._batch(epoch, starts[mine], ends[mine], int(ends[step + stride - 1]))
            starts, ends = starts[whole:], ends[whole:]
        if not len(starts) or self.drop_last:
            return
        if self.pad == "wrap":
            more_starts, more_ends = steps.first_rows(stride - len(starts))
            starts, ends = np.concatenate([starts, more_starts]), np.concatenate([ends, more_ends])
        else:
            first, last = (
                len(starts) * rank // self.world_size for rank in (self.rank, self.rank + 1)
            )
        if first < last:
            yield self._batch(epoch, starts[first:last], ends[first:last], self.order.samples)

    def _batch(self, epoch: int, starts: I64, ends: I64, consumed: int) -> BatchPlan:
        """Return the batch with some rows."""
        sizes = ends - starts
        row_ends = np.cumsum(sizes)
        positions = ranges(starts, sizes)
        pieces = self.order.pieces
        samples, begins = pieces.documents(self.order.take_pieces(epoch, positions))
        rows = Rows(row_ends, begins, np.full(len(samples), pieces.limit, np.int64), int(starts[0]))
        return BatchPlan(epoch, positions, samples, consumed, rows)


class PackEpoch(Struct, frozen=True):
    """The steps of an epoch of a `PackPlan`.

    Attributes:
        plan: The plan.
        epoch: Number of the epoch.
    """

    plan: PackPlan
    epoch: int

    @property
    def order(self) -> Packed:
        """The order of the rows."""
        return self.plan.order

    def windows(self, consumed: int = 0) -> Iterator[tuple[I64, I64]]:
        """Yield the first positions and the ends of the rows after `consumed` positions, window by window."""
        order = self.plan.order
        for number in range(consumed // order.window, order.windows):
            own = order.at(self.epoch, number)
            left = int(np.searchsorted(own.starts, consumed))
            yield own.starts[left:], own.ends[left:]

    def first_rows(self, count: int) -> tuple[I64, I64]:
        """Return the first positions and the ends of the first `count` rows, and of the same again if these are all."""
        found: list[tuple[I64, I64]] = []
        while count > sum(len(starts) for starts, _ in found):
            found += self.windows()
        starts, ends = (
            (np.concatenate(parts)[:count] for parts in zip(*found, strict=True))
            if found
            else (_NONE,) * 2
        )
        return starts, ends

    def rows_before(self, consumed: int) -> int:
        """Return the number of rows in the first `consumed` positions."""
        order = self.plan.order
        if not consumed:
            return 0
        if consumed >= order.samples:
            return int(order.row_counts(self.epoch)[-1])
        number = consumed // order.window
        inside = np.searchsorted(order.at(self.epoch, number).starts, consumed)
        return order.rows_before(self.epoch, number) + int(inside)

    def rows(self, consumed: int = 0) -> int:
        """Return the number of rows that remain after `consumed` positions."""
        return int(self.plan.order.row_counts(self.epoch)[-1]) - self.rows_before(consumed)

    def all_steps(self, consumed: int = 0) -> int:
        """Return the number of global batches that remain after `consumed` positions."""
        whole, rest = divmod(self.rows(consumed), self.plan.stride)
        return whole + (rest > 0 and not self.plan.drop_last)

    def steps(self, consumed: int = 0) -> int:
        """Return the number of batches that remain for this rank."""
        plan = self.plan
        rest = self.rows(consumed) % plan.stride
        has_none = rest * plan.rank // plan.world_size == rest * (plan.rank + 1) // plan.world_size
        left_out = rest > 0 and has_none and plan.pad is None and not plan.drop_last
        return self.all_steps(consumed) - left_out

    def reads(self, consumed: int = 0) -> int:
        """Return the number of plans that `batches` yields."""
        return self.steps(consumed)

    def consumed(self, consumed: int, steps: int) -> int:
        """Return the positions that all ranks have consumed `steps` batches after `consumed`."""
        if not steps:
            return consumed
        order = self.plan.order
        row = self.rows_before(consumed) + steps * self.plan.stride
        counts = order.row_counts(self.epoch, row)
        if row >= counts[-1]:
            return order.samples
        number = int(np.searchsorted(counts, row, side="right")) - 1
        return int(order.at(self.epoch, number).starts[row - int(counts[number])])

    def is_over(self, consumed: int) -> bool:
        """Return whether no batches remain for any rank after `consumed` positions."""
        if not self.plan.drop_last:
            return consumed >= self.plan.order.samples
        rows = 0
        for starts, _ in self.windows(consumed):
            rows += len(starts)
            if rows >= self.plan.stride:
                return False
        return True


_NONE = np.zeros(0, np.int64)
