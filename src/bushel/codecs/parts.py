"""Parts of values: some elements of a value, and the bytes of it that they need.

A part is planned without I/O, is given its bytes, and decodes its elements. Samples that need
elements of the same value share one part (`SharedPart`), so that it is read and decoded once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BufferedReader
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I64, Array
from bushel.errors import CodecError

from .base import ArrayLayout, Buffer, Ranged, choose


class Part:
    """Elements of a value that are to be decoded, and the extents of its bytes that they need.

    It is a plain class, since reading asks of each value whether it is one.
    """

    __slots__ = ()

    of_clip = False  # whether the elements are frames of a clip

    @property
    @abstractmethod
    def offsets(self) -> I64:
        """int64[n], where the bytes are, counted from the start of the value."""

    @property
    @abstractmethod
    def lengths(self) -> I64:
        """int64[n], the number of bytes in each place."""

    @property
    def nbytes(self) -> int:
        """Number of bytes that are read for it."""
        return int(self.lengths.sum())

    def read(self, data: Sequence[Buffer]) -> Self:
        """Return the part with its bytes, an element per extent."""
        return replace(self, data=tuple(data))  # type: ignore[type-var]

    @abstractmethod
    def decode(self, codec: str) -> Array | None:
        """Decode the elements; None if the bytes do not give them, so that the value has to be read whole."""


class FilePart(Part, Struct, frozen=True, eq=False):
    """Elements that a decoder reads from an open file. No bytes are read for it in advance.

    Attributes:
        opened: Opens the value as a file.
        decoder: Decodes them: `Ranged.in_file`.
        elements: The elements.
        offsets: Empty.
        lengths: Empty.
    """

    opened: Callable[[], BufferedReader]
    decoder: Callable[[BufferedReader, slice | I64], Any]
    elements: slice | I64
    offsets: I64 = np.zeros(0, np.int64)
    lengths: I64 = np.zeros(0, np.int64)

    def read(self, data: Sequence[Buffer]) -> Self:
        """Return the part."""
        return self

    def decode(self, codec: str) -> Array | None:
        """Read and decode the elements; None if the value has to be read whole."""
        with self.opened() as file:
            decoded: Array | None = self.decoder(file, self.elements)
        return decoded


class FileOutline(NamedTuple):
    """The outline of a value whose decoder finds the elements in an open file."""

    opened: Callable[[], BufferedReader]
    decoder: Callable[[BufferedReader, slice | I64], Any]

    def probe(self, elements: slice | I64) -> None:
        """Return None: nothing is looked at in advance."""

    def learn(self, offset: int, data: bytes) -> None:
        """Do nothing."""

    def part(self, elements: slice | I64) -> FilePart:
        """Return the part with some elements."""
        return FilePart(self.opened, self.decoder, elements)


class RowsPart(Part, Struct, frozen=True, eq=False):
    """Rows of a stored array.

    Attributes:
        layout: The layout of the array.
        rows: int64[n], the place of each requested row among the rows that are read; None if they
            are the same.
        offsets: int64[m], where runs of rows are, in bytes from the start of the value.
        lengths: int64[m], bytes.
        data: Their bytes; empty before they are read.
    """

    layout: ArrayLayout
    rows: I64 | None
    offsets: I64
    lengths: I64
    data: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, layout: ArrayLayout, elements: slice | I64) -> RowsPart:
        """Return the part with some rows.

        Raises:
            IndexError: A row is out of range.
        """
        return cls(layout, *row_runs(RowForm.of(layout), layout.shape[0], elements))

    def decode(self, codec: str) -> Array:
        """Return the requested rows."""
        return _rows(self.data, self.layout, self.rows)


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


class HeadedRowsPart(Part, Struct, frozen=True, eq=False):
    """Rows of a stored array of a form that other arrays of its field have. Its own header is read with them.

    Attributes:
        ranged: Finds the layout by the header.
        form: The form that the array is expected to have.
        size: Bytes of the array.
        rows: int64[n], the place of each requested row among the rows that are read; None if they
            are the same.
        offsets: int64[m + 1], where the header and the runs of rows are, in bytes from the start of
            the value.
        lengths: int64[m + 1], bytes.
        data: Their bytes; empty before they are read.
    """

    ranged: Ranged
    form: RowForm
    size: int
    rows: I64 | None
    offsets: I64
    lengths: I64
    data: tuple[bytes, ...] = ()

    @classmethod
    def of(
        cls, ranged: Ranged, form: RowForm, size: int, elements: slice | I64
    ) -> HeadedRowsPart | None:
        """Return the part with some rows; None if that is as much as the whole array, or the array has another form.

        Raises:
            IndexError: A row is out of range.
        """
        if (count := form.count(size)) is None:
            return None
        rows, offsets, lengths = row_runs(form, count, elements)
        if form.header + int(lengths.sum()) >= size:
            return None
        head = np.array([form.header], np.int64)
        return cls(ranged, form, size, rows, np.append(0, offsets), np.concatenate([head, lengths]))

    def decode(self, codec: str) -> Array | None:
        """Return the requested rows; None if the header says that the array has another form."""
        head, *runs = self.data
        if self.ranged.layout is None:
            layout = None
        else:
            layout = _layout(self.ranged.layout, bytes(head), self.size)
        if layout is None or not layout.shape or RowForm.of(layout) != self.form:
            return None
        return _rows(runs, layout, self.rows)


def row_runs(
    form: RowForm, count: int, elements: slice | I64, value: str = "an array", unit: str = "rows"
) -> tuple[I64 | None, I64, I64]:
    """Return the place of each chosen row among those that are read, and the offsets and lengths of runs of these.

    The places are None if the chosen rows follow each other. `value` and `unit` name an array and
    rows in errors.
    """
    if isinstance(elements, slice):
        start, stop, step = elements.indices(count)
        if step == 1 and start < stop:
            return (
                None,
                np.array([start * form.row + form.header]),
                np.array([(stop - start) * form.row]),
            )
    numbers = choose(elements, count, value, unit)
    if len(numbers) and (np.diff(numbers) == 1).all():
        return (
            None,
            numbers[:1] * form.row + form.header,
            np.array([len(numbers) * form.row], np.int64),
        )
    distinct, rows = np.unique(numbers, return_inverse=True)
    begins = np.flatnonzero(np.diff(distinct, prepend=-2) != 1)
    counts = np.diff(begins, append=len(distinct))
    return rows.reshape(-1), distinct[begins] * form.row + form.header, counts * form.row


def _rows(data: Sequence[bytes], layout: ArrayLayout, rows: I64 | None) -> Array:
    """Return the requested ones of the rows that were read."""
    if rows is None:
        return np.frombuffer(data[0], layout.dtype).reshape(-1, *layout.shape[1:]).copy()
    count = int(rows.max()) + 1 if len(rows) else 0
    return np.frombuffer(b"".join(data), layout.dtype).reshape(count, *layout.shape[1:])[rows]


@lru_cache(maxsize=256)
def _layout(
    find: Callable[[bytes, int], ArrayLayout | None], head: bytes, size: int
) -> ArrayLayout | None:
    """Return the layout of an array by its header; None if the header lacks it."""
    try:
        return find(head, size)
    except CodecError:
        return None


class ValuePart(Part, Struct, frozen=True, eq=False):
    """Elements of a value that is read whole.

    Attributes:
        ranged: Decodes them.
        numbers: int64[n], the elements.
        lengths: int64[1], bytes of the value.
        data: The bytes; empty before they are read.
    """

    ranged: Ranged
    numbers: I64
    lengths: I64
    data: tuple[bytes, ...] = ()

    @property
    def offsets(self) -> I64:
        """The start of the value."""
        return np.zeros(1, np.int64)

    def decode(self, codec: str) -> Array:
        """Decode the elements."""
        elements: Array = self.ranged.decode(self.data[0], self.numbers)
        return elements


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


class SharedPart(Part, Struct, frozen=True, eq=False):
    """The elements that one of several samples needs of a value which all of them share.

    Attributes:
        part: The elements that any of them needs.
        rows: int64[n], the place of each of its elements among those; a slice, if no other sample
            needs one of them.
        places: Places of the samples in the batch. The first of them reads the bytes.
        place: Place of this sample.
        once: The part with its bytes; None before they are read.
    """

    part: Part
    rows: I64 | slice
    places: tuple[int, ...]
    place: int
    once: _Once | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the first of the samples."""
        return self.place == self.places[0]

    @property
    def offsets(self) -> I64:
        """Offsets of the part for the first sample, else empty."""
        if self.is_first:
            return self.part.offsets
        return np.zeros(0, np.int64)

    @property
    def lengths(self) -> I64:
        """Lengths of the part for the first sample, else empty."""
        if self.is_first:
            return self.part.lengths
        return np.zeros(0, np.int64)

    def read(self, data: Sequence[Buffer]) -> Self:
        """Return the part of the first sample with its bytes."""
        return replace(self, once=_Once(self.part.read(data), len(self.places)))

    def decode(self, codec: str) -> Array | None:
        """Decode the elements of all samples when the first sample needs them, and return the elements of this one."""
        decoded = None if self.once is None else self.once.decode(codec)
        if decoded is None:
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
