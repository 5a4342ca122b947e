"""Batches whose rows are shared by documents: the documents of each row, and how their tokens become a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct
from bushel.errors import SpecError
from bushel.loader.values.collate import (
    NO_TENSORS,
    Batch,
    FieldCollate,
    Padded,
    Sample,
    as_array,
    common_type,
    is_masked,
)
from bushel.spec import KEY

WHOLE = 1 << 62
"""The number of tokens of a piece that goes to the end of its document."""
NAMES = ("positions", "documents", "cu_seqlens")
"""The entries of a batch besides the fields of its samples."""


class RowShape(Struct, frozen=True):
    """The form of batches whose rows are shared.

    Attributes:
        field: The field with the tokens, whose length counts.
        tokens: The tokens of a row.
        documents: Whether batches have the document of each token, and its place there. Rows of
            chunks do not.
    """

    field: str
    tokens: int
    documents: bool = True


class Rows(Struct, frozen=True):
    """The division of a batch's documents among its rows.

    Attributes:
        ends: int64[rows], the number of pieces up to the end of each row.
        begins: int64[pieces], the first token of each piece in its document.
        counts: int64[pieces], the number of tokens of each piece, at most; `WHOLE` for the rest of
            its document.
        first: A number of the batch, no other batch of the epoch has the same.
        places: int64[pieces], the place of the document of each piece among the samples of the
            batch; None if each sample is one piece.
        lengths: int64[pieces], the tokens that the document of each piece must have; None if it may
            have others.
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


class _Piece(Struct, frozen=True):
    """A piece of a document in a row.

    Attributes:
        sample: The sample of the document.
        row: The row.
        number: Number of the piece in its row.
        begin: First token of the piece in its document.
        end: The token after its last one.
        at: Place of its first token in the row.
    """

    sample: Sample
    row: int
    number: int
    begin: int
    end: int
    at: int

    @property
    def size(self) -> int:
        """Tokens of the piece."""
        return self.end - self.begin


def collate_rows(
    samples: Sequence[Sample | None],
    rows: Rows,
    shape: RowShape,
    rules: Mapping[str, FieldCollate] | None = None,
) -> Batch:
    """Return a batch whose rows are shared by documents.

    Args:
        samples: The samples of the batch; None for one that is left out.
        rows: How they share the rows.
        shape: The form of the batch.
        rules: How fields are collated: `Padded(value)` sets the value of the padding, `"stack"`
            demands that a field is joined, and `"list"` that it is not. A function is given the
            values of all documents of the batch.

    Returns:
        Every field of numbers that is as long as the tokens in each document: an array [rows,
        tokens, ...]. Any other field: a list with the values of each row. `cu_seqlens`: for each
        row, int32[documents + 1], where each of its documents begins, and the number of its tokens.
        If the shape asks for them, `positions`: int32[rows, tokens], the place of each token in its
        document, and `documents`: int32[rows, tokens], the number of the document in its row, -1
        for padding.

    Raises:
        SpecError: A sample has no tokens, the documents of a row are longer than it, or a rule
            cannot be followed.
    """
    rules = rules or {}
    pieces = _pieces([sample and _with_arrays(sample) for sample in samples], rows, shape)
    names = dict.fromkeys(name for piece in pieces for name in piece.sample)
    batch: Batch = {}
    for name in names:
        batch[name] = _field(name, pieces, len(rows.ends), shape, rules.get(name))
    bounds = [[0] for _ in range(len(rows.ends))]
    for piece in pieces:
        bounds[piece.row].append(piece.at + piece.size)
    if shape.documents:
        batch |= _layout(pieces, len(rows.ends), shape.tokens)
    batch["cu_seqlens"] = [np.array(own, np.int32) for own in bounds]
    return batch


