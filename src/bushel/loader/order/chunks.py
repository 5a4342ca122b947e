"""Orders of chunks: documents one after another, cut into rows of one length; and the order of Megatron-LM.

`docs/order.md` specifies both. Megatron-LM shuffles documents and rows by NumPy's legacy generator.
Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._runtime.arrays import I32, I64, U32, check_count, offsets_of, ranges
from bushel._runtime.order import ORDER_VERSION, Exact, OncePerEpoch
from bushel._runtime.public import public
from bushel._runtime.scheduled import SampleOrder, look_up

from .packed import ALL, WindowSums

_WINDOW = 256  # documents whose tokens are counted together
_AT_A_TIME = 256  # windows
_MEGATRON_WINDOW = 64  # documents whose tokens are counted together
# of an epoch: a last part of the data that is smaller is not shuffled with the others
_SEPARATE = 0.80


class RowPieces(Struct, frozen=True):
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
        int64[rows], the number of pieces up to the end of each row; and for each piece,
        int64[pieces]: the number of its document in `starts`, its first token there, and its number
        of tokens.
    """
    first = np.searchsorted(ends, rows, side="right")
    sizes = np.searchsorted(starts, rows + tokens, side="left") - first
    row = np.repeat(np.arange(len(rows)), sizes)
    which = ranges(first, sizes)
    begins = np.maximum(rows[row] - starts[which], 0)
    counts = np.minimum(rows[row] + tokens, ends[which]) - starts[which] - begins
    full = counts > 0  # a document may have no tokens
    return (
        np.cumsum(np.bincount(row[full], minlength=len(rows))),
        which[full],
        begins[full],
        counts[full],
    )


