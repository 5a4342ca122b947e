"""Parts of values: some elements of a value, and the bytes of it that they need.

A part is planned without I/O, is given its bytes, and decodes its elements. Samples that need
elements of the same value share one part (`SharedPart`), so that it is read and decoded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from io import BufferedReader
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I64, NO_NUMBERS, Array
from bushel.errors import CodecError

from .base import ArrayLayout, Buffer, Ranged, choose


class Part(Struct, frozen=True, eq=False):
    """Elements of a value that are to be decoded, and the extents of its bytes that they need.

    Attributes:
        offsets: int64[n], where the bytes are, counted from the start of the value.
        lengths: int64[n], the number of bytes in each place.
        decoder: Maps the codec's name and the bytes, an element per extent, to the elements; None if
            the bytes do not give them, so that the value has to be read whole.
        data: The bytes; empty before they are read.
        of_clip: Whether the elements are frames of a clip.
        by_form: Whether the places are where other values of the field have these elements; this one may differ.
    """

    offsets: I64
    lengths: I64
    decoder: Callable[[str, Sequence[Buffer]], Array | None]
    data: tuple[Buffer, ...] = ()
    of_clip: bool = False
    by_form: bool = False

    @property
    def nbytes(self) -> int:
        """Number of bytes that are read for it."""
        return int(self.lengths.sum())

    def read(self, data: Sequence[Buffer]) -> Self:
        """Return the part with its bytes, an element per extent."""
        return replace(self, data=tuple(data))

    def decode(self, codec: str) -> Array | None:
        """Decode the elements; None if the bytes do not give them, so that the value has to be read whole."""
        return self.decoder(codec, self.data)


class FileOutline(NamedTuple):
    """The outline of a value whose decoder finds the elements in an open file. No bytes are read in advance."""

    opened: Callable[[], BufferedReader]  # opens the value as a file
    decoder: Callable[[BufferedReader, slice | I64], Any]  # `Ranged.in_file`

    def probe(self, elements: slice | I64) -> None:
        """Return None: nothing is looked at in advance."""

    def learn(self, offset: int, data: bytes) -> None:
        """Do nothing."""

    def part(self, elements: slice | I64) -> Part:
        """Return the part with some elements."""
        return Part(NO_NUMBERS, NO_NUMBERS, partial(self._decode, elements))

    def _decode(self, elements: slice | I64, codec: str, data: Sequence[Buffer]) -> Any:
        with self.opened() as file:
            return self.decoder(file, elements)


def part_of_rows(layout: ArrayLayout, elements: slice | I64) -> Part:
    """Return the part with some rows of a stored array.

    Raises:
        IndexError: A row is out of range.
    """
    runs = Runs.of(elements, layout.shape[0])
    return Part(*RowForm.of(layout).extents(runs), lambda codec, data: _rows(data, layout, runs))


class Runs(NamedTuple):
    """Elements of a value in runs that are read or decoded together."""

    first: I64  # int64[runs], the first element of each, ascending
    counts: I64  # int64[runs], the elements of each
    # int64[n], the place of each requested element in the runs, counted through all; None if it is the same
    places: I64 | None

    @classmethod
    def of(
        cls,
        elements: slice | I64,
        count: int,
        near: int = 1,
        value: str = "an array",
        unit: str = "rows",
    ) -> Runs:
        """Return the runs that some elements need of a value with `count` elements.

        Requested elements that are at most `near` apart are in one run. `value` and `unit` name
        value and elements in errors.

        Raises:
            IndexError: An element is out of range.
        """
        if isinstance(elements, slice):
            start, stop, step = elements.indices(count)
            if step == 1 and start < stop:
                return cls(np.array([start]), np.array([stop - start]), None)
        numbers = choose(elements, count, value, unit)
        if len(numbers) and (np.diff(numbers) == 1).all():
            return cls(numbers[:1], np.array([len(numbers)]), None)
        distinct = np.unique(numbers)
        begins = np.flatnonzero(np.diff(distinct, prepend=-1 - near) > near)
        first = distinct[begins]
        counts = np.append(distinct[begins[1:] - 1], distinct[-1:]) + 1 - first
        run = first.searchsorted(numbers, "right") - 1
        return cls(first, counts, (np.cumsum(counts) - counts - first)[run] + numbers)

    def chosen(self, elements: Array) -> Array:
        """Return the requested ones of the elements of all runs."""
        return elements if self.places is None else elements[self.places]


class RowForm(Struct, frozen=True):
    """Where the rows of a stored array are.

    Attributes:
        header: Bytes before the first row.
        row: Bytes of a row.
    """

    header: int
    row: int

    @classmethod
    def of(cls, layout: ArrayLayout) -> RowForm:
        """Return the form of an array that has rows."""
        return cls(len(layout.header), math.prod(layout.shape[1:]) * layout.dtype.itemsize)

    def count(self, size: int) -> int | None:
        """Return the number of rows of an array of this form with `size` bytes; None if no array has that size."""
        if self.row and size >= self.header:
            rows, rest = divmod(size - self.header, self.row)
        else:
            rows, rest = 0, 1
        return None if rest else rows

    def extents(self, runs: Runs) -> tuple[I64, I64]:
        """Return offset and length of runs of rows."""
        return self.header + self.row * runs.first, self.row * runs.counts


def part_of_headed_rows(
    ranged: Ranged, form: RowForm, size: int, elements: slice | I64
) -> Part | None:
    """Return the part with some rows of an array of a form that other arrays of its field have, and with its header.

    Args:
        ranged: Finds the layout by the header.
        form: The form that the array is expected to have.
        size: Bytes of the array.
        elements: The rows.

    Returns:
        None if that is as much as the whole array, or the array has another form.

    Raises:
        IndexError: A row is out of range.
    """
    if (count := form.count(size)) is None:
        return None
    runs = Runs.of(elements, count)
    offsets, lengths = form.extents(runs)
    if form.header + int(lengths.sum()) >= size:
        return None

    def decode(codec: str, data: Sequence[Buffer]) -> Array | None:
        head, *rows = data
        layout = layout_of_rows(ranged, bytes(head), size)
        if layout is None or RowForm.of(layout) != form:
            return None
        return _rows(rows, layout, runs)

    return Part(np.append(0, offsets), np.append(form.header, lengths), decode, by_form=True)


def in_one_piece(data: Sequence[Buffer]) -> Buffer:
    """Return the bytes of several places as one buffer."""
    return data[0] if len(data) == 1 else b"".join(data)


def _rows(data: Sequence[Buffer], layout: ArrayLayout, runs: Runs) -> Array:
    """Return the requested ones of the rows that were read."""
    numbers = np.frombuffer(in_one_piece(data), layout.dtype)
    rows = numbers.reshape(sum(runs.counts.tolist()), *layout.shape[1:])
    return rows.copy() if runs.places is None else rows[runs.places]


@lru_cache(maxsize=256)
def layout_of_rows(ranged: Ranged, head: bytes, size: int) -> ArrayLayout | None:
    """Return the layout of an array of `size` bytes by the first of them, which may be none.

    None if they do not tell it, are damaged, or if the array has no rows. Reading the whole value finds the error.
    """
    layout = None
    if ranged.layout is not None:
        with suppress(CodecError):
            layout = ranged.layout(head, size)
    if layout is None or not layout.shape:
        return None
    return layout


def part_of_whole(ranged: Ranged, numbers: I64, size: int) -> Part:
    """Return the part with some elements of a value that is read whole."""
    whole = np.array([size], np.int64)
    return Part(whole - size, whole, lambda codec, data: ranged.decode(data[0], numbers))


class _Once:
    """A part with its bytes, which is decoded when the first sample needs it."""

    def __init__(self, part: Part, sharers: int) -> None:
        from threading import Lock

        self._part, self._sharers, self._left, self._lock = part, sharers, 0, Lock()
        self._found: Array | None = None

    def decode(self, codec: str) -> Array | None:
        with self._lock:
            if not self._left:
                self._found, self._left = self._part.decode(codec), self._sharers
            decoded, self._left = self._found, self._left - 1
            if not self._left:
                self._found = None  # the last of the samples has used it
        return decoded


class SharedPart(Part, frozen=True, eq=False, kw_only=True):
    """The elements that one of several samples needs of a value which all of them share.

    Attributes:
        part: The elements that any of them needs.
        rows: int64[n], the place of each of its elements among those; a slice, if no other sample
            needs one of them.
        places: Places of the samples in the batch. The first of them reads the bytes.
        is_first: Whether this is the first of the samples; the others have no extents.
        once: The part with its bytes; None before they are read.
    """

    part: Part
    rows: I64 | slice
    places: tuple[int, ...]
    is_first: bool
    once: _Once | None = None

    @classmethod
    def of(cls, part: Part, rows: I64 | slice, places: tuple[int, ...], place: int) -> SharedPart:
        """Return the elements of the sample at a place."""
        is_first = place == places[0]
        extents = (part.offsets, part.lengths) if is_first else (NO_NUMBERS, NO_NUMBERS)
        return cls(*extents, part.decoder, part=part, rows=rows, places=places, is_first=is_first)

    def read(self, data: Sequence[Buffer]) -> Self:
        """Return the part of the first sample with its bytes."""
        return replace(self, once=_Once(self.part.read(data), len(self.places)))

    def decode(self, codec: str) -> Array | None:
        """Decode the elements of all samples when the first sample needs them, and return the elements of this one."""
        if self.once is None or (decoded := self.once.decode(codec)) is None:
            return None
        return decoded[self.rows]


def joined_parts(parts: Sequence[Part | None], stored: Sequence[bytes | None]) -> list[Any]:
    """Return the value of each sample, a part with its bytes or the stored bytes, from the extents of a plan."""
    values: list[Any] = []
    at = 0
    for part in parts:
        if part is None:
            values.append(stored[at])
            at += 1
            continue
        count = len(part.offsets)
        data = [data or b"" for data in stored[at : at + count]]
        at += count
        if isinstance(part, SharedPart) and not part.is_first:
            values.append(replace(part, once=values[part.places[0]].once))
        else:
            values.append(part.read(data))
    return values
