"""Plans: which positions of an epoch every batch of every rank holds. Pure: no I/O, no clock, no state.

Global batch t of an epoch is the next `batch_size * world_size` positions of the order, and the ranks cut it among
themselves. So what has been seen at any time is a prefix of the epoch: one number says where to go on, and any number
of ranks, with any batch size, can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bushel.core.order import Order

__all__ = ["BatchPlan", "Pad", "Plan"]

I64 = npt.NDArray[np.int64]

Pad = Literal["wrap"] | None

_AHEAD = 1 << 13  # positions for which the order is computed at a time: one by one it costs a hundred times more


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch of one rank.

    Attributes:
        epoch: The epoch it belongs to.
        positions: int64[n], positions of the order.
        samples: int64[n], the samples there.
        consumed: Positions of the epoch that all ranks have consumed once this batch is.
    """

    epoch: int
    positions: I64
    samples: I64
    consumed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How epochs are cut into batches.

    Attributes:
        order: The order of the samples.
        batch_size: Samples in a batch of one rank.
        rank: Which of the ranks this is.
        world_size: Number of ranks.
        drop_last: Leave out the positions at an epoch's end that do not fill a global batch.
        pad: What fills the last global batch: positions from the epoch's start (`"wrap"`), or nothing (None). With
            nothing, the ranks share what is left as evenly as it goes, and some may have one batch fewer.
        together: Steps whose batches are planned as one: more than 1 only where samples are handed out one by one.
    """

    order: Order
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None
    together: int = 1

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is at least 1: {self.batch_size}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} of {self.world_size}: ranks are counted from 0")
        if self.pad not in (None, "wrap"):
            raise ValueError(f'pad is "wrap" or None: {self.pad!r}')
        if self.drop_last and self.pad:
            raise ValueError("drop_last leaves the last batch out, pad fills it: choose one")

    @property
    def stride(self) -> int:
        """Positions in a global batch."""
        return self.batch_size * self.world_size

    def all_steps(self, consumed: int = 0) -> int:
        """Global batches that are left of an epoch of which all ranks have consumed this much."""
        whole, rest = divmod(max(0, self.order.samples - consumed), self.stride)
        return whole + (rest > 0 and not self.drop_last)

    def steps(self, consumed: int = 0) -> int:
        """Batches that this rank still gets in an epoch of which all ranks have consumed this much."""
        steps = self.all_steps(consumed)
        return steps - (steps > 0 and not len(self.positions(consumed, steps - 1)))

    def batches(self, epoch: int, consumed: int = 0) -> Iterator[BatchPlan]:
        """The batches of this rank from there to the end of the epoch, computed as they are asked for."""
        steps = self.steps(consumed)
        ahead = max(1, _AHEAD // (self.batch_size * self.together)) * self.together
        for first in range(0, steps, ahead):
            last = min(first + ahead, steps)
            parts = [self.positions(consumed, step) for step in range(first, last)]
            positions = np.concatenate(parts)
            samples = self.order.take(epoch, positions)
            ends = np.cumsum([len(part) for part in parts])[self.together - 1 :: self.together].tolist()
            start = 0
            for number, end in enumerate([*ends, len(positions)], 1):
                if start < end:
                    step = min(first + number * self.together, last)
                    yield BatchPlan(epoch, positions[start:end], samples[start:end], self.consumed(consumed, step))
                start = end

    def reads(self, consumed: int = 0) -> int:
        """How many plans `batches` makes."""
        return -(-self.steps(consumed) // self.together)

    def positions(self, consumed: int, step: int) -> I64:
        """The positions of this rank's batch number `step`, counted from `consumed`."""
        start = consumed + step * self.stride
        left = self.order.samples - start
        if left >= self.stride or self.pad == "wrap":
            first, last = self.rank * self.batch_size, (self.rank + 1) * self.batch_size
            return np.arange(start + first, start + last, dtype=np.int64) % self.order.samples
        first, last = self._share(left)
        return np.arange(start + first, start + last, dtype=np.int64)

    def consumed(self, consumed: int, steps: int) -> int:
        """Positions that all ranks have consumed that many batches later."""
        return min(self.order.samples, consumed + steps * self.stride)

    def is_over(self, consumed: int) -> bool:
        """Whether no rank gets another batch in an epoch of which this much is consumed."""
        return not self.all_steps(consumed)

    def _share(self, left: int) -> tuple[int, int]:
        """This rank's part of a last global batch that is not full."""
        return left * self.rank // self.world_size, left * (self.rank + 1) // self.world_size
