"""The plan of chunks: the rows of each rank at each step. Pure, as `bushel.loader.plan.plan`.

The rows of an epoch are divided among ranks as the samples of a `Plan`. A state counts rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar

import numpy as np

from bushel._runtime.arrays import offsets_of
from bushel._runtime.order import Sequential
from bushel._runtime.structs import Struct
from bushel.loader.order.chunks import Chunks, RowPieces
from bushel.loader.plan.plan import BatchPlan, Pad, Plan
from bushel.loader.values.rows import Rows

_BATCHES_AT_A_TIME = 16


class ChunkPlan(Struct, frozen=True):
    """The division of epochs of chunks among ranks.

    Attributes:
        order: The order of the documents, and how they are cut.
        batch_size: Number of rows in a batch of one rank.
        rank: Rank of this process.
        world_size: Number of ranks.
        drop_last: Whether to leave out the rows at the end of an epoch that do not fill a global
            batch.
        pad: See `Plan`.
    """

    order: Chunks
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: Pad = None

    unit: ClassVar[str] = "rows"
    """The unit of positions."""

    @property
    def is_even(self) -> bool:
        """Whether all epochs have equally many steps."""
        return self.order.is_even

    @property
    def sizes(self) -> str:
        """The sizes of the batches, in words."""
        return f"batches of {self.batch_size} rows of {self.order.tokens} tokens"

    @property
    def stride(self) -> int:
        """Number of rows in a global batch."""
        return self.batch_size * self.world_size

    def at(self, epoch: int, until: int | None = None) -> Plan:
        """Return the steps of an epoch, in which rows are divided. With `until`, the epoch may end after this row."""
        rows = Sequential(self.order.rows(epoch, until), self.order.seed)
        return Plan(rows, self.batch_size, self.rank, self.world_size, self.drop_last, self.pad)

    def batches(
        self, epoch: int, consumed: int = 0, until: int | None = None
    ) -> Iterator[BatchPlan]:
        """Yield the batches of this rank from `consumed` to the end of the epoch, or to the row `until`."""
        plans = self.at(epoch, until).batches(epoch, consumed)
        at_a_time = 1  # so that the first batch need not wait for others
        while own := list(islice(plans, at_a_time)):
            pieces = self.order.pieces(epoch, np.concatenate([plan.positions for plan in own]))
            yield from _batches(own, pieces)
            at_a_time = _BATCHES_AT_A_TIME


def _batches(plans: Sequence[BatchPlan], pieces: RowPieces) -> Iterator[BatchPlan]:
    """Yield the batches of plans of rows, whose pieces are given one after another. Each document occurs once."""
    rows = offsets_of(len(plan.positions) for plan in plans)
    ends = np.concatenate([np.zeros(1, np.int64), pieces.ends])[rows]
    # one search for all batches: what the same document is in another batch is another number
    number = np.repeat(np.arange(len(plans)), np.diff(ends)) * (
        int(pieces.draws.max(initial=0)) + 1
    )
    _, examples, places = np.unique(number + pieces.draws, return_index=True, return_inverse=True)
    firsts = np.searchsorted(np.sort(examples), ends)
    draws, documents = pieces.draws[examples], pieces.documents[examples]
    for at, plan in enumerate(plans):
        row, start, end, first, last = rows[at], ends[at], ends[at + 1], firsts[at], firsts[at + 1]
        own = Rows(
            pieces.ends[row : rows[at + 1]] - start,
            pieces.begins[start:end],
            pieces.counts[start:end],
            int(plan.positions[0]),
            places[start:end] - first,
            pieces.lengths[start:end],
        )
        yield BatchPlan(plan.epoch, draws[first:last], documents[first:last], plan.consumed, own)
