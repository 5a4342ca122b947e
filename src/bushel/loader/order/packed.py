"""The order of packs: documents that share rows of a fixed number of tokens.

The documents come in the order of a base, a permutation for example. Each window of it is packed by
itself, by first fit decreasing. So any place of an epoch is found by planning a single window.
`docs/order.md` specifies the order. Nothing here does I/O.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._runtime.arrays import I64, U32, Array, offsets_of, ranges
from bushel._runtime.order import ORDER_VERSION, PACKS, Permutation, Sequential, derive
from bushel._runtime.parallel import map_all
from bushel._runtime.scheduled import SampleOrder, look_up
from bushel._runtime.threads import cpu_count
from bushel.loader.values.rows import WHOLE

ALL = 1 << 62
"""More windows, or a larger sum, than an epoch has."""
_EPOCHS_KEPT = 2  # epochs whose sums are kept


class WindowSums:
    """The sums before each window of an epoch, of the last epochs that were asked for. Thread-safe.

    Args:
        windows: Number of windows of an epoch.
        together: Number of windows that are counted by one call.
        count: Returns the sum of each of some windows, given the epoch, the first of them and the
            window after the last one.
    """

    def __init__(self, windows: int, together: int, count: Callable[[int, int, int], I64]) -> None:
        self.windows, self._together, self._count = windows, together, count
        self.kept: list[tuple[int, I64]] = []

    def before(self, epoch: int, windows: int = 0, total: int = 0) -> I64:
        """Return the sums before the first windows of an epoch, and after them: int64[n + 1].

        There are at least `windows` of them with at least this total, if the epoch has as many.
        """
        other_epochs = [sums for sums in self.kept if sums[0] != epoch]
        before = dict(self.kept).get(epoch, np.zeros(1, np.int64))
        while len(before) <= self.windows and (len(before) <= windows or before[-1] < total):
            # some for each processor, or as many as before
            first = len(before) - 1
            last = min(self.windows, first + max(self._together * cpu_count(), first))
            counts = self._counts(epoch, first, last)
            before = np.concatenate([before, before[-1] + np.cumsum(counts)])
        self.kept[:] = [(epoch, before), *other_epochs[: _EPOCHS_KEPT - 1]]
        return before

    def _counts(self, epoch: int, first: int, last: int) -> I64:
        """Count some windows, in threads."""
        together = self._together

        def count(start: int) -> I64:
            return self._count(epoch, start, min(start + together, last))

        return np.concatenate(map_all(count, range(first, last, together), threads=cpu_count()))


Longer = Literal["error", "cut", "split"]
"""Treatment of documents that are longer than a row."""

_ROWS = 512  # of a window, about: the last ones of each are not full
# documents of a window; planning the largest takes some milliseconds
_LEAST, _MOST = 1 << 12, 1 << 17
_WINDOWS_OF_A_TASK = 4  # whose rows are counted together
_KEPT = 2  # windows that are remembered


class Pieces(Struct, frozen=True, eq=False):
    """The pieces of documents that are packed: each document as one, or the parts of long ones.

    Attributes:
        costs: uint32[pieces], the tokens that each piece takes in a row.
        limit: The most tokens of a piece that is a part of its document; `WHOLE` if all pieces are
            whole documents.
        firsts: int64[documents + 1], the first piece of each document; None if each document is one
            piece.
    """

    costs: U32
    limit: int = WHOLE
    firsts: I64 | None = None

    def __len__(self) -> int:
        """Number of pieces."""
        return len(self.costs)

    def documents(self, pieces: I64) -> tuple[I64, I64]:
        """Return the document of each piece, and the first token of the piece in it."""
        if self.firsts is None:
            return pieces, np.zeros_like(pieces)
        documents = np.searchsorted(self.firsts, pieces, side="right") - 1
        return documents, (pieces - self.firsts[documents]) * self.limit


def pieces_of(lengths: Array, tokens: int, longer: Longer) -> Pieces:
    """Return the pieces of documents.

    Args:
        lengths: Whole numbers [documents], 0 or more.
        tokens: Tokens of a row, 1 to 2**31 - 1.
        longer: What to do with documents that have more tokens. With `"error"` there must be none.
    """
    if longer == "error" or not len(lengths) or int(lengths.max()) <= tokens:
        return Pieces(lengths.astype(np.uint32))
    if longer == "cut":
        return Pieces(np.minimum(lengths, tokens).astype(np.uint32), tokens)
    counts = np.maximum(-(-lengths.astype(np.int64) // tokens), 1)
    firsts = offsets_of(counts)
    costs = np.full(int(firsts[-1]), tokens, np.uint32)
    costs[firsts[1:] - 1] = lengths - (counts - 1) * tokens
    return Pieces(costs, tokens, firsts)


def usual_window(costs: U32, tokens: int) -> int:
    """Return the number of pieces in a window: a power of two, for about 512 rows or more."""
    mean = max(1.0, float(costs.sum(dtype=np.uint64)) / max(1, len(costs)))
    window = _LEAST
    while window < _MOST and window * mean < _ROWS * tokens:
        window *= 2
    return window


class Window(Struct, frozen=True):
    """The rows of one window.

    Attributes:
        start: Position of its first piece.
        pieces: int64[n], the pieces of the first row, then the pieces of the second one, …
        ends: int64[rows], the position after the last piece of each row.
    """

    start: int
    pieces: I64
    ends: I64

    @property
    def starts(self) -> I64:
        """int64[rows], the position of the first piece of each row."""
        return np.append(self.start, self.ends[:-1])


class Packed(Struct, frozen=True, eq=False, dict=True):
    """Rows of documents. A position counts pieces: the pieces of a row follow each other, and the rows of a window.

    Attributes:
        base: The order in which pieces are divided into windows.
        pieces: The pieces.
        tokens: The tokens of a row.
        window: Number of pieces in a window; the last one may have fewer.
        checksum: CRC-32 of the costs.
    """

    base: SampleOrder
    pieces: Pieces
    tokens: int
    window: int
    checksum: int
    is_even: ClassVar[bool] = False
    """Whether all epochs have equally many rows."""

    @property
    def samples(self) -> int:
        """Pieces in an epoch."""
        return self.base.samples

    @property
    def seed(self) -> int:
        """The seed of the base."""
        return self.base.seed

    @property
    def windows(self) -> int:
        """Number of windows in an epoch."""
        return -(-self.samples // self.window)

    @property
    def version(self) -> str:
        """Kind, parameters, CRC-32 of the costs, and version. A loader refuses a saved state of another version."""
        if self.pieces.limit == WHOLE:
            cut = ""
        elif self.pieces.firsts is None:
            cut = ",cut"
        else:
            cut = ",split"
        parameters = f"{self.tokens},{self.window}{cut},{self.checksum:08x}"
        return f"packed({parameters};{self.base.version})/{ORDER_VERSION}"

    @cached_property
    def at(self) -> Callable[[int, int], Window]:
        """Returns the rows of a window of an epoch, given both numbers. The last ones are remembered."""
        return lru_cache(maxsize=_KEPT)(self._planned)

    def _planned(self, epoch: int, number: int) -> Window:
        start = number * self.window
        pieces = self.base.take(epoch, np.arange(start, min(start + self.window, self.samples)))
        order, ends = kernels.pack_rows(self.pieces.costs[pieces], self.tokens)
        # the first rows of first fit decreasing have the longest documents
        if not isinstance(self.base, Sequential):
            key = derive(ORDER_VERSION, PACKS, len(ends), self.seed, epoch, number)
            rows = Permutation(len(ends), key).take(np.arange(len(ends)))
            sizes = np.diff(ends, prepend=0)[rows]
            starts = ends[rows] - sizes
            ends = np.cumsum(sizes)
            order = order[ranges(starts, sizes)]
        return Window(start, pieces[order], ends + start)

    @cached_property
    def _rows(self) -> WindowSums:
        """The rows before each window."""
        return WindowSums(self.windows, _WINDOWS_OF_A_TASK, self._count)

    def _count(self, epoch: int, first: int, last: int) -> I64:
        """Return the number of rows of some windows."""
        stop = min(last * self.window, self.samples)
        costs = look_up(self.base, self.pieces.costs, epoch, first * self.window, stop, self.window)
        return kernels.count_rows(costs, self.window, self.tokens)

    def row_counts(self, epoch: int, row: int | None = None) -> I64:
        """Return int64[windows + 1]: the number of rows of an epoch before each window, and in all.

        This counts the rows of the whole epoch, in threads: 10 million documents take about 0.3
        seconds of processor time. With `row`, windows are counted until one has this row, and the
        counts of those after it may be left out. Counts are kept.
        """
        return self._rows.before(epoch, total=ALL if row is None else row + 1)

    def rows_before(self, epoch: int, number: int) -> int:
        """Return the number of rows of an epoch before a window. This counts the rows of those before it."""
        return int(self._rows.before(epoch, windows=number)[number])

    def take_pieces(self, epoch: int, positions: I64) -> I64:
        """Return the pieces at positions of an epoch: int64[n] to int64[n]."""
        numbers = positions // self.window
        pieces = np.empty_like(positions)
        for number in np.unique(numbers).tolist():
            window, chosen = self.at(epoch, number), numbers == number
            pieces[chosen] = window.pieces[positions[chosen] - window.start]
        return pieces

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples whose pieces are at positions of an epoch: int64[n] to int64[n]."""
        return self.pieces.documents(self.take_pieces(epoch, positions))[0]

    def smaller(self, epoch: int, position: int) -> Iterator[int]:
        """Yield the pieces that are not larger than the one at a position: those after it, then those before it."""
        [size] = self.pieces.costs[self.take_pieces(epoch, np.array([position], np.int64))].tolist()
        window, first = self.at(epoch, position // self.window), position // self.window
        place = position - window.start
        later_windows = (
            self.at(epoch, number).pieces
            for number in (*range(first + 1, self.windows), *range(first))
        )
        for pieces in itertools.chain(
            [window.pieces[place + 1 :]], later_windows, [window.pieces[:place]]
        ):
            yield from pieces[self.pieces.costs[pieces] <= size].tolist()
