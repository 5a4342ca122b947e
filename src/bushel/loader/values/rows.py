"""Batches whose rows are shared by documents: the documents of each row, and how their tokens become a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I32, I64, NO_NUMBERS, NO_TENSORS, Array, as_array, offsets_of
from bushel.errors import SpecError
from bushel.spec import KEY

from .collate import Batch, FieldCollate, Padded, Sample, collate_values, common_type, is_masked

WHOLE = 1 << 62
"""The number of tokens of a piece that goes to the end of its document."""
NAMES = ("positions", "documents", "cu_seqlens")
"""The entries of a batch apart from the fields of its samples."""


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

    def places_of(self, samples: int) -> I64:
        """Return int64[pieces], the place of the document of each piece among this number of samples."""
        if self.places is None:
            return np.arange(samples)
        return self.places

    def with_begins(self, begins: Mapping[int, int]) -> Rows:
        """Return the same with other first tokens of some pieces."""
        changed = self.begins.copy()
        for piece, begin in begins.items():
            changed[piece] = begin
        return replace(self, begins=changed)


class Pieces(Struct, frozen=True, eq=False):
    """The pieces of some rows, one after another.

    Attributes:
        firsts: int64[rows], the first piece of each row.
        ends: int64[rows], the number of pieces up to the end of each row.
        places: int64[pieces], the place of the document of each piece among the samples.
        begins: int64[pieces], its first token there.
        starts: int64[pieces + 1], the tokens before each piece, and all of them.
        used: int64[rows], the tokens of each row.
        wrong: int64[n], the pieces of documents that have another length than they must have.
    """

    firsts: I64
    ends: I64
    places: I64
    begins: I64
    starts: I64
    used: I64
    wrong: I64

    @classmethod
    def of(cls, batches: Sequence[Rows], samples: Sequence[int], lengths: I64) -> Pieces:
        """Return the pieces of all rows of some batches.

        Args:
            batches: The rows of each batch.
            samples: The number of samples of each batch.
            lengths: int64[sum(samples)], the tokens of all samples.
        """
        all_ends, all_places = list[I64](), list[I64]()
        before = passed = 0
        for rows, count in zip(batches, samples, strict=True):
            all_ends.append(rows.ends + before)
            all_places.append(rows.places_of(count) + passed)
            before, passed = before + len(rows.begins), passed + count
        ends, places = np.concatenate(all_ends), np.concatenate(all_places)
        tokens, wrong = lengths[places], NO_NUMBERS
        must_have = [rows.lengths for rows in batches if rows.lengths is not None]
        if must_have:
            wrong = np.flatnonzero(tokens != np.concatenate(must_have))
        begins = np.minimum(np.concatenate([rows.begins for rows in batches]), tokens)
        counts = np.minimum(np.concatenate([rows.counts for rows in batches]), tokens - begins)
        starts = offsets_of(counts)
        firsts = np.append(0, ends[:-1])
        used = starts[ends] - starts[firsts]
        return cls(firsts, ends, places, begins, starts, used, wrong)

    def by_row(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the values of pieces, row by row."""
        return [
            list(values[first:end])
            for first, end in zip(self.firsts.tolist(), self.ends.tolist(), strict=True)
        ]

    def bounds(self) -> list[I32]:
        """Return where the pieces of each row begin, and its number of tokens."""
        sizes = self.ends - self.firsts + 1
        row = np.repeat(np.arange(len(sizes)), sizes)
        flat = (self.starts[np.arange(len(row)) - row] - self.starts[self.firsts][row]).astype(
            np.int32
        )
        ends = np.cumsum(sizes).tolist()
        return [flat[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]

    def padded(self, flat: Array, tokens: int, fill: Any) -> Array:
        """Return rows of tokens. Each row has the next numbers of an array."""
        if len(flat) == len(self.used) * tokens:
            return flat.reshape(len(self.used), tokens, *flat.shape[1:])
        out = np.full((len(self.used), tokens, *flat.shape[1:]), fill, flat.dtype)
        start = 0
        for row, size in zip(out, self.used.tolist(), strict=True):
            row[:size] = flat[start : start + size]
            start += size
        return out

    def layout(self, tokens: int) -> dict[str, I32]:
        """Return the number of each token's document in its row, and its place in its piece: int32[rows, tokens]."""
        counts = np.diff(self.starts)
        places: I32 = np.arange(int(self.starts[-1]), dtype=np.int32)
        places -= np.repeat(self.starts[:-1].astype(np.int32), counts)
        of_row = np.arange(len(self.places)) - np.repeat(self.firsts, self.ends - self.firsts)
        documents = np.repeat(of_row.astype(np.int32), counts)
        return {
            "positions": self.padded(places, tokens, 0),
            "documents": self.padded(documents, tokens, -1),
        }


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
    samples, rows = _with_samples(samples, rows)
    lengths = np.array([_length(sample, shape.field) for sample in samples], np.int64)
    pieces = Pieces.of([rows], [len(samples)], lengths)
    documents = [samples[place] for place in pieces.places.tolist()]
    _check(pieces, documents, rows, shape)
    batch: Batch = {}
    for name in dict.fromkeys(name for document in documents for name in document):
        batch[name] = _field(name, pieces, documents, shape, rules.get(name))
    if shape.documents:
        batch |= pieces.layout(shape.tokens)
    batch["cu_seqlens"] = pieces.bounds()
    return batch


def _with_samples(samples: Sequence[Sample | None], rows: Rows) -> tuple[list[Sample], Rows]:
    """Return the samples, with arrays in place of tensors, and their pieces: none of samples left out."""
    present = np.array([sample is not None for sample in samples], np.bool_)
    if not present.all():
        places = rows.places_of(len(samples))
        stay = present[places]
        rows = Rows(
            offsets_of(stay)[rows.ends],
            rows.begins[stay],
            rows.counts[stay],
            rows.first,
            (np.cumsum(present) - 1)[places[stay]],
            None if rows.lengths is None else rows.lengths[stay],
        )
    return [_with_arrays(sample) for sample in samples if sample is not None], rows


def _check(pieces: Pieces, documents: Sequence[Sample], rows: Rows, shape: RowShape) -> None:
    """Check that documents are as long as the column of lengths says."""
    field = shape.field
    if len(pieces.wrong) and rows.lengths is not None:
        piece = int(pieces.wrong[0])
        document = documents[piece]
        raise SpecError(
            f"sample {document.get(KEY)!r} has {len(document[field])} tokens in field {field!r}, "
            f"but the column of lengths says {rows.lengths[piece]}: chunks need the lengths "
            "after all transforms. Store what these make, with `bushel convert --transform`"
        )
    full = np.flatnonzero(pieces.used > shape.tokens)
    if len(full):
        row = slice(int(pieces.firsts[full[0]]), int(pieces.ends[full[0]]))
        sizes = np.diff(pieces.starts)[row]
        longest = documents[row][int(sizes.argmax())]
        raise SpecError(
            f"a row of {shape.tokens} tokens got {pieces.used[full[0]]}: documents are "
            f"longer than the column of lengths says, such as sample {longest.get(KEY)!r} "
            f"with {sizes.max()} tokens in field {field!r}. If a transform adds tokens, "
            "store what it makes, with `bushel convert --transform`"
        )


def _with_arrays(sample: Sample) -> Sample:
    if NO_TENSORS.issuperset(map(type, sample.values())):
        return sample
    return {name: as_array(value) for name, value in sample.items()}


def _length(sample: Sample, name: str) -> int:
    value = sample.get(name)
    if not isinstance(value, np.ndarray) or not value.ndim:
        if isinstance(value, np.ndarray):
            kind = f"an array of {value.ndim} axes"
        else:
            kind = f"a {type(value).__name__}"
        raise SpecError(
            f"sample {sample.get(KEY)!r}: packs and chunks are made "
            f"of arrays of numbers, but field {name!r} is {kind}"
        )
    return len(value)


def _field(
    name: str,
    pieces: Pieces,
    documents: Sequence[Sample],
    shape: RowShape,
    rule: FieldCollate | None,
) -> Any:
    """Return a field of the batch."""
    values: list[Any] = [document.get(name) for document in documents]
    first = f"of the batch that starts at sample {documents[0].get(KEY)!r}"
    if callable(rule) and not isinstance(rule, Padded):
        return collate_values(name, values, rule, lambda: documents[0].get(KEY))
    joined = name == shape.field or (
        name != KEY and rule != "list" and _moves_along(values, documents, shape.field)
    )
    if not joined:
        if isinstance(rule, Padded) or rule == "stack":
            raise SpecError(
                f"collate={{{name!r}: {rule!r}}}: not every document "
                f"has an array there as long as {shape.field!r}"
            )
        return pieces.by_row(values)
    begins = pieces.begins.tolist()
    ends = (pieces.begins + np.diff(pieces.starts)).tolist()
    parts = [array[low:high] for array, low, high in zip(values, begins, ends, strict=True)]
    try:
        dtype = common_type(values)
        fill = rule.padding(dtype) if isinstance(rule, Padded) else 0
        flat = np.concatenate(parts, dtype=dtype, casting="unsafe")
    except ValueError as error:
        raise SpecError(f"cannot join field {name!r} {first}: {error}") from error
    return pieces.padded(flat, shape.tokens, fill)


def _moves_along(values: Sequence[Any], documents: Sequence[Sample], field: str) -> bool:
    """Return whether values are numbers, as many as tokens in every document, of one shape and type."""
    first = values[0]
    return isinstance(first, np.ndarray) and all(
        isinstance(value, np.ndarray)
        and not is_masked(value)
        and value.ndim > 0
        and value.dtype.kind in "biufc"
        and len(value) == len(document[field])
        and value.shape[1:] == first.shape[1:]
        for value, document in zip(values, documents, strict=True)
    )
