"""Batches whose rows are shared by documents: the documents of each row, and their tokens."""

from __future__ import annotations

from msgspec.structs import replace

from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct

WHOLE = 1 << 62
"""The number of tokens of a piece that goes to the end of its document."""


class RowShape(Struct, frozen=True):
    """The form of batches whose rows are shared.

    Attributes:
        field: The field with the tokens, whose length counts.
        tokens: The tokens of a row.
        documents: Whether batches have the document of each token, and its place there. Rows of chunks do not.
    """

    field: str
    tokens: int
    documents: bool = True


class Rows(Struct, frozen=True):
    """The division of a batch's documents among its rows.

    Attributes:
        ends: int64[rows], the number of pieces up to the end of each row.
        begins: int64[pieces], the first token of each piece in its document.
        counts: int64[pieces], the number of tokens of each piece, at most; `WHOLE` for the rest of its document.
        first: A number of the batch, no other batch of the epoch has the same.
        places: int64[pieces], the place of the document of each piece among the samples of the batch; None if each
            sample is one piece.
        lengths: int64[pieces], the tokens that the document of each piece must have; None if it may have others.
    """

    ends: I64
    begins: I64
    counts: I64
    first: int
    places: I64 | None = None
    lengths: I64 | None = None

    def copied(self) -> Rows:
        """Return the same with another array of `begins`, which may be changed."""
        return replace(self, begins=self.begins.copy())
