"""Scan of stored values for columns of the index.

Numbers, short texts and headers of images are read by kernels, straight from the mapped file;
everything else is decoded value by value, in threads. Values that cannot be read, since they are
damaged or of another kind, are missing from the column; reading it will report it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I32, I64, U8, offsets_of
from bushel._runtime.parallel import parallel_map
from bushel._runtime.threads import cpu_count
from bushel.codecs import ArrayLayout, NumberLayout, get_codec
from bushel.errors import BushelError
from bushel.kernels import MappedFile, NumberForms, NumberTable, decode_numbers, image_headers
from bushel.storage import Extents, File, gather, read_many

from .columns import LONGEST_TEXT, NUMBERS, Column, Kind, numbers, of_texts
from .names import ColumnOf
from .object_columns import of_array, of_objects, reader_of
from .table import MISSING, FieldExtents, ShardIndex

_HEAD = 1 << 16  # bytes of a remote image that are read first
DAMAGED = -1
"""The number of characters of bytes that are not UTF-8."""
_CHUNK_BYTES = 4 << 20
_SHORT_TEXTS = 1 << 16  # most texts that are measured at once
_FORMATS = {1: "jpeg", 2: "png"}  # formats as `kernels.image_headers` numbers them

U = TypeVar("U")


class RecordedValues(Struct, frozen=True):
    """The values of one field that a writer recorded while it wrote a shard."""

    length: I64  # int64[samples], bytes of each value; `MISSING` for a missing value
    # uint8[bytes], the stored values, one after another; None if they were not recorded
    data: U8 | None = None
    # int32[samples, 5], as `kernels.image_headers` returns them, or None
    headers: I32 | None = None
    # int64[samples], the characters of each text, negative for one that is missing or damaged; or
    # None
    characters: I64 | None = None


class ValueFiles(Struct, frozen=True):
    """The files of a shard from which values are read."""

    file_of: Callable[[int], File]  # opens a file or block file of the shard, given its number
    # the values of fields that need not be read, because the writer has recorded them
    recorded: Mapping[str, RecordedValues] = {}


def add_columns(index: ShardIndex, missing: Sequence[ColumnOf], files: ValueFiles) -> ShardIndex:
    """Return the table of a shard with columns that it lacks. The values of each field are read once.

    Returns:
        The same table if it lacks none.

    Raises:
        ExtentError: A file is shorter than an extent in the table requires.
        SpecError: Columns of clips are wanted, and PyAV is not installed.
    """
    by_field: dict[str, list[ColumnOf]] = {}
    for lacking in missing:
        by_field.setdefault(lacking.field.name, []).append(lacking)
    if not by_field:
        return index
    scanned: dict[str, Column] = {}
    for name, columns in by_field.items():
        scanned |= _Scan(index.fields[name], index, files).run(columns)
    in_order = {column.name: scanned[column.name] for column in missing}
    return replace(index, columns={**index.columns, **in_order})


def present_rows(column: FieldExtents, first: int = 0) -> I64:
    """Return the rows from `first` on that have a value."""
    return np.flatnonzero(column.length[first:] != MISSING) + first


def each_chunk(
    column: FieldExtents, rows: I64, read: Callable[[I64], U], most: int = 4096
) -> Iterator[tuple[I64, U]]:
    """Yield some rows in chunks with the results of a function, which threads call with each chunk.

    A chunk has 4 MiB of values and `most` rows at most.
    """
    chunks = list(_chunks(rows, column.length, most))
    results = parallel_map(read, chunks, threads=cpu_count(), name="bushel-scan")
    yield from zip(chunks, results, strict=True)


def _chunks(rows: I64, lengths: I64, most: int) -> Iterator[I64]:
    ends = np.cumsum(lengths[rows], dtype=np.int64)
    first = before = 0
    while first < len(rows):
        fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        last = min(max(fitting, first + 1), first + most, len(rows))
        yield rows[first:last]
        first, before = last, int(ends[last - 1])


class _Scan:
    """The scan of one field of a shard."""

    def __init__(self, column: FieldExtents, index: ShardIndex, files: ValueFiles) -> None:
        self._column, self._rows = column, len(column.offset)
        self._file = files.file_of(column.file)
        nothing = RecordedValues(column.length)
        self._recorded = files.recorded.get(column.field.name, nothing)
        self._mapped, self._offset = self._file, np.asarray(column.offset)
        self._whole = column.length != MISSING
        if column.file >= len(index.files):
            number, self._offset = index.in_one_piece(column)
            self._whole = np.full(self._rows, False)
            if (number >= 0).any():  # kernels read those values that are one piece of a real file
                home = int(number[number >= 0][0])
                self._mapped, self._whole = files.file_of(home), number == home

    def run(self, columns: Sequence[ColumnOf]) -> dict[str, Column]:
        """Return the columns of the field, which are of one kind: only texts have values and lengths."""
        reading, scanned = columns[0].reading, None
        if reading == "image":
            scanned = self._images(columns)
        elif reading == "array":
            scanned = self._arrays(columns)
        if scanned is not None:
            return scanned
        scanned, rest = {}, []
        for requested in columns:
            column = None
            if requested.reading == "value":
                column = self._numbers() or self._texts()
            elif requested.reading == "length":
                column = self._text_lengths()
            if column is None:
                rest.append(requested)
            else:
                scanned[requested.name] = column
        return scanned | self._decoded(rest) if rest else scanned

    # Numbers and texts, with kernels

    def _numbers(self) -> Column | None:
        """Return the numbers of a codec whose numbers are plainly in the stored bytes; None if some do not."""
        column = self._column
        layout = get_codec(column.codec).layout
        if not isinstance(layout, NumberLayout):
            return None
        forms = None
        if layout.length is not None:
            forms = NumberForms({layout.length: layout.header})
        rows = self._rows
        kind: Kind = "float" if layout.kind == "real" else "int"
        out = np.empty(rows, NUMBERS[kind])
        recorded = self._recorded
        if recorded.data is not None:
            bad = decode_numbers(recorded.data, recorded.length, layout.kind, forms, out)
        elif isinstance(self._mapped, MappedFile):
            length = np.where(self._whole, column.length, MISSING)
            table = NumberTable(
                [(0, rows, [(self._mapped, self._offset, length, None, layout.kind, forms)])], 1
            )
            [bad], _ = table.gather(np.arange(rows), [[out]])
        else:
            return None
        if bad is None:
            return numbers(kind, out)
        missing = column.length == MISSING
        if missing[bad].all():
            return numbers(kind, out, missing)
        return None  # damaged, too large or in pieces: decoded one by one

    def _texts(self) -> Column | None:
        """Return the texts of a field; None if some have to be decoded one by one."""
        column, recorded = self._column, self._recorded
        if column.codec != "utf8":
            return None
        if recorded.data is not None and int(recorded.length.max(initial=0)) <= LONGEST_TEXT:
            short = recorded.length != MISSING
            text, offsets = recorded.data, offsets_of(np.maximum(recorded.length, 0))
        elif isinstance(self._mapped, MappedFile):
            short = column.present & (column.length <= LONGEST_TEXT)
            length = np.where(short, column.length, MISSING)
            text, offsets = gather([self._file], Extents(0, np.asarray(column.offset), length))
        else:
            return None
        if (lengths_of_texts(text, offsets) == DAMAGED).any():
            return None
        return of_texts(text, offsets, ~short)

    def _text_lengths(self) -> Column | None:
        """Return the characters of each text; missing where it is damaged. None if all have to be decoded."""
        column, characters = self._column, self._recorded.characters
        if column.codec != "utf8":
            return None
        if characters is None:
            if not isinstance(self._mapped, MappedFile):
                return None

            def of_chunk(rows: I64) -> I64:
                extents = Extents(0, column.offset[rows], column.length[rows])
                return lengths_of_texts(*gather([self._file], extents))

            characters = np.full(self._rows, MISSING, np.int64)
            for rows, lengths in each_chunk(column, present_rows(column), of_chunk, _SHORT_TEXTS):
                characters[rows] = lengths
        return numbers("int", characters, characters < 0)

    # Arrays

    def _arrays(self, wanted: Sequence[ColumnOf]) -> dict[str, Column] | None:
        """Return the columns of arrays whose headers a kernel compares, size by size; None if it cannot."""
        column, layout = self._column, get_codec(self._column.codec).layout
        if (
            not callable(layout)
            or not isinstance(self._mapped, MappedFile)
            or not self._whole.all()
        ):
            return None
        sizes, examples, which = np.unique(column.length, return_index=True, return_inverse=True)
        try:
            layouts = [layout(stored or b"") for stored in self._stored(examples, None)]
        except BushelError:
            return None
        arrays = [array for array in layouts if isinstance(array, ArrayLayout)]
        if len(arrays) < len(layouts):
            return None
        headers = [array.header for array in arrays]
        forms = NumberForms(dict(zip(sizes.tolist(), headers, strict=True)))
        length = np.ascontiguousarray(column.length)
        field = (self._mapped, self._offset, length, None, "bytes", forms)
        table = NumberTable([(0, self._rows, [field])], 1)
        nothing = np.zeros(self._rows + 1, np.int64)
        bad, _ = table.gather_rows(
            0, np.arange(self._rows), np.zeros(1, np.uint8), nothing, None, nothing[1:]
        )
        if bad is not None:
            return None  # arrays of the same size have other shapes or types
        columns = {}
        for requested in wanted:
            values = [of_array(array.shape, array.dtype, requested.part) for array in arrays]
            if values and all(type(value) is int for value in values):
                columns[requested.name] = numbers("int", np.array(values, np.int64)[which], None)
            else:
                columns[requested.name] = of_objects([values[place] for place in which.tolist()])
        return columns

    # Images

    def _images(self, columns: Sequence[ColumnOf]) -> dict[str, Column]:
        header = np.zeros((self._rows, 5), np.int32)
        if self._recorded.headers is not None:
            header = self._recorded.headers.copy()
        elif isinstance(self._mapped, MappedFile):
            length = np.where(self._whole, self._column.length, MISSING)
            header = image_headers(self._mapped, self._offset, length)
        formats = [_FORMATS.get(number) for number in header[:, 0].tolist()]
        rest = np.flatnonzero((header[:, 0] == 0) & (self._column.length != MISSING))
        if len(rest):
            from bushel.codecs.headers import image_header

            head = None if isinstance(self._mapped, MappedFile) else _HEAD
            images = self._each(rest, image_header, head)
            for row, image in zip(rest.tolist(), images, strict=True):
                if image is not None:
                    formats[row] = image.format
                    header[row] = -1, image.width, image.height, image.channels, image.orientation
        missing = header[:, 0] == 0
        places = {"width": 1, "height": 2, "channels": 3, "exif_orientation": 4}
        return {
            requested.name: of_objects(formats)
            if requested.part == "format"
            else numbers("int", header[:, places[requested.part]], missing)
            for requested in columns
        }

    # Everything else

    def _decoded(self, columns: Sequence[ColumnOf]) -> dict[str, Column]:
        read = reader_of(self._column, columns)
        rows = present_rows(self._column)
        values_of_columns: list[list[Any]] = [[None] * self._rows for _ in columns]
        for row, values in zip(rows.tolist(), self._each(rows, read), strict=True):
            for column_values, value in zip(values_of_columns, values or (), strict=False):
                column_values[row] = value
        return {
            requested.name: of_objects(column_values)
            for requested, column_values in zip(columns, values_of_columns, strict=True)
        }

    def _each(
        self, rows: I64, read: Callable[[bytes], Any], head: int | None = None
    ) -> Iterator[Any]:
        """Yield the result of a function for the stored bytes of each row, or first for its first `head` bytes."""

        def of_chunk(chunk: I64) -> list[Any]:
            values = [None if data is None else read(data) for data in self._stored(chunk, head)]
            unread = [at for at, value in enumerate(values) if head and value is None]
            for at, data in zip(unread, self._stored(chunk[unread], None), strict=True):
                values[at] = None if data is None else read(data)
            return values

        for _, values in each_chunk(self._column, rows, of_chunk):
            yield from values

    def _stored(self, rows: I64, head: int | None) -> list[bytes | None]:
        """Return the stored bytes of rows, or the first ones."""
        column = self._column
        length = column.length[rows]
        if head is not None:
            length = np.minimum(length, head)
        return read_many([self._file], Extents(0, column.offset[rows], length))


# Characters of texts


def characters_of(data: bytes | bytearray | memoryview) -> int:
    """Return the number of characters of a text; `DAMAGED` if it is not UTF-8."""
    try:
        return len(str(data, "utf-8"))
    except UnicodeDecodeError:
        return DAMAGED


def lengths_of_texts(text: U8, offsets: I64) -> I64:
    """Return int64[texts], the number of characters of each text; `DAMAGED` for those that are not UTF-8.

    Args:
        text: uint8[bytes], the texts in UTF-8.
        offsets: int64[texts + 1] into `text`.
    """
    first, last = int(offsets[0]), int(offsets[-1])
    content, ends = text[first:last], offsets - first
    if len(content) == 0:
        return np.zeros(len(ends) - 1, np.int64)
    if int(content.max()) < 0x80:
        return np.diff(ends)
    begins = (content & 0xC0) != 0x80  # the first byte of a character
    whole = characters_of(content.data) != DAMAGED and bool(
        begins[ends[:-1][ends[:-1] < len(content)]].all()
    )
    if not whole:
        pairs = pairwise(ends.tolist())
        return np.array([characters_of(content[a:b].data) for a, b in pairs], np.int64)
    before = offsets_of(begins)
    return before[ends[1:]] - before[ends[:-1]]
