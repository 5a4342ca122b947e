"""Requested elements of values, the same for all samples or not, and their rows in the table. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, NO_NUMBERS, Bools, offsets_of
from bushel.codecs.base import choose
from bushel.errors import FormatError

from .table import FieldExtents, ShardIndex


class Ranges(Struct, frozen=True, eq=False):
    """Elements that are other ones in every sample of a batch, such as the elements of windows."""

    numbers: I64  # int64[total], the elements of all samples, one sample after another
    begins: I64  # int64[n + 1], where the elements of each sample begin, and their number
    # bool[total], the elements that take the place of ones before the first or after the last of
    # their sample
    outside: Bools

    @classmethod
    def regular(cls, start: I64, offsets: I64, counts: I64) -> Ranges:
        """Return elements at the same offsets from another start in each sample.

        Elements outside are replaced by the first or the last one of the sample, as LeRobot does.

        Args:
            start: int64[n], the element of each sample that offsets are counted from.
            offsets: int64[k], such as -1 for the element before.
            counts: int64[n], the number of elements that each sample has, at least 1.
        """
        shifted = start[:, None] + offsets
        # np.clip takes five times as long for a few numbers
        numbers = np.minimum(np.maximum(shifted, 0), counts[:, None] - 1)
        begins = np.arange(len(start) + 1) * len(offsets)
        return cls(numbers.reshape(-1), begins, (numbers != shifted).reshape(-1))

    @classmethod
    def joined(cls, samples: Sequence[tuple[I64, Bools]]) -> Ranges:
        """Return the elements of samples, given the elements of each, and which of them are outside."""
        numbers = [numbers for numbers, _ in samples] or [NO_NUMBERS]
        flags = [outside for _, outside in samples] or [np.zeros(0, np.bool_)]
        begins = offsets_of(len(numbers) for numbers, _ in samples)
        return cls(np.concatenate(numbers), begins, np.concatenate(flags))

    @property
    def sizes(self) -> I64:
        """The number of elements of each sample: int64[n]."""
        return np.diff(self.begins)

    def _span(self, place: int) -> slice:
        return slice(int(self.begins[place]), int(self.begins[place + 1]))

    def of(self, place: int) -> I64:
        """Return the elements of the sample at a place of the batch: int64[k]."""
        return self.numbers[self._span(place)]

    def flags(self, place: int) -> Bools:
        """Return which elements of the sample at a place of the batch are outside: bool[k]."""
        return self.outside[self._span(place)]

    def at(self, places: I64 | None) -> tuple[I64, I64]:
        """Return the elements of the samples at places, or of all, and their number of each sample."""
        sizes = self.sizes
        if places is None:
            return self.numbers, sizes
        numbers = [self.of(place) for place in places.tolist()] or [self.numbers[:0]]
        return np.concatenate(numbers), sizes[places]

    def chosen(self, elements: slice | I64, value: str) -> Ranges:
        """Return some of the elements of each sample. `value` names the window in errors.

        Raises:
            IndexError: A sample has fewer elements.
        """
        samples = []
        for place in range(len(self.begins) - 1):
            numbers = self.of(place)
            chosen = choose(elements, len(numbers), value, "elements")
            samples.append((numbers[chosen], self.flags(place)[chosen]))
        return Ranges.joined(samples)


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

    @property
    def in_batch(self) -> Any:
        """What selects the samples in an array of the batch."""
        if self.places is None:
            return slice(None)
        return self.places

    def places_in(self, total: int) -> I64:
        """Return the places of the samples in the batch, which has `total` samples."""
        if self.places is None:
            return np.arange(total)
        return self.places


def sequence_bounds(column: FieldExtents, samples: Group) -> tuple[I64, I64]:
    """Return the first row of each sample's sequence, and the row after its last: int64[k] each.

    Raises:
        FormatError: The table of the field is damaged.
    """
    assert column.starts is not None
    first, last = column.starts[samples.rows], column.starts[samples.rows + 1]
    if ((first < 0) | (first > last) | (last > column.rows)).any():
        raise damaged_sequences(column, samples)
    return first, last


def element_rows(column: FieldExtents, samples: Group, elements: Elements) -> tuple[I64, I64]:
    """Return the rows of the chosen elements of each sample, and their number per sample.

    Raises:
        IndexError: An element number is out of range.
        FormatError: The table of the field is damaged.
    """
    first, last = sequence_bounds(column, samples)
    if elements is None:
        return column.rows_of(samples.rows)
    counts = last - first
    if isinstance(elements, Ranges):
        numbers, sizes = elements.at(samples.places)
        if column.absent is not None:
            absent = column.absent[samples.rows]
            numbers, sizes = numbers[np.repeat(~absent, sizes)], np.where(absent, 0, sizes)
        if (short := numbers >= np.repeat(counts, sizes)).any():
            place = int(np.repeat(np.arange(len(sizes)), sizes)[short][0])
            end = int(sizes[: place + 1].sum())
            _chosen_elements(
                column, int(counts[place]), numbers[end - int(sizes[place]) : end]
            )  # raises
        return numbers + np.repeat(first, sizes), sizes
    rows: list[I64] = []
    chosen_counts = np.zeros(len(counts), np.int64)
    for place, (start, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        if column.absent is not None and column.absent[samples.rows[place]]:
            continue
        numbers = _chosen_elements(column, count, elements)
        chosen_counts[place] = len(numbers)
        rows.append(numbers + start)
    return (np.concatenate(rows) if rows else NO_NUMBERS), chosen_counts


def _chosen_elements(column: FieldExtents, count: int, elements: slice | I64) -> I64:
    return choose(elements, count, f"field {column.field.name!r}", "elements")


def damaged_sequences(column: FieldExtents, samples: Group) -> Exception:
    """Return the error of a table whose sequences are damaged."""
    return FormatError(
        f"field {column.field.name!r}: the offsets of its "
        "sequences are not ascending, or elements are missing",
        samples.index.files[0].name if samples.index.files else None,
        hint="the index is damaged: run `bushel index` on the dataset",
    )
