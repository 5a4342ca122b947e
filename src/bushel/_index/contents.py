"""The wanted contents of a shard's index apart from extents, which are made of values: scans and columns.

There are three kinds of scans: segments of tiled JPEGs, seek tables of plain ones, and packets of
video clips. Each is an attribute of `FieldExtents`. `column_scan` makes columns, of values that are read, or that
`Recorder` has seen while they were written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from bushel._runtime.arrays import I64, U32, offsets_of
from bushel._runtime.parallel import parallel_map
from bushel._runtime.threads import cpu_count
from bushel.codecs import NumberLayout, get_codec, holds_clip, holds_image
from bushel.kernels import JpegError, image_header, jpeg_seek_table, jpeg_segment_offsets
from bushel.spec import Spec
from bushel.storage import Extents, File, read_many

from .builders import FieldBuilder
from .clip_frames import ClipFrames, SeekTables, Segments
from .column_scan import (
    RecordedValues,
    ValueFiles,
    add_columns,
    characters_of,
    each_chunk,
    lengths_of_texts,
    present_rows,
)
from .columns import LONGEST_TEXT
from .names import (
    AUTO,
    EVERY,
    NONE,
    ColumnOf,
    column_of,
    known_columns,
    names_of,
    usual_columns,
)
from .table import MISSING, FieldExtents, ShardIndex

if TYPE_CHECKING:
    from bushel.codecs.clip_parts import ClipPackets

_CHUNK_ROWS = 256  # number of rows that one thread reads and scans at once

Scanned = Literal["segments", "frames", "seek"]
"""The attribute of `FieldExtents` that a scan fills."""


class ValueScan(Struct, frozen=True):
    """One kind of scan of stored values."""

    attribute: Scanned  # the attribute of `FieldExtents` that holds it
    fits: Callable[[FieldExtents], bool]  # whether the values of a field can have it
    # reads the values of a field and returns it; the arguments are the extents, their file, and the
    # known array of the first rows, which are not read again (None without one)
    scan: Callable[[FieldExtents, File, Any], Any]

    def add(
        self, index: ShardIndex, file_of: Callable[[int], File], before: ShardIndex | None = None
    ) -> ShardIndex:
        """Return the index of a shard with the missing arrays of this kind. Values are read once.

        Args:
            index: The table of the shard.
            file_of: Opens a file or block file of the shard, given its number.
            before: The table of a shard that has grown since: only the values that came later are
                read.

        Returns:
            The same index if nothing was missing.

        Raises:
            ExtentError: A file is shorter than an extent in the index requires.
        """
        scanned = {}
        fields_before = {} if before is None else before.fields
        for name, column in index.fields.items():
            if self.fits(column) and getattr(column, self.attribute) is None:
                scanned_before = getattr(fields_before.get(name), self.attribute, None)
                value = self.scan(column, file_of(column.file), scanned_before)
                scanned[name] = replace(column, **{self.attribute: value})
        if scanned:
            return replace(index, fields={**index.fields, **scanned})
        return index


def scanned_in(index: ShardIndex) -> frozenset[Scanned]:
    """Return the kinds that an index holds for any of its fields."""
    return frozenset(
        kind
        for kind in get_args(Scanned)
        if any(getattr(column, kind) is not None for column in index.fields.values())
    )


def _lengths_of_segments(data: bytes) -> U32:
    return np.diff(jpeg_segment_offsets(data), prepend=0).astype(np.uint32)


def _scan(
    kind: type[Segments | SeekTables],
    dtype: type[np.generic],
    array_of: Callable[[bytes], np.ndarray],
    column: FieldExtents,
    file: File,
    earlier: Segments | SeekTables | None,
) -> Segments | SeekTables:
    """Return the array of each JPEG of a field, after the known arrays of the first rows."""
    starts, values = astuple(earlier or kind(np.zeros(1, np.int64), np.zeros(0, dtype)))
    scanned = len(starts) - 1
    sizes = np.zeros(column.rows, np.int64)
    sizes[:scanned] = np.diff(starts)

    def arrays_of(rows: I64) -> list[np.ndarray]:
        datas = read_many([file], Extents(0, column.offset[rows], column.length[rows]))
        return [_array(data, array_of) for data in datas if data is not None]

    new_arrays = []
    for chunk, arrays in each_chunk(column, present_rows(column, scanned), arrays_of, _CHUNK_ROWS):
        sizes[chunk] = [len(array) for array in arrays]
        new_arrays += [array for array in arrays if len(array)]
    return kind(offsets_of(sizes), np.concatenate([values, *new_arrays]))


def _array(data: bytes, array_of: Callable[[bytes], np.ndarray]) -> np.ndarray:
    try:
        return array_of(data)
    except JpegError:  # not a JPEG, or a damaged one, which reading it will report
        return np.zeros(0, np.uint8)


SEGMENTS = ValueScan(
    "segments",
    lambda column: column.starts is None and holds_image(column.codec),
    partial(_scan, Segments, np.uint32, _lengths_of_segments),
)
"""The segments of tiled JPEGs. Elements of sequences have none."""

SEEK_TABLES = ValueScan(
    "seek",
    lambda column: holds_image(column.codec),
    partial(_scan, SeekTables, np.uint64, jpeg_seek_table),
)
"""The seek tables of plain JPEGs. Each JPEG is decoded once."""


# Clips


def has_pyav() -> bool:
    """Return whether PyAV is installed, which finds the packets."""
    return find_spec("av") is not None


def _frames(column: FieldExtents, file: File, known: ClipFrames | None) -> ClipFrames:
    from bushel.codecs.clip_parts import scan_clip  # raises MissingPackageError without PyAV

    def scan(row: int) -> ClipPackets | None:
        return scan_clip(column.codec, file.read(int(column.offset[row]), int(column.length[row])))

    earlier: list[ClipPackets | None] = []
    if known is not None:
        earlier = [
            known.of(row, size) for row, size in enumerate(column.length[: known.rows].tolist())
        ]
    rows = present_rows(column, len(earlier)).tolist()
    clips = dict(
        zip(rows, parallel_map(scan, rows, threads=cpu_count(), name="bushel-scan"), strict=True)
    )
    return ClipFrames.of_clips([*earlier, *map(clips.get, range(len(earlier), column.rows))])


FRAMES = ValueScan(
    "frames", lambda column: column.starts is None and holds_clip(column.codec), _frames
)
"""The packets of clips. The clips are read, and not decoded."""


# The wanted contents

# writers record texts that have at most this many bytes on average: names, not captions
_USUAL_TEXT = 32


def _is_usual(requested: ColumnOf, column: FieldExtents) -> bool:
    """Return whether a writer records a column that it may record."""
    if requested.reading not in ("value", "length") or get_codec(column.codec).layout is not None:
        return True
    lengths = column.length[column.present]
    short = bool(len(lengths)) and float(lengths.mean()) <= _USUAL_TEXT
    if requested.reading == "value":
        return short
    # else the texts have their lengths
    return bool(len(lengths)) and (not short or int(lengths.max()) > LONGEST_TEXT)


class Contents(Struct, frozen=True):
    """The wanted contents of an index apart from extents."""

    # segments and seek tables of JPEGs, and packets of clips
    scans: frozenset[Scanned] = frozenset()
    # names of columns, and such as `*.width`; those that the fields cannot have are left out
    columns: tuple[str, ...] = ()
    usual: bool = False  # whether to add the columns that writers record

    @classmethod
    def given(cls, scans: Mapping[Scanned, bool], columns: str | Iterable[str] | None) -> Contents:
        """Return the requests of a user: scans, and names of columns, in a list or a text with commas, and `auto`.

        None stands for the usual columns.
        """
        names = (AUTO,) if columns is None else names_of(columns)
        return cls(
            frozenset(scan for scan, is_asked in scans.items() if is_asked),
            tuple(name for name in names if name not in (AUTO, NONE)),
            AUTO in names,
        )

    @classmethod
    def of(cls, index: ShardIndex) -> Contents:
        """Return the contents of a table."""
        return cls(scanned_in(index), tuple(index.columns))

    @classmethod
    def to_keep(cls, index: ShardIndex) -> Contents:
        """Return the contents that appended samples inherit from a table.

        That follows from the table alone, so that a writer which was killed and one which was not
        decide alike. A table without one of the usual columns was written without them. If it has
        them all, the samples that follow get the usual columns of their own shard: a text that is
        short here may be long there.
        """
        usual = not cls(usual=True).missing_columns(index)
        decided = {column.name for column in usual_columns(index.spec)} if usual else ()
        names = tuple(name for name in index.columns if name not in decided)
        return cls(scanned_in(index), names, usual)

    def __or__(self, other: Contents) -> Contents:
        """Return the union of both."""
        names = dict.fromkeys((*self.columns, *other.columns))
        return Contents(self.scans | other.scans, tuple(names), self.usual or other.usual)

    def check_columns(self, fields: Spec) -> None:
        """Check that fields can have the columns that are named.

        Raises:
            KeyError, SpecError: As `column_of`.
        """
        for name in self.columns:
            if not name.startswith(EVERY):
                column_of(name, fields)

    def missing_columns(self, index: ShardIndex) -> list[ColumnOf]:
        """Return the wanted columns that a table lacks."""
        fields = index.spec
        requested: list[ColumnOf] = []
        if self.usual:
            requested += [
                column
                for column in usual_columns(fields)
                if _is_usual(column, index.fields[column.field.name])
            ]
        requested += known_columns(self.columns, fields)
        return [
            column
            for column in dict.fromkeys(requested)
            if column.name not in index.columns and column.reading not in ("bytes", "elements")
        ]

    def add_to(
        self,
        index: ShardIndex,
        files: ValueFiles,
        before: ShardIndex | None = None,
        *,
        frames: bool,
    ) -> ShardIndex:
        """Return a table with the contents that it lacks. Values are read.

        Args:
            index: The table.
            files: The files of the shard.
            before: The table of the shard before it grew: only the values that came later are
                scanned, except for columns.
            frames: Whether packets of clips are found, which needs PyAV.

        Raises:
            ExtentError: A file is shorter than an extent in the table requires.
            SpecError: Columns of clips are wanted, and PyAV is not installed.
        """
        for scan in (SEGMENTS, SEEK_TABLES):
            if scan.attribute in self.scans:
                index = scan.add(index, files.file_of, before)
        if frames:
            index = FRAMES.add(index, files.file_of, before)
        return add_columns(index, self.missing_columns(index), files)


# Recording them while a shard is written

_BYTES = (bytes, bytearray, memoryview)
_MEAN, _ALLOWED = 64, 1 << 16
"""The bytes of values are recorded while their mean size is at most this many; the first ones always."""


class Recorder:
    """Records values of a new shard while it is written, from which its columns are made without reading again.

    The stored bytes of numbers and short texts are recorded, lengths of texts, and headers of
    images. If anything is missing in the end, as after a resumed write, the columns are found in
    the files instead, with the same result.

    Args:
        builders: The shard's fields.
        contents: The contents of its index.
    """

    def __init__(self, builders: Iterable[FieldBuilder], contents: Contents) -> None:
        fields = {builder.field.name: builder.field for builder in builders}
        columns = known_columns(contents.columns, fields)
        if contents.usual:
            columns += usual_columns(fields)
        readings = {(column.field.name, column.reading) for column in columns}
        self._fields: dict[str, _FieldRecorder] = {}
        for builder in builders:
            name, is_text = builder.field.name, builder.codec == "utf8"
            is_plain = is_text or isinstance(get_codec(builder.codec).layout, NumberLayout)
            headers = (name, "image") in readings
            lengths = is_text and (name, "length") in readings
            if headers or lengths or (is_plain and (name, "value") in readings):
                self._fields[name] = _FieldRecorder(headers=headers, characters=lengths)

    def add(self, values: Mapping[str, Any]) -> None:
        """Record a sample that was written."""
        for name, field in self._fields.items():
            field.add(values.get(name))

    def add_rows(self, columns: Mapping[str, Any], rows: int) -> None:
        """Record the first samples of columns that `ShardWriter.extend` has written."""
        for name, field in self._fields.items():
            field.add_rows(columns[name], rows)

    def recorded(self, index: ShardIndex) -> dict[str, RecordedValues]:
        """Return the recorded values by field, of those fields whose values are recorded as the index has them."""
        pairs = [(name, field.recorded(index.fields[name])) for name, field in self._fields.items()]
        return {name: values for name, values in pairs if values is not None}


class _FieldRecorder:
    """Records the length of each value of a field, and the header of an image, or the bytes while they are few.

    With `characters`, it counts the characters of each text.
    """

    def __init__(self, *, headers: bool, characters: bool) -> None:
        self._lengths = array("q")
        self._headers = bytearray() if headers else None
        self._data = None if headers else bytearray()
        self._characters = array("q") if characters else None

    def add(self, value: Any) -> None:
        """Record a value."""
        data = value if isinstance(value, _BYTES) else b""
        self._lengths.append(MISSING if data is not value else memoryview(data).nbytes)
        if self._headers is not None:
            self._headers += image_header(data)
        if self._characters is not None:
            self._characters.append(characters_of(data))
        self._record(data)

    def add_rows(self, column: Any, rows: int) -> None:
        """Record the first values of a column without missing ones."""
        ends = column.offsets[: rows + 1]
        self._lengths.frombytes(np.diff(ends).tobytes())
        if self._headers is not None:
            self._headers += b"".join(map(image_header, column.rows(0, rows).pieces))
        if self._characters is not None:
            self._characters.frombytes(lengths_of_texts(column.data, ends).tobytes())
        self._record(column.data[ends[0] : ends[-1]].data)

    def _record(self, data: bytes | bytearray | memoryview) -> None:
        """Record the bytes of values whose lengths are recorded, while they are few."""
        if self._data is not None:
            self._data += data
            if len(self._data) > _MEAN * len(self._lengths) + _ALLOWED:
                self._data = None

    def recorded(self, column: FieldExtents) -> RecordedValues | None:
        """Return the recorded values; None if the lengths in the index are others."""
        lengths = np.frombuffer(self._lengths, np.int64)
        if not np.array_equal(lengths, column.length):
            return None
        data = headers = characters = None
        if self._data is not None:
            data = np.frombuffer(self._data, np.uint8)
        if self._headers is not None:
            headers = np.frombuffer(self._headers, np.int32).reshape(-1, 5)
        if self._characters is not None:
            characters = np.where(lengths == MISSING, MISSING, self._characters)
        return RecordedValues(lengths, data, headers, characters)
