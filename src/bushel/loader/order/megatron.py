"""The order of Megatron-LM's GPT datasets: documents and rows that NumPy's legacy generator shuffles.

`docs/order.md` specifies it. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from bushel import kernels
from bushel._runtime.arrays import I32, I64, U32, offsets_of
from bushel._runtime.order import ORDER_VERSION, Exact
from bushel._runtime.public import public
from bushel.loader.order.chunked import Chunked, Counted, RowPieces, pieces_of_rows

_WINDOW = 64  # documents whose tokens are counted together
_SEPARATE = 0.80  # of an epoch: a last part of the data that is smaller is not shuffled with the others


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


@dataclass(frozen=True, slots=True)
class _Indices:
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


@dataclass(frozen=True, slots=True, eq=False)
class MegatronChunks:
    """Documents in the order of Megatron-LM, cut into rows, which are shuffled.

    It keeps about 4 bytes for each document of each pass, and 4 for each row.

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
    _made: list[tuple[int, _Indices]] = field(default_factory=list, init=False, repr=False)
    _total: list[int] = field(default_factory=list, init=False, repr=False)

    @property
    def base(self) -> Exact:
        """A random order of the documents: it reads them at random, as this order does."""
        return Exact(len(self.lengths), self.seed)

    @property
    def version(self) -> str:
        """Kind, parameters, CRC-32 of the lengths, and version. A loader refuses a saved state of another version."""
        rows = self.order.rows or "one pass"
        return f"megatron({self.tokens},{self.overlap},{rows},{self.checksum:08x})/{ORDER_VERSION}"

    def reseeded(self, seed: int) -> MegatronChunks:
        """Return the same order with another seed."""
        return replace(self, seed=seed)

    def rows(self, epoch: int, until: int | None = None) -> int:
        """Return the number of rows of an epoch, or `until` if there are more."""
        step = self.tokens - self.overlap
        found = max(0, self._passes() * self._each() - self.overlap) // step
        return found if until is None else min(found, until)

    def pieces(self, epoch: int, rows: I64) -> RowPieces:
        """Return the pieces of some rows of an epoch."""
        made = self._indices(epoch)
        first = made.rows[rows].astype(np.int64) * (self.tokens - self.overlap)
        counted = Counted(_WINDOW, len(made.documents), 0, made.before)
        return pieces_of_rows(first, self.tokens, counted, self.lengths, made.documents_at)

    def places(self, epoch: int, document: int, draws: Sequence[int]) -> list[tuple[int, int]]:
        """Return where the tokens of a document begin and end in the stream, once for each pass."""
        made, length, found = self._indices(epoch), int(self.lengths[document]), list[tuple[int, int]]()
        for draw in np.flatnonzero(made.documents == document).tolist():
            number = draw // _WINDOW
            others = self.lengths[made.documents[number * _WINDOW : draw]]
            start = int(made.before[number]) + int(others.sum(dtype=np.int64))
            found.append((start, start + length))
        return found

    def positions(self, epoch: int, rows: Sequence[int]) -> list[int]:
        """Return the positions of an epoch at which rows come."""
        return [int(place) for place in np.flatnonzero(np.isin(self._indices(epoch).rows, rows))]

    def _each(self) -> int:
        """Return the number of tokens of all documents, which is counted once."""
        if not self._total:
            self._total.append(int(self.lengths.sum(dtype=np.int64)))
        return self._total[0]

    def _passes(self) -> int:
        """Return the number of passes through the documents."""
        step, each = self.tokens - self.overlap, self._each()
        needed = (self.order.rows or 0) * step + self.overlap
        return max(1, -(-needed // each)) if each and self.order.rows else 1

    def _indices(self, epoch: int) -> _Indices:
        """Return the order of an epoch. The last one that was asked for is remembered."""
        for of_epoch, made in self._made:
            if of_epoch == epoch:
                return made
        found = self._shuffled(epoch)
        self._made[:] = [(epoch, found)]
        return found

    def _shuffled(self, epoch: int) -> _Indices:
        """Make the order of an epoch."""
        step, passes, each = self.tokens - self.overlap, self._passes(), self._each()
        rows, alone = self.rows(epoch), 0
        before = ((passes - 1) * each - self.overlap) // step  # rows of all passes but the last
        if passes > 1 and (self.order.rows or 0) - before < int(_SEPARATE * ((each - self.overlap) // step)):
            alone = 1
        draw = np.random.RandomState(self.seed + epoch)
        parts = [np.tile(np.arange(len(self.lengths), dtype=np.int32), own) for own in (passes - alone, alone) if own]
        for part in parts:
            _shuffle(draw, part)
        documents = parts[0] if len(parts) == 1 else np.concatenate(parts)
        dtype = np.int32 if rows < 1 << 31 else np.int64
        ranges: list[Any] = [np.arange(before, dtype=dtype), np.arange(before, rows, dtype=dtype)]
        ranges = ranges if alone else [np.arange(rows, dtype=dtype)]
        for own in ranges:
            _shuffle(draw, own)
        sums = kernels.window_sums(self.lengths, documents, _WINDOW)
        before_each = offsets_of(sums)
        return _Indices(documents, np.concatenate(ranges), before_each)


def _shuffle(draw: np.random.RandomState, items: I32 | I64) -> None:
    """Shuffle items in place as `draw.shuffle` does, five times as fast."""
    if items.dtype != np.int32 or len(items) >= 1 << 32:
        draw.shuffle(items)
        return
    state: Any = draw.get_state(legacy=False)
    own = state["state"]
    own["key"], own["pos"] = kernels.shuffle_mt19937(items, own["key"], own["pos"])  # type: ignore[arg-type]
    draw.set_state(state)


Chunks: TypeAlias = Chunked | MegatronChunks
