"""Requested elements of values, the same for all samples or not, and their rows in the table. Pure: no I/O."""

from __future__ import annotations

import numpy as np

from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, Bools
from bushel._runtime.structs import Struct
from bushel.errors import FormatError


def neighbours(at: I64, offsets: I64, last: I64) -> tuple[I64, Bools]:
    """Return the elements at offsets from given ones, and which of them would be outside of their sequence.

    Those are replaced by the first or the last element of the sequence, as LeRobot does.

    Args:
        at: int64[n], elements.
        offsets: int64[k], such as -1 for the element before.
        last: int64[n], the last element of the sequence of each; the first one is 0.

    Returns:
        numbers: int64[n, k].
        outside: bool[n, k].
    """
    shifted = at[:, None] + offsets
    numbers = np.clip(shifted, 0, last[:, None])
    return numbers, numbers != shifted


class Ranges(Struct, frozen=True, eq=False):
    """Elements that start at a different place in every sample of a batch, such as the elements of windows."""

    start: I64  # int64[n], the element of each sample that offsets are counted from
    offsets: I64  # int64[k], the elements that are wanted, counted from there
    # int64[n], the number of elements that each sample has, at least 1; its first or last one takes
    # the place of elements outside
    counts: I64

    def of(self, place: int) -> I64:
        """Return the elements of the sample at a place of the batch: int64[k]."""
        # np.clip takes five times as long for a few numbers
        elements: I64 = np.minimum(
            np.maximum(self.start[place] + self.offsets, 0), self.counts[place] - 1
        )
        return elements

    def numbers(self, places: I64 | slice = slice(None)) -> I64:
        """Return the elements of the samples at places of the batch: int64[n, k]."""
        return neighbours(self.start[places], self.offsets, self.counts[places] - 1)[0]

    def outside(self) -> Bools:
        """Return which elements another one takes the place of: bool[n, k]."""
        return neighbours(self.start, self.offsets, self.counts - 1)[1]


Elements = slice | I64 | Ranges | None
"""The elements of a sequence field, or of a value such as a clip, to read; None for all."""


def at_place(elements: Elements, place: int) -> slice | I64 | None:
    """Return the elements that are wanted of the sample at a place of the batch."""
    if isinstance(elements, Ranges):
        return elements.of(place)
    return elements


class Group(Struct, frozen=True):
    """The samples of a batch that are in one shard."""

    number: int  # number of the shard
    index: ShardIndex
    rows: I64  # int64[k], numbers of the samples within the shard
    places: I64 | None  # int64[k], their places in the batch, or None if they are the whole batch

    def places_in(self, total: int) -> I64:
        """Return the places of the samples in the batch, which has `total` samples."""
        return np.arange(total) if self.places is None else self.places


def element_rows(column: FieldExtents, samples: Group, elements: Elements) -> tuple[I64, I64]:
    """Return the rows of the chosen elements of each sample, and their number per sample.

    Raises:
        IndexError: An element number is out of range.
        FormatError: The table of the field is damaged.
    """
    assert column.starts is not None
    first, last = column.starts[samples.rows], column.starts[samples.rows + 1]
    if ((first < 0) | (first > last) | (last > column.rows)).any():
        raise damaged_sequences(column, samples)
    if elements is None:
        return column.rows_of(samples.rows)
    counts = last - first
    if isinstance(elements, Ranges):
        chosen_counts = np.full(len(counts), len(elements.offsets), np.int64)
        present = (
            np.ones(len(counts), np.bool_)
            if column.absent is None
            else ~column.absent[samples.rows]
        )
        numbers = elements.numbers(slice(None) if samples.places is None else samples.places)[
            present
        ]
        if numbers.size and (short := numbers.max(axis=1) >= counts[present]).any():
            at = int(np.flatnonzero(short)[0])
            raise _beyond(column, int(counts[present][at]), numbers[at])
        chosen_counts[~present] = 0
        return (numbers + first[present, None]).reshape(-1), chosen_counts
    rows: list[I64] = []
    chosen_counts = np.zeros(len(counts), np.int64)
    for place, (start, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        if isinstance(elements, slice):
            numbers = np.arange(*elements.indices(count), dtype=np.int64)
        elif column.absent is not None and column.absent[samples.rows[place]]:
            continue
        else:
            numbers = np.where(elements < 0, elements + count, elements)
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
                raise _beyond(column, count, elements)
        chosen_counts[place] = len(numbers)
        rows.append(numbers + start)
    return (np.concatenate(rows) if rows else np.zeros(0, np.int64)), chosen_counts


def _beyond(column: FieldExtents, count: int, numbers: I64) -> Exception:
    return IndexError(
        f"field {column.field.name!r} has {count} elements in this sample; asked"
        f" for {numbers.tolist()}"
    )


def damaged_sequences(column: FieldExtents, samples: Group) -> Exception:
    """Return the error of a table whose sequences are damaged."""
    return FormatError(
        (
            f"field {column.field.name!r}: the offsets of its sequences are not ascending, or"
            " elements are missing"
        ),
        file=samples.index.files[0].name if samples.index.files else None,
        hint="the index is damaged: run `bushel index` on the dataset",
    )
