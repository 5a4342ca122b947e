"""The plan of batches of similar samples: the batch of each rank at each step. Pure, as `bushel.loader.plan.plan`.

The order determines the batches of an epoch and their sequence. At each step, the ranks take the
next ones. The consumed samples are therefore a prefix of the epoch, as with batches of one size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from bushel._runtime.arrays import I64, ranges
from bushel._runtime.structs import Struct
from bushel.loader.order.bucketed import Bucketed
from bushel.loader.plan.plan import BatchPlan, Pad, check_plan

_POSITIONS_AT_A_TIME = 1 << 13


class BucketPlan(Struct, frozen=True):
    """The division of epochs of batches of similar samples among ranks.

    All ranks have equally many steps. If fewer batches than ranks are left for the last step, these
    are divided; if they have fewer samples than there are ranks, several ranks are given the same
    one.

    Attributes:
        order: The order of the batches and their samples.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last: Whether to leave out the last step if fewer batches than ranks are left for it.
        pad: `"wrap"` fills the last step with batches from the start of the epoch.
    """

    order: Bucketed
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None

    is_even: ClassVar[bool] = True
    """Whether all epochs have equally many steps."""

    unit: ClassVar[str] = "samples"
    """The unit of positions."""

    def __post_init__(self) -> None:
        check_plan(self.rank, self.world_size, self.pad, drop_last=self.drop_last)

    @property
    def sizes(self) -> str:
        """The sizes of the batches, in words."""
        sizes = self.order.stops - self.order.starts
        return f"batches of {sizes.min()} to {sizes.max()} samples" if len(sizes) else "no batches"

    def at(self, epoch: int) -> _Epoch:
        """Return the steps of an epoch."""
        return _Epoch(self, epoch)

    def batches(self, epoch: int, consumed: int = 0) -> Iterator[BatchPlan]:
        """Yield the batches of this rank from `consumed` to the end of the epoch."""
        own = self.at(epoch)
        ends, steps = own.left(consumed), own.steps(consumed)
        if not steps:
            return
        bounds = np.concatenate([np.array([consumed], np.int64), ends])
        whole = len(ends) // self.world_size
        each = self.order.samples // len(self.order.starts) + 1
        at_a_time = max(1, _POSITIONS_AT_A_TIME // each)
        for first in range(0, whole, at_a_time):
            last = min(first + at_a_time, whole)
            turns = np.arange(first, last, dtype=np.int64) * self.world_size + self.rank
            begins, sizes = bounds[turns], bounds[turns + 1] - bounds[turns]
            stops = np.cumsum(sizes)
            positions = ranges(begins, sizes)
            samples = self.order.take(epoch, positions)
            until = bounds[np.arange(first + 1, last + 1) * self.world_size].tolist()
            for start, stop, done in zip(
                (stops - sizes).tolist(), stops.tolist(), until, strict=True
            ):
                yield BatchPlan(epoch, positions[start:stop], samples[start:stop], done)
        if whole < steps:
            positions = self._last(bounds[whole * self.world_size :], epoch)
            yield BatchPlan(epoch, positions, self.order.take(epoch, positions), int(bounds[-1]))

    def _last(self, bounds: I64, epoch: int) -> I64:
        """Return the positions of this rank at a last step for which fewer batches than ranks are left."""
        count = len(bounds) - 1
        if self.pad == "wrap":
            if self.rank < count:
                return np.arange(bounds[self.rank], bounds[self.rank + 1], dtype=np.int64)
            ends = self.order.epoch(epoch).ends
            turn = (self.rank - count) % len(ends)
            return np.arange(ends[turn - 1] if turn else 0, ends[turn], dtype=np.int64)
        batch = next(n for n in range(count) if self.rank < self.world_size * (n + 1) // count)
        first = self.world_size * batch // count
        ranks, number = self.world_size * (batch + 1) // count - first, self.rank - first
        start, size = int(bounds[batch]), int(bounds[batch + 1] - bounds[batch])
        if size < ranks:
            return np.array([start + number % size], np.int64)
        return np.arange(
            start + size * number // ranks, start + size * (number + 1) // ranks, dtype=np.int64
        )


class _Epoch(Struct, frozen=True):
    """The steps of an epoch of a `BucketPlan`.

    Attributes:
        plan: The plan.
        epoch: Number of the epoch.
    """

    plan: BucketPlan
    epoch: int

    @property
    def order(self) -> Bucketed:
        """The order of the samples."""
        return self.plan.order

    def left(self, consumed: int) -> I64:
        """Return the positions at which the batches end that are left after `consumed` positions."""
        ends = self.plan.order.epoch(self.epoch).ends
        return ends[np.searchsorted(ends, consumed, side="right") :]

    def all_steps(self, consumed: int = 0) -> int:
        """Return the number of steps that remain after `consumed` positions."""
        whole, rest = divmod(len(self.left(consumed)), self.plan.world_size)
        return whole + (rest > 0 and not self.plan.drop_last)

    def steps(self, consumed: int = 0) -> int:
        """Return the number of batches that remain for this rank: the same on all ranks."""
        return self.all_steps(consumed)

    def reads(self, consumed: int = 0) -> int:
        """Return the number of plans that `batches` yields."""
        return self.all_steps(consumed)

    def consumed(self, consumed: int, steps: int) -> int:
        """Return the positions that all ranks have consumed `steps` batches after `consumed`."""
        left = self.left(consumed)
        return (
            int(left[min(steps * self.plan.world_size, len(left)) - 1])
            if steps and len(left)
            else consumed
        )

    def is_over(self, consumed: int) -> bool:
        """Return whether no batches remain for any rank after `consumed` positions."""
        return not self.all_steps(consumed)
