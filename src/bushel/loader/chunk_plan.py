"""The plan of chunks: which rows each rank is given at each step. Pure, as `bushel.loader.plan`.

The rows of an epoch are divided among ranks as the samples of a `Plan`. A state counts rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bushel._runtime.order import Sequential
from bushel.loader.chunked import Chunks, RowPieces
from bushel.loader.plan import BatchPlan, Pad, Plan
from bushel.loader.rows import Rows

__all__ = ["ChunkPlan"]

I64 = npt.NDArray[np.int64]

_BATCHES_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """How epochs of chunks are divided among ranks.

    Attributes:
        order: The order of the documents, and how they are cut.
        batch_size: Number of rows in a batch of one rank.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last: Whether to leave out the rows at the end of an epoch that do not fill a global batch.
        pad: See `Plan`.
    """

    order: Chunks
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None

    unit: ClassVar[str] = "rows"
    """What positions count."""

    @property
    def is_even(self) -> bool:
        """Whether all epochs have equally many steps."""
        return self.order.is_even

    @property
    def sizes(self) -> str:
        """The sizes of the batches, in words."""
        return f"batches of {self.batch_size} rows of {self.order.tokens} tokens"

    def at(self, epoch: int) -> Plan:
        """Return the steps of an epoch, in which rows are divided."""
        rows = Sequential(self.order.rows(epoch), self.order.seed)
        return Plan(rows, self.batch_size, self.rank, self.world_size, self.drop_last, self.pad)

    def batches(self, epoch: int, consumed: int = 0) -> Iterator[BatchPlan]:
        """Yield the batches of this rank from `consumed` to the end of the epoch."""
        plans = self.at(epoch).batches(epoch, consumed)
        at_a_time = 1  # so that the first batch need not wait for others
        while own := list(islice(plans, at_a_time)):
            pieces = self.order.pieces(epoch, np.concatenate([plan.positions for plan in own]))
            row = 0
            for plan in own:
                yield _batch(plan, pieces, row)
                row += len(plan.positions)
            at_a_time = _BATCHES_AT_A_TIME


def _batch(plan: BatchPlan, pieces: RowPieces, row: int) -> BatchPlan:
    """Return the batch of some rows, the first of which is number `row` in `pieces`. Each document is there once."""
    ends = pieces.ends[row : row + len(plan.positions)]
    start = int(pieces.ends[row - 1]) if row else 0
    own = slice(start, int(ends[-1]))
    draws, examples, places = np.unique(pieces.draws[own], return_index=True, return_inverse=True)
    first = int(plan.positions[0])
    rows = Rows(ends - start, pieces.begins[own], pieces.counts[own], first, places, pieces.lengths[own])
    return BatchPlan(plan.epoch, draws, pieces.documents[own][examples], plan.consumed, rows)
