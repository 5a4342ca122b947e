"""Plans: the positions of an epoch that each batch of each rank holds. Pure: no I/O, no clock, no state.

Global batch t of an epoch is the next `batch_size * world_size` positions of the order, which the
ranks divide among themselves. The consumed samples are therefore at any time a prefix of the epoch:
a single number says where any number of ranks, with any batch size, continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.order import Balanced, Weighted
from bushel._runtime.scheduled import SampleOrder
from bushel._runtime.structs import Struct
from bushel.loader.values.rows import Rows

Pad = Literal["wrap"] | None

# computing the order for single positions costs a hundred times more
_POSITIONS_AT_A_TIME = 1 << 13


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

    @property
    def first(self) -> int:
        """A number that no other batch of the epoch has: the first of its positions."""
        return int(self.positions[0]) if self.rows is None else self.rows.first


def check_plan(rank: int, world_size: int, pad: Pad, *, drop_last: bool) -> None:
    """Check what all plans have.

    Raises:
        ValueError: An argument is out of its range, or `drop_last` and `pad` contradict each other.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}: expected 0 to {world_size - 1}")
    if pad not in (None, "wrap"):
        raise ValueError(f'unknown pad={pad!r}: expected "wrap" or None')
    if drop_last and pad:
        raise ValueError(
            "drop_last leaves out the last batch and pad fills it: give only one of them"
        )


class Plan(Struct, frozen=True):
    """How epochs are divided into batches.

    Attributes:
        order: The order of the samples.
        batch_size: Number of samples in a batch of one rank.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last: Whether to leave out the positions at the end of an epoch that do not fill a
            global batch.
        pad: `"wrap"` fills the last global batch with positions from the start of the epoch. With
            None, the ranks share the remaining positions as evenly as possible, and some may have
            one batch fewer.
        steps_per_read: Number of steps whose batches are planned as one; above 1 only without a
            batch size.
    """

    order: SampleOrder
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None
    steps_per_read: int = 1

    is_even: ClassVar[bool] = True
    """Whether all epochs have equally many steps."""

    unit: ClassVar[str] = "samples"
    """The unit of positions."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: expected 1 or more")
        check_plan(self.rank, self.world_size, self.pad, drop_last=self.drop_last)

    @property
    def sizes(self) -> str:
        """The sizes of the batches, in words."""
        return f"batches of {self.batch_size}"

    def at(self, epoch: int) -> Self:
        """Return the steps of an epoch: the plan itself, since all epochs have the same."""
        return self

    @property
    def stride(self) -> int:
        """Number of positions in a global batch."""
        return self.batch_size * self.world_size

    def all_steps(self, consumed: int = 0) -> int:
        """Return the number of global batches that remain of an epoch after `consumed` positions."""
        whole, rest = divmod(max(0, self.order.samples - consumed), self.stride)
        return whole + (rest > 0 and not self.drop_last)

    def steps(self, consumed: int = 0) -> int:
        """Return the number of batches that remain for this rank after `consumed` positions of an epoch."""
        steps = self.all_steps(consumed)
        return steps - (steps > 0 and not len(self.positions(consumed, steps - 1)))

    def batches(self, epoch: int, consumed: int = 0) -> Iterator[BatchPlan]:
        """Yield the batches of this rank from `consumed` to the end of the epoch."""
        steps = self.steps(consumed)
        at_a_time = (
            max(1, _POSITIONS_AT_A_TIME // (self.batch_size * self.steps_per_read))
            * self.steps_per_read
        )
        for first in range(0, steps, at_a_time):
            last = min(first + at_a_time, steps)
            positions, sizes = self._positions(consumed, first, last)
            samples = self.order.take(epoch, positions)
            ends = np.cumsum(sizes)[self.steps_per_read - 1 :: self.steps_per_read].tolist()
            start = 0
            for number, end in enumerate([*ends, len(positions)], 1):
                if start < end:
                    step = min(first + number * self.steps_per_read, last)
                    yield BatchPlan(
                        epoch,
                        positions[start:end],
                        samples[start:end],
                        self.consumed(consumed, step),
                    )
                start = end

    def _positions(self, consumed: int, first: int, last: int) -> tuple[I64, list[int]]:
        """Return this rank's positions of some steps, one after another, and their number in each step."""
        # all are full: the usual case, without a loop
        if consumed + last * self.stride <= self.order.samples:
            starts = (
                consumed
                + np.arange(first, last, dtype=np.int64) * self.stride
                + self.rank * self.batch_size
            )
            whole = starts[:, None] + np.arange(self.batch_size, dtype=np.int64)
            return whole.reshape(-1), [self.batch_size] * (last - first)
        parts = [self.positions(consumed, step) for step in range(first, last)]
        return np.concatenate(parts), [len(part) for part in parts]

    def reads(self, consumed: int = 0) -> int:
        """Return the number of plans that `batches` yields."""
        return -(-self.steps(consumed) // self.steps_per_read)

    def positions(self, consumed: int, step: int) -> I64:
        """Return the positions of this rank's batch number `step`, counted from `consumed`."""
        start = consumed + step * self.stride
        left = self.order.samples - start
        if left >= self.stride or self.pad == "wrap":
            first, last = self.rank * self.batch_size, (self.rank + 1) * self.batch_size
            return np.arange(start + first, start + last, dtype=np.int64) % self.order.samples
        first, last = self._share(left)
        return np.arange(start + first, start + last, dtype=np.int64)

    def consumed(self, consumed: int, steps: int) -> int:
        """Return the positions that all ranks have consumed `steps` batches after `consumed`."""
        return min(self.order.samples, consumed + steps * self.stride)

    def is_over(self, consumed: int) -> bool:
        """Return whether no batches remain for any rank after `consumed` positions."""
        return not self.all_steps(consumed)

    def _share(self, left: int) -> tuple[int, int]:
        """Return this rank's part of a last global batch that is not full."""
        return left * self.rank // self.world_size, left * (self.rank + 1) // self.world_size


def draws_of(order: object, plan: BatchPlan) -> I64 | None:
    """Return the positions that seed the random numbers of transforms, if samples repeat within an epoch."""
    own = getattr(order, "base", order)
    return plan.positions if isinstance(own, Weighted | Balanced) else None