class Chunked(Struct, frozen=True, eq=False, dict=True):
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
        return isinstance(self.base, OncePerEpoch)

    def rows(self, epoch: int, until: int | None = None) -> int:
        """Return the number of rows of an epoch. The tokens after the last whole row are left out.

        With `until`, the answer is `until` if the epoch has at least as many, and rows after these
        need not be counted.
        """
        step = self.tokens - self.overlap
        if self.is_even:
            tokens = self._total
        else:
            most = ALL if until is None else until * step + self.overlap
            tokens = int(self.sums.before(epoch, total=most)[-1])
        rows = max(0, tokens - self.overlap) // step
        if until is None:
            return rows
        return min(rows, until)

    @cached_property
    def _total(self) -> int:
        """The tokens of all documents."""
        return int(self.lengths.sum(dtype=np.int64))

    @cached_property
    def sums(self) -> WindowSums:
        """The tokens before each window of documents."""
        return WindowSums(-(-self.base.samples // _WINDOW), _AT_A_TIME, self._count)

    def _count(self, epoch: int, first: int, last: int) -> I64:
        """Return the tokens of some windows."""
        stop = min(self.base.samples, last * _WINDOW)
        lengths = look_up(self.base, self.lengths, epoch, first * _WINDOW, stop)
        return np.add.reduceat(lengths, np.arange(0, len(lengths), _WINDOW), dtype=np.int64)

    def pieces(self, epoch: int, rows: I64) -> RowPieces:
        """Return the pieces of some rows of an epoch."""
        first = rows * (self.tokens - self.overlap)
        counted = Counted(
            _WINDOW,
            self.base.samples,
            self.sums.before(epoch, total=int(first.max()) + self.tokens),
        )
        return pieces_of_rows(
            first, self.tokens, counted, self.lengths, partial(self.base.take, epoch)
        )


class Counted(Struct, frozen=True):
    """The tokens before the first windows of documents, in the order in which these come.

    Attributes:
        window: Number of documents in a window.
        documents: Number of documents in the epoch.
        before: int64[windows + 1], the tokens before each window, and after them.
    """

    window: int
    documents: int
    before: I64


def pieces_of_rows(
    first: I64, tokens: int, counted: Counted, lengths: U32, documents_at: Callable[[I64], I64]
) -> RowPieces:
    """Return the pieces of rows.

    Args:
        first: int64[rows], the place of the first token of each row in the stream.
        tokens: Tokens of a row.
        counted: The windows that the rows are in.
        lengths: uint32[documents], the tokens of each document.
        documents_at: Returns the documents at some positions: int64[n] to int64[n].
    """
    before, window = counted.before, counted.window
    lows = np.searchsorted(before, first, side="right") - 1
    highs = np.searchsorted(before, first + tokens, side="left")
    sizes = highs - lows
    windows = np.unique(np.repeat(highs - np.cumsum(sizes), sizes) + np.arange(int(sizes.sum())))
    draws = (windows[:, None] * window + np.arange(window)).reshape(-1)
    draws = draws[draws < counted.documents].astype(np.int64)
    documents = documents_at(draws)
    document_sizes = lengths[documents]
    ends = np.cumsum(document_sizes, dtype=np.int64)
    # where each window begins, instead of after the last window that is taken
    number = np.searchsorted(windows, draws // window)
    last_of_window = np.flatnonzero(np.diff(number))  # of each window but the last one
    ends += (before[windows] - np.concatenate([[0], ends[last_of_window]]))[number]
    row_ends, which, begins, counts = cut(ends - document_sizes, ends, first, tokens)
    chosen = documents[which]
    return RowPieces(
        row_ends, draws[which], chosen, begins, counts, lengths[chosen].astype(np.int64)
    )


@public("bushel.loader")
class Megatron(Struct, frozen=True):
    """The order of Megatron-LM's GPT datasets, for `Loader(chunk_by=...)`.

    All passes through the documents are one epoch. The documents of all passes are shuffled
    together, and so are the rows; if the last pass is needed for less than 80 % of its rows, it is
    shuffled by itself.

    Attributes:
        rows: Number of rows that training needs (`num_samples`): there are as many passes as that
            takes. None for one.

    Examples:
        >>> from bushel.loader import Megatron
        >>> Megatron(rows=10_000).rows
        10000
    """

    rows: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None:
            check_count("rows", self.rows, least=1, instead=", or None for one pass")


class _Indices(Struct, frozen=True):
    """An epoch.

    Attributes:
        documents: int32[n], the documents as they come.
        rows: int32[rows] (int64 beyond 2**31 rows), the rows as they come.
        before: int64[windows + 1], the tokens before each window of documents, and all.
    """

    documents: I32
    rows: I32 | I64
    before: I64

    def documents_at(self, draws: I64) -> I64:
        """Return the documents at some positions."""
        return self.documents[draws].astype(np.int64)


class MegatronChunks(Struct, frozen=True, eq=False, dict=True):
    """Documents in the order of Megatron-LM, cut into rows, which are shuffled.

    It keeps about 4 bytes for each document of each pass, and 4 for each row.

    Attributes:
        order: The order, as the user gives it.
        lengths: uint32[documents], the tokens of each.
        tokens: Tokens of a row.
        overlap: Tokens that a row has in common with the one before it: 1 with
            `add_extra_token_to_sequence`.
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

    @property
    def base(self) -> Exact:
        """A random order of the documents: it reads them at random, as this order does."""
        return Exact(len(self.lengths), self.seed)

    @property
    def version(self) -> str:
        """Kind, parameters, CRC-32 of the lengths, and version. A loader refuses a saved state of another version."""
        rows = self.order.rows or "one pass"
        return f"megatron({self.tokens},{self.overlap},{rows},{self.checksum:08x})/{ORDER_VERSION}"

    def rows(self, epoch: int, until: int | None = None) -> int:
        """Return the number of rows of an epoch, or `until` if there are more."""
        step = self.tokens - self.overlap
        rows_of_epoch = max(0, self._passes() * self._each - self.overlap) // step
        if until is None:
            return rows_of_epoch
        return min(rows_of_epoch, until)

    def pieces(self, epoch: int, rows: I64) -> RowPieces:
        """Return the pieces of some rows of an epoch."""
        indices = self._indices(epoch)
        first = indices.rows[rows].astype(np.int64) * (self.tokens - self.overlap)
        counted = Counted(_MEGATRON_WINDOW, len(indices.documents), indices.before)
        return pieces_of_rows(first, self.tokens, counted, self.lengths, indices.documents_at)

    @cached_property
    def _each(self) -> int:
        """Number of tokens of all documents."""
        return int(self.lengths.sum(dtype=np.int64))

    def _passes(self) -> int:
        """Return the number of passes through the documents."""
        step, tokens_of_a_pass = self.tokens - self.overlap, self._each
        needed = (self.order.rows or 0) * step + self.overlap
        if tokens_of_a_pass and self.order.rows:
            return max(1, -(-needed // tokens_of_a_pass))
        return 1

    @cached_property
    def _indices(self) -> Callable[[int], _Indices]:
        """Returns the order of an epoch. The last one that was asked for is remembered."""
        return lru_cache(maxsize=1)(self._shuffled)

    def _shuffled(self, epoch: int) -> _Indices:
        """Make the order of an epoch."""
        step, passes, tokens_of_a_pass = self.tokens - self.overlap, self._passes(), self._each
        rows, alone = self.rows(epoch), 0
        before = (
            (passes - 1) * tokens_of_a_pass - self.overlap
        ) // step  # rows of all passes but the last
        if passes > 1 and (self.order.rows or 0) - before < int(
            _SEPARATE * ((tokens_of_a_pass - self.overlap) // step)
        ):
            alone = 1
        draw = np.random.RandomState((self.seed + epoch) % (1 << 32))
        parts = [
            np.tile(np.arange(len(self.lengths), dtype=np.int32), copies)
            for copies in (passes - alone, alone)
            if copies
        ]
        for part in parts:
            _shuffle(draw, part)
        documents = parts[0] if len(parts) == 1 else np.concatenate(parts)
        dtype = np.int32 if rows < 1 << 31 else np.int64
        ranges: list[Any] = [np.arange(before, dtype=dtype), np.arange(before, rows, dtype=dtype)]
        if not alone:
            ranges = [np.arange(rows, dtype=dtype)]
        for part_of_rows in ranges:
            _shuffle(draw, part_of_rows)
        sums = kernels.window_sums(self.lengths, documents, _MEGATRON_WINDOW)
        before_each = offsets_of(sums)
        return _Indices(documents, np.concatenate(ranges), before_each)


def _shuffle(draw: np.random.RandomState, items: I32 | I64) -> None:
    """Shuffle items in place as `draw.shuffle` does, five times as fast."""
    if items.dtype != np.int32 or len(items) >= 1 << 32:
        draw.shuffle(items)
        return
    state: Any = draw.get_state(legacy=False)
    twister = state["state"]
    twister["key"], twister["pos"] = kernels.shuffle_mt19937(items, twister["key"], twister["pos"])  # type: ignore[arg-type]
    draw.set_state(state)


Chunks: TypeAlias = Chunked | MegatronChunks