def _pieces(samples: Sequence[Sample | None], rows: Rows, shape: RowShape) -> list[_Piece]:
    """Return the pieces of a batch, row by row."""
    places = range(len(samples)) if rows.places is None else rows.places.tolist()
    begins, counts = rows.begins.tolist(), rows.counts.tolist()
    lengths = [-1] * len(begins) if rows.lengths is None else rows.lengths.tolist()
    found, start = [], 0
    for row, end in enumerate(rows.ends.tolist()):
        used = number = 0
        for piece in range(start, end):
            if (sample := samples[places[piece]]) is None:
                continue
            length = _length(sample, shape.field)
            first = min(begins[piece], length)
            one = _Piece(sample, row, number, first, min(length, first + counts[piece]), used)
            if lengths[piece] not in (-1, length):
                raise SpecError(
                    f"sample {sample.get(KEY)!r} has {length} tokens in field {shape.field!r},"
                    " but the column of "
                    f"lengths says {lengths[piece]}: chunks need the lengths after all"
                    " transforms. Store "
                    f"what these make, with `bushel convert --transform`"
                )
            found.append(one)
            used, number = used + one.size, number + 1
        if used > shape.tokens:
            long = max((one for one in found if one.row == row), key=lambda one: one.size)
            raise SpecError(
                f"a row of {shape.tokens} tokens got {used}: documents are longer than the column"
                " of lengths says, "
                f"such as sample {long.sample.get(KEY)!r} with {long.size} tokens in field"
                f" {shape.field!r}. If a "
                f"transform adds tokens, store what it makes, with `bushel convert --transform`"
            )
        start = end
    return found


def _with_arrays(sample: Sample) -> Sample:
    if NO_TENSORS.issuperset(map(type, sample.values())):
        return sample
    return {name: as_array(value) for name, value in sample.items()}


def _length(sample: Sample, name: str) -> int:
    value = sample.get(name)
    if not isinstance(value, np.ndarray) or not value.ndim:
        kind = (
            f"an array of {value.ndim} axes"
            if isinstance(value, np.ndarray)
            else f"a {type(value).__name__}"
        )
        raise SpecError(
            f"sample {sample.get(KEY)!r}: packs and chunks are made of arrays of numbers, but"
            f" field {name!r} is {kind}"
        )
    return len(value)


def _field(
    name: str, pieces: Sequence[_Piece], rows: int, shape: RowShape, rule: FieldCollate | None
) -> Any:
    """Return a field of the batch."""
    if callable(rule) and not isinstance(rule, Padded):
        return _called(name, pieces, rule)
    joined = name == shape.field or (
        name != KEY and rule != "list" and _moves_along(name, pieces, shape.field)
    )
    if not joined:
        if isinstance(rule, Padded) or rule == "stack":
            raise SpecError(
                f"collate={{{name!r}: {rule!r}}}: not every document has an array there as long"
                f" as {shape.field!r}"
            )
        values: list[list[Any]] = [[] for _ in range(rows)]
        for piece in pieces:
            values[piece.row].append(piece.sample.get(name))
        return values
    arrays = [piece.sample[name] for piece in pieces]
    try:
        dtype = common_type(arrays)
        out = np.full((rows, shape.tokens, *arrays[0].shape[1:]), 0, dtype)
        if isinstance(rule, Padded):
            out[...] = rule.padding(dtype)
        for piece, array in zip(pieces, arrays, strict=True):
            out[piece.row, piece.at : piece.at + piece.size] = array[piece.begin : piece.end]
    except ValueError as error:
        raise SpecError(
            f"cannot join field {name!r} of the batch that starts at sample"
            f" {pieces[0].sample.get(KEY)!r}: {error}"
        ) from error
    return out


def _called(name: str, pieces: Sequence[_Piece], rule: Callable[[list[Any]], Any]) -> Any:
    try:
        return rule([piece.sample.get(name) for piece in pieces])
    except ValueError as error:
        key = pieces[0].sample.get(KEY)
        raise SpecError(
            f"cannot collate field {name!r} of the batch that starts at sample {key!r}: {error}"
        ) from error


def _moves_along(name: str, pieces: Sequence[_Piece], field: str) -> bool:
    """Return whether a field is numbers, as many as tokens in every document, of one shape and type."""
    first = pieces[0].sample.get(name)
    return isinstance(first, np.ndarray) and all(
        isinstance(value := piece.sample.get(name), np.ndarray)
        and not is_masked(value)
        and value.ndim > 0
        and value.dtype.kind in "biufc"
        and len(value) == len(piece.sample[field])
        and value.shape[1:] == first.shape[1:]
        for piece in pieces
    )


def _layout(pieces: Sequence[_Piece], rows: int, tokens: int) -> Batch:
    """Return the document of each token, and its place in the document."""
    positions, documents = np.zeros((rows, tokens), np.int32), np.full((rows, tokens), -1, np.int32)
    numbers = np.arange(tokens, dtype=np.int32)
    for piece in pieces:
        positions[piece.row, piece.at : piece.at + piece.size] = numbers[: piece.size]
        documents[piece.row, piece.at : piece.at + piece.size] = piece.number
    return {"positions": positions, "documents": documents}
