"""The order of chunks: documents one after another, cut into rows of a fixed number of tokens.

The rows of an epoch are numbered in the order in which they come; `docs/order.md` specifies which tokens each has.
Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bushel._runtime.order import ORDER_VERSION, Blocks, Exact, Sequential
from bushel._runtime.parallel import map_all
from bushel._runtime.public import public
from bushel._runtime.scheduled import SampleOrder
from bushel._runtime.threads import cpu_count

__all__ = ["Chunked", "Chunks", "Megatron", "MegatronChunks", "RowPieces", "cut"]

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

_WINDOW = 256  # documents whose tokens are counted together
_AT_A_TIME = 256  # windows
_MOST_AT_A_TIME = 4096
_KEPT = 2  # epochs whose counts are remembered
_SEPARATE = 0.80  # of an epoch: a last part of Megatron's data that is smaller is not shuffled with the others


@dataclass(frozen=True, slots=True)
class RowPieces:
    """The pieces of documents in some rows.

    Attributes:
        ends: int64[rows], the number of pieces up to the end of each row.
        draws: int64[pieces], the position of each document in the order of documents.
        documents: int64[pieces], the documents.
        begins: int64[pieces], the first token of each piece in its document.
        counts: int64[pieces], the tokens of each piece, 1 or more.
        lengths: int64[pieces], the tokens of its document.
    """

    ends: I64
    draws: I64
    documents: I64
    begins: I64
    counts: I64
    lengths: I64


def cut(starts: I64, ends: I64, rows: I64, tokens: int) -> tuple[I64, I64, I64, I64]:
    """Cut rows out of documents that follow each other.

    Args:
        starts: int64[n], ascending, the place of the first token of each document.
        ends: int64[n], the place after the last token of each.
        rows: int64[rows], the place of the first token of each row.
        tokens: Tokens of a row.

    Returns:
        int64[rows], the number of pieces up to the end of each row; and for each piece, int64[pieces]: the number of
        its document in `starts`, its first token there, and its number of tokens.
    """
    first = np.searchsorted(ends, rows, side="right")
    sizes = np.searchsorted(starts, rows + tokens, side="left") - first
    row = np.repeat(np.arange(len(rows)), sizes)
    which = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[row]
    begins = np.maximum(rows[row] - starts[which], 0)
    counts = np.minimum(rows[row] + tokens, ends[which]) - starts[which] - begins
    kept = counts > 0  # a document may have no tokens
    return np.cumsum(np.bincount(row[kept], minlength=len(rows))), which[kept], begins[kept], counts[kept]


@dataclass(slots=True)
class _Counted:
    """The counts of an epoch.

    Attributes:
        total: Its tokens.
        head: int64[n + 1], the tokens before each of its first n windows, and after them.
        tail: int64[n + 1], the tokens before each of its last n windows, and all of them.
    """

    total: int
    head: I64
    tail: I64


@dataclass(frozen=True, slots=True, eq=False)
class Chunked:
    """Documents in the order of a base, cut into rows.

    Attributes:
        base: The order of the documents.
        lengths: uint32[documents], the tokens of each.
        tokens: Tokens of a row.
        overlap: Tokens that a row has in common with the one before it; fewer than `tokens`.
        checksum: CRC-32 of the lengths.
    """

    base: SampleOrder
    lengths: U32
    tokens: int
    overlap: int
    checksum: int
    _counts: list[tuple[int, _Counted]] = field(default_factory=list, init=False, repr=False)

    @property
    def seed(self) -> int:
        """The seed of the base."""
        return self.base.seed

    @property
    def version(self) -> str:
        """Kind, parameters, CRC-32 of the lengths, and version. A loader refuses a saved state of another version."""
        return f"chunked({self.tokens},{self.overlap},{self.checksum:08x};{self.base.version})/{ORDER_VERSION}"

    @property
    def is_even(self) -> bool:
        """Whether all epochs have equally many rows."""
        return isinstance(self.base, Sequential | Exact | Blocks)

    def reseeded(self, seed: int) -> Chunked:
        """Return the same order with another seed."""
        return replace(self, base=replace(self.base, seed=seed))

    @property
    def _windows(self) -> int:
        """Number of windows in an epoch."""
        return -(-self.base.samples // _WINDOW)

    def rows(self, epoch: int) -> int:
        """Return the number of rows of an epoch. The tokens after the last whole row are left out."""
        return max(0, self._counted(epoch).total - self.overlap) // (self.tokens - self.overlap)

    def tokens_before(self, epoch: int, low: int, high: int) -> tuple[int, I64]:
        """Return the tokens of an epoch before each of some windows of documents, and before the one after them.

        Windows are counted from the nearer end of the epoch on, and counts are kept.

        Args:
            epoch: Number of the epoch.
            low: The first token of the epoch that the windows must have.
            high: The token after the last one that they must have, if there are as many.

        Returns:
            The number of the first of these windows, and int64[windows + 1].
        """
        counted = self._counted(epoch)
        if 2 * low <= counted.total:
            while counted.head[-1] < high and len(counted.head) <= self._windows:
                self._count_more(epoch, counted, from_end=False)
            return 0, counted.head
        while counted.tail[0] > low:
            self._count_more(epoch, counted, from_end=True)
        return self._windows + 1 - len(counted.tail), counted.tail

    def _counted(self, epoch: int) -> _Counted:
        """Return the counts of an epoch. Epochs that have as many tokens as others need no count of all."""
        for of_epoch, kept in self._counts:
            if of_epoch == epoch:
                return kept
        found = _Counted(0, np.zeros(1, np.int64), np.zeros(1, np.int64))
        if self.is_even:
            found.total = int(self.lengths.sum(dtype=np.int64))
        else:
            while len(found.head) <= self._windows:
                self._count_more(epoch, found, from_end=False)
            found.total = int(found.head[-1])
        found.tail = np.array([found.total], np.int64)
        self._counts[:] = [(epoch, found), *self._counts[: _KEPT - 1]]
        return found

    def _count_more(self, epoch: int, counted: _Counted, *, from_end: bool) -> None:
        """Count the tokens of further windows, of as many as are counted, within limits. Threads may do the same."""
        known = counted.tail if from_end else counted.head
        many = min(max(_AT_A_TIME, len(known)), _MOST_AT_A_TIME, self._windows + 1 - len(known))
        first = self._windows + 1 - len(known) - many if from_end else len(known) - 1

        def count(start: int) -> I64:
            last = min(self.base.samples, min(start + _AT_A_TIME, first + many) * _WINDOW)
            lengths = self.lengths[self.base.take(epoch, np.arange(start * _WINDOW, last, dtype=np.int64))]
            return np.add.reduceat(lengths, np.arange(0, len(lengths), _WINDOW), dtype=np.int64)

        starts = range(first, first + many, _AT_A_TIME)
        parts = map_all(count, starts, workers=cpu_count()) if len(starts) > 1 else map(count, starts)
        sums = np.concatenate(list(parts))
        if from_end:
            counted.tail = np.concatenate([known[0] - np.cumsum(sums[::-1])[::-1], known])
        else:
            counted.head = np.concatenate([known, known[-1] + np.cumsum(sums)])

    def pieces(self, epoch: int, rows: I64) -> RowPieces:
        """Return the pieces of some rows of an epoch."""
        first = rows * (self.tokens - self.overlap)
        skipped, before = self.tokens_before(epoch, int(first.min()), int(first.max()) + self.tokens)
        lows = np.searchsorted(before, first, side="right") - 1
        highs = np.searchsorted(before, first + self.tokens, side="left")
        sizes = highs - lows
        windows = np.unique(np.repeat(highs - np.cumsum(sizes), sizes) + np.arange(int(sizes.sum())))
        draws = ((windows[:, None] + skipped) * _WINDOW + np.arange(_WINDOW)).reshape(-1)
        draws = draws[draws < self.base.samples].astype(np.int64)
        documents = self.base.take(epoch, draws)
        ends = np.cumsum(self.lengths[documents], dtype=np.int64)
        # where each window begins, instead of after the last window that is taken
        number = np.searchsorted(windows, draws // _WINDOW - skipped)
        ends += (before[windows] - np.concatenate([np.zeros(1, np.int64), ends[_window_ends(number)[:-1]]]))[number]
        row_ends, which, begins, counts = cut(ends - self.lengths[documents], ends, first, self.tokens)
        chosen = documents[which]
        return RowPieces(row_ends, draws[which], chosen, begins, counts, self.lengths[chosen].astype(np.int64))

    def places(self, epoch: int, document: int, draws: Sequence[int]) -> list[tuple[int, int]]:
        """Return where the tokens of a document, drawn at some positions of the base, begin and end in the stream."""
        found, counted = list[tuple[int, int]](), self._counted(epoch)
        for draw in draws:
            number = draw // _WINDOW
            others = self.base.take(epoch, np.arange(number * _WINDOW, draw, dtype=np.int64))
            before = self.lengths[others].sum(dtype=np.int64)
            from_end = 2 * number > self._windows and len(counted.head) <= number
            while len(counted.tail if from_end else counted.head) <= (self._windows - number if from_end else number):
                self._count_more(epoch, counted, from_end=from_end)
            own = counted.tail[number - self._windows - 1] if from_end else counted.head[number]
            start = int(own + before)
            found.append((start, start + int(self.lengths[document])))
        return found

    def positions(self, epoch: int, rows: Sequence[int]) -> list[int]:
        """Return the positions of an epoch at which rows come."""
        return list(rows)


def _window_ends(number: I64) -> I64:
    """Return the place of the last document of each window, given the number of the window of each document."""
    return np.append(np.flatnonzero(np.diff(number)), len(number) - 1)


@public("bushel.loader")
@dataclass(frozen=True, slots=True)
class Megatron:
    """The order of Megatron-LM's GPT datasets, for `Loader(chunk_by=...)`.

    All passes through the documents are one epoch. The documents of all passes are shuffled together, and so are the
    rows; if the last pass is needed for less than 80 % of its rows, it is shuffled by itself.

    Attributes:
        rows: Number of rows that training needs (`num_samples`): there are as many passes as that takes. None for one.

    Examples:
        >>> from bushel.loader import Megatron
        >>> Megatron(rows=10_000).rows
        10000
    """

    rows: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and (isinstance(self.rows, bool) or self.rows < 1):
            raise ValueError(f"rows={self.rows!r}: expected 1 or more, or None for one pass")


@dataclass(frozen=True, slots=True, eq=False)
class MegatronChunks:
    """Documents in the order of Megatron-LM, cut into rows, which are shuffled.

    It keeps 20 bytes for each document of each pass, and 8 for each row.

    Attributes:
        order: The order, as the user gives it.
        lengths: uint32[documents], the tokens of each.
        tokens: Tokens of a row.
        overlap: Tokens that a row has in common with the one before it: 1 with `add_extra_token_to_sequence`.
        checksum: CRC-32 of the lengths.
        seed: 0 to 2**32 - 1.
    """

    order: Megatron
    lengths: U32
    tokens: int
    overlap: int
    checksum: int
    seed: int = 0
    is_even: bool = True
    _made: list[tuple[int, I64, I64, I64]] = field(default_factory=list, init=False, repr=False)

    @property
    def base(self) -> Exact:
        """An order that reads documents at random, as this one does."""
        return Exact(len(self.lengths), self.seed)

    @property
    def version(self) -> str:
        """Kind, parameters, CRC-32 of the lengths, and version. A loader refuses a saved state of another version."""
        rows = self.order.rows or "one pass"
        return f"megatron({self.tokens},{self.overlap},{rows},{self.checksum:08x})/{ORDER_VERSION}"

    def reseeded(self, seed: int) -> MegatronChunks:
        """Return the same order with another seed."""
        return replace(self, seed=seed)

    def rows(self, epoch: int) -> int:
        """Return the number of rows of an epoch."""
        step = self.tokens - self.overlap
        return max(0, self._passes() * int(self.lengths.sum(dtype=np.int64)) - self.overlap) // step

    def pieces(self, epoch: int, rows: I64) -> RowPieces:
        """Return the pieces of some rows of an epoch."""
        documents, ends, shuffled = self._indices(epoch)
        first = shuffled[rows] * (self.tokens - self.overlap)
        row_ends, which, begins, counts = cut(ends - self.lengths[documents], ends, first, self.tokens)
        chosen = documents[which]
        return RowPieces(row_ends, which, chosen, begins, counts, self.lengths[chosen].astype(np.int64))

    def places(self, epoch: int, document: int, draws: Sequence[int]) -> list[tuple[int, int]]:
        """Return where the tokens of a document begin and end in the stream, once for each pass."""
        documents, ends, _ = self._indices(epoch)
        length = int(self.lengths[document])
        return [(int(end) - length, int(end)) for end in ends[documents == document]]

    def positions(self, epoch: int, rows: Sequence[int]) -> list[int]:
        """Return the positions of an epoch at which rows come."""
        return [int(place) for place in np.flatnonzero(np.isin(self._indices(epoch)[2], rows))]

    def _passes(self) -> int:
        """Return the number of passes through the documents."""
        step, each = self.tokens - self.overlap, int(self.lengths.sum(dtype=np.int64))
        needed = (self.order.rows or 0) * step + self.overlap
        return max(1, -(-needed // each)) if each and self.order.rows else 1

    def _indices(self, epoch: int) -> tuple[I64, I64, I64]:
        """Return the documents as they come, the place after the last token of each, and the rows as they come."""
        for of_epoch, *kept in self._made:
            if of_epoch == epoch:
                return kept[0], kept[1], kept[2]
        step, passes, each = self.tokens - self.overlap, self._passes(), int(self.lengths.sum(dtype=np.int64))
        rows, alone = self.rows(epoch), 0
        before = ((passes - 1) * each - self.overlap) // step  # rows of all passes but the last
        if passes > 1 and (self.order.rows or 0) - before < int(_SEPARATE * ((each - self.overlap) // step)):
            alone = 1
        draw = np.random.RandomState(self.seed + epoch)
        parts = [np.tile(np.arange(len(self.lengths), dtype=np.int32), own) for own in (passes - alone, alone) if own]
        for part in parts:
            draw.shuffle(part)
        documents = np.concatenate(parts).astype(np.int64)
        ranges = [np.arange(before), np.arange(before, rows)] if alone else [np.arange(rows)]
        for own in ranges:
            draw.shuffle(own)
        shuffled = np.concatenate(ranges)
        ends = np.cumsum(self.lengths[documents], dtype=np.int64)
        self._made[:] = [(epoch, documents, ends, shuffled)]
        return documents, ends, shuffled


Chunks: TypeAlias = Chunked | MegatronChunks
