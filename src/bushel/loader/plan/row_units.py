"""Units of more than one sample: rows of packs and chunks, and batches of similar samples. Pure, as `plan`.

Orders also say here which samples may replace a bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.draws import Balanced, Weighted
from bushel._runtime.scheduled import Scheduled
from bushel.errors import TooManyErrors
from bushel.loader.order.bucketed import Bucketed
from bushel.loader.order.chunks import RowPieces
from bushel.loader.order.packed import Packed
from bushel.loader.values.bad_samples import ErrorReport
from bushel.loader.values.rows import Rows

from .plan import POSITIONS_AT_A_TIME, BatchPlan, UnitBatches, Units

if TYPE_CHECKING:
    from .plan import AnyOrder

_BATCHES_AT_A_TIME = 16  # of rows


class Buckets(Units, frozen=True):
    """Batches of similar samples.

    All ranks have equally many steps. If fewer batches than ranks are left for the last step, these
    are divided; if they have fewer samples than there are ranks, several ranks are given the same
    one.
    """

    def sizes(self, batch_size: int) -> str:
        """Return the sizes of batches, in words."""
        sizes = self.order.stops - self.order.starts
        if len(sizes):
            return f"batches of {sizes.min()} to {sizes.max()} samples"
        return "no batches"

    def at_a_time(self, batch_size: int) -> int:
        """Return the number of batches that are planned together."""
        samples: int = self.order.samples // max(1, len(self.order.starts)) + 1
        return max(1, POSITIONS_AT_A_TIME // samples)

    def borders(self, consumed: int = 0) -> Iterator[I64]:
        """Yield the borders of the units after a position: int64[units + 1]."""
        ends = self.order.epoch(self.epoch).ends
        left = ends[np.searchsorted(ends, consumed, side="right") :]
        if len(left):
            yield np.append(consumed, left)

    def count(self, consumed: int = 0) -> int:
        """Return the number of units after a position."""
        return sum(len(borders) - 1 for borders in self.borders(consumed))

    def position(self, consumed: int, units: int) -> int:
        """Return the position that is some units after another one."""
        for borders in self.borders(consumed):
            return int(borders[min(units, len(borders) - 1)])
        return consumed

    def share(self, borders: I64, rank: int, world_size: int) -> tuple[I64, I64]:
        """Return where a rank's units begin and end, if fewer are left than the last step needs."""
        left = len(borders) - 1
        batch = next(number for number in range(left) if rank < world_size * (number + 1) // left)
        first = world_size * batch // left
        ranks, place = world_size * (batch + 1) // left - first, rank - first
        start, size = int(borders[batch]), int(borders[batch + 1] - borders[batch])
        if size < ranks:
            low, high = place % size, place % size + 1
        else:
            low, high = size * place // ranks, size * (place + 1) // ranks
        return np.array([start + low], np.int64), np.array([start + high], np.int64)

    def has_share(self, left: int, rank: int, world_size: int) -> bool:
        """Return True: all ranks have a share."""
        return True

    def plans(self, batches: UnitBatches) -> Iterator[BatchPlan]:
        """Yield the plans of batches: which samples they have."""
        return self._plans(batches, *batches.positions)


class _SharedRows(Units, frozen=True):
    """Rows that several documents share."""

    def sizes(self, batch_size: int) -> str:
        """Return the sizes of batches, in words."""
        return f"batches of {batch_size} rows of {self.order.tokens} tokens"

    @property
    def is_even(self) -> bool:
        """Whether all epochs of the order have equally many units."""
        return bool(self.order.is_even)

    def at_a_time(self, batch_size: int) -> int:
        """Return the number of batches that are planned together."""
        return _BATCHES_AT_A_TIME


class PackedRows(_SharedRows, frozen=True):
    """Rows of packs. They are planned window by window, so the first batch takes as long wherever it is."""

    unit = "pieces"

    def borders(self, consumed: int = 0) -> Iterator[I64]:
        """Yield the borders of the units after a position: int64[units + 1]."""
        for number in range(consumed // self.order.window, self.order.windows):
            window = self.order.at(self.epoch, number)
            first = int(np.searchsorted(window.starts, consumed))
            if first < len(window.ends):
                yield np.append(window.starts[first:], window.ends[-1])

    def count(self, consumed: int = 0) -> int:
        """Return the number of units after a position."""
        return int(self.order.row_counts(self.epoch)[-1]) - self._rows_before(consumed)

    def position(self, consumed: int, units: int) -> int:
        """Return the position that is some units after another one."""
        row = self._rows_before(consumed) + units
        counts = self.order.row_counts(self.epoch, row)
        if row >= counts[-1]:
            return self.positions
        number = int(np.searchsorted(counts, row, side="right")) - 1
        return int(self.order.at(self.epoch, number).starts[row - int(counts[number])])

    def plans(self, batches: UnitBatches) -> Iterator[BatchPlan]:
        """Yield the plans of batches: which samples they have."""
        positions, starts = batches.positions
        pieces = self.order.pieces
        samples, begins = pieces.documents(self.order.take_pieces(self.epoch, positions))
        row_ends = np.cumsum(batches.ends - batches.begins)
        for number, consumed in enumerate(batches.consumed):
            first, end = starts[number], starts[number + 1]
            ends = row_ends[batches.borders[number] : batches.borders[number + 1]] - first
            limits = np.full(int(end - first), pieces.limit, np.int64)
            rows = Rows(ends, begins[first:end], limits, int(positions[first]))
            yield BatchPlan(self.epoch, positions[first:end], samples[first:end], consumed, rows)

    def _rows_before(self, consumed: int) -> int:
        """Return the number of rows in the first `consumed` positions."""
        if not consumed:
            return 0
        if consumed >= self.positions:
            return int(self.order.row_counts(self.epoch)[-1])
        number = consumed // self.order.window
        inside = np.searchsorted(self.order.at(self.epoch, number).starts, consumed)
        return int(self.order.rows_before(self.epoch, number) + inside)


class ChunkRows(_SharedRows, frozen=True):
    """Rows of chunks. A state counts rows."""

    unit = "rows"

    @property
    def positions(self) -> int:
        """Number of rows of the epoch."""
        return int(self.order.rows(self.epoch, self.until))

    def plans(self, batches: UnitBatches) -> Iterator[BatchPlan]:
        """Yield the plans of batches; a document occurs once in each batch."""
        pieces: RowPieces = self.order.pieces(self.epoch, batches.begins)
        borders = batches.borders
        ends = np.append(0, pieces.ends)[borders]
        # one search for all batches: what the same document is in another batch is another number
        batch = np.repeat(np.arange(len(batches.consumed)), np.diff(ends))
        number = batch * (int(pieces.draws.max(initial=0)) + 1) + pieces.draws
        _, examples, places = np.unique(number, return_index=True, return_inverse=True)
        firsts = np.searchsorted(np.sort(examples), ends)
        draws, documents = pieces.draws[examples], pieces.documents[examples]
        for at, consumed in enumerate(batches.consumed):
            row, start, end, first = borders[at], ends[at], ends[at + 1], firsts[at]
            mine = slice(first, firsts[at + 1])
            rows = Rows(
                pieces.ends[row : borders[at + 1]] - start,
                pieces.begins[start:end],
                pieces.counts[start:end],
                int(batches.begins[row]),
                places[start:end] - first,
                pieces.lengths[start:end],
            )
            yield BatchPlan(self.epoch, draws[mine], documents[mine], consumed, rows)


def following(order: Any, epoch: int, position: int) -> Iterator[BatchPlan]:
    """Yield the samples that may replace the one at a position of an epoch, each as a batch; not in chunks."""
    if isinstance(order, Packed):
        for piece in order.smaller(epoch, position):
            samples, begins = order.pieces.documents(np.array([piece], np.int64))
            rows = Rows(
                np.ones(1, np.int64), begins, np.full(1, order.pieces.limit, np.int64), position
            )
            yield BatchPlan(epoch, np.array([position], np.int64), samples, 0, rows)
        return
    if isinstance(order, Bucketed):
        for sample in order.similar(epoch, position):
            yield BatchPlan(epoch, np.array([position], np.int64), np.array([sample], np.int64), 0)
        return
    for number in range(position + 1, position + order.samples):
        positions = np.array([number % order.samples], np.int64)
        yield BatchPlan(epoch, positions, order.take(epoch, positions), 0)


def nothing_left(order: AnyOrder, epoch: int, report: ErrorReport) -> TooManyErrors:
    """Return the error that no sample is left to replace another."""
    if isinstance(order, Bucketed):
        which = "samples that are not longer"
    else:
        which = f"samples of epoch {epoch}"
    if isinstance(order, Weighted | Balanced | Scheduled):
        which = f"samples that epoch {epoch} draws"
    first = f", such as {bad[0]}" if (bad := report.bad_samples()) else ""
    return TooManyErrors(
        f"all {which} are bad{first}, so none can replace another: see the loader's `errors`"
    )
