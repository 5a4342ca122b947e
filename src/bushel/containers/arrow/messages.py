"""The messages of Arrow's IPC streams and files: schema, dictionaries and record batches.

https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc.
A stream begins with its schema. The schema of a file, and the offsets of its batches, are in the
footer. Bodies are not read here.

They are tables of FlatBuffers (https://flatbuffers.dev/internals/). Every position is checked
against the bytes, so forged metadata ends in a `ValueError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from msgspec import Struct

from bushel.errors import FormatError
from bushel.storage import File

MAGIC = b"ARROW1"
_CONTINUED = b"\xff\xff\xff\xff"
_LARGEST = 256 << 20
_DEEPEST = 64
_MOST_COLUMNS = 100_000
_MOST_ROWS, _FEW_ROWS = 1 << 27, 1 << 20
"""Limits of the values of a column in a batch: of compressed ones, and of those that need no bytes."""
_HINT = "the file is damaged or truncated: write or download it again"
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
_BLOCK = "<qi4xq"  # of the footer: offset, bytes of the metadata, and of the body


class Type:
    """Numbers of types in Arrow's metadata."""

    NULL, INT, FLOAT, BINARY, UTF8, BOOL = 1, 2, 3, 4, 5, 6
    LIST, STRUCT, UNION, FIXED_BINARY, FIXED_LIST, MAP = 12, 13, 14, 15, 16, 17
    DATE, TIME, TIMESTAMP, INTERVAL, DURATION = 8, 9, 10, 11, 18
    LARGE_BINARY, LARGE_UTF8, LARGE_LIST, RUN_END = 19, 20, 21, 22
    BINARY_VIEW, UTF8_VIEW, LIST_VIEW, LARGE_LIST_VIEW = 23, 24, 25, 26


_UNITS = ("s", "ms", "us", "ns")
_TWO_BUFFERS = {
    *range(2, 4),
    *range(6, 13),
    Type.FIXED_BINARY,
    Type.MAP,
    Type.DURATION,
    Type.LARGE_LIST,
}
_FEATHER_1 = b"FEA1"
_REWRITE = "write it again: pyarrow.feather.write_feather(pyarrow.feather.read_table(path), path)"
_VIEWS = {Type.BINARY_VIEW, Type.UTF8_VIEW}


class Column(Struct, frozen=True):
    """A column of a schema, or a child of one."""

    name: str
    # number of its type; of a column with a dictionary, that of the numbers of its entries
    type: int
    # bits of an integer, date or time; bytes of a fixed binary; elements of a fixed list; 0, 1 or 2
    # of a float of 16, 32 or 64 bits
    width: int = 0
    signed: bool = True  # whether an integer is signed
    children: tuple[Column, ...] = ()
    dictionary: int | None = None  # number of its dictionary, or None
    entries: Column | None = None  # the column of the entries of its dictionary
    dense: bool = False  # whether a union has a buffer of offsets
    # NumPy's unit of a date, time, timestamp, duration or interval of months; else empty
    unit: str = ""
    # of its own, such as the name of an extension type
    metadata: Mapping[str, str] = {}

    @property
    def buffers(self) -> int | None:
        """Number of its own buffers; None for views, which have others, too."""
        if self.type in _TWO_BUFFERS:
            return 2
        if self.type in (Type.BINARY, Type.UTF8, Type.LARGE_BINARY, Type.LARGE_UTF8, 25, 26):
            return 3
        if self.type in _VIEWS:
            return None
        if self.type == Type.UNION:
            return 2 if self.dense else 1
        return 1 if self.type in (Type.STRUCT, Type.FIXED_LIST) else 0


class Schema(Struct, frozen=True):
    """The schema of a stream."""

    columns: tuple[Column, ...]
    metadata: Mapping[str, str]
    end: int  # offset of the first batch of a stream
    # start and end of each batch of a file; None for a stream
    batches: tuple[tuple[int, int], ...] | None


class Batch(Struct, frozen=True):
    """A record batch, or the values of a dictionary."""

    rows: int
    # length and number of nulls of each column and child, in order
    nodes: tuple[tuple[int, ...], ...]
    # where each buffer is in the file, and its length in bytes
    buffers: tuple[tuple[int, int], ...]
    codec: str | None  # the filter that its buffers are compressed with, or None
    dictionary: int | None  # number of the dictionary, or None for a record batch
    delta: bool  # whether the values are added to the dictionary
    views: tuple[int, ...]  # number of the buffers of values of each column of views
    offset: int  # where its message begins


class _Message(Struct):
    kind: int
    header: FlatTable
    start: int
    body: int
    end: int


def read_schema(file: File) -> Schema:
    """Return the schema of a file or stream. Raise FormatError if it is damaged, or big-endian."""
    at, batches, message = 0, None, None
    if file.read(0, min(file.size, 6)) == MAGIC:
        at, header, batches = _footer(file)
    else:
        message = _message_at(file, 0)
        if message is None or message.kind != _SCHEMA:
            raise FormatError("it does not begin with a schema of Arrow", file.path, 0, _HINT)
        header = message.header
    try:
        if header.number(0, "<h"):
            raise FormatError(
                "its numbers are big-endian, which Bushel does not read", file.path, at
            )
        end = 0 if message is None else message.end
        return Schema(_columns(header), _texts(header, 2), end, batches)
    except ValueError as error:
        raise _damaged(file, at, error) from error


def _footer(file: File) -> tuple[int, FlatTable, tuple[tuple[int, int], ...]]:
    """Return where the footer of a file begins, its schema, and start and end of each batch."""
    end = file.size - len(MAGIC) - 4
    tail = file.read(max(end, 0), min(file.size, len(MAGIC) + 4))
    length = int.from_bytes(tail[:4], "little", signed=True)
    start = end - length
    if tail[4:] != MAGIC or not 0 < length <= _LARGEST or start < len(MAGIC):
        raise _damaged(file, max(end, 0), "the footer of the file is missing")
    try:
        footer = root_of(memoryview(file.read(start, length)))
        header = footer.table(1)
        blocks = [*footer.structs(2, _BLOCK), *footer.structs(3, _BLOCK)]
    except ValueError as error:
        raise _damaged(file, start, error) from error
    if header is None:
        raise _damaged(file, start, "the footer has no schema")
    batches = tuple((offset, offset + metadata + body) for offset, metadata, body in blocks)
    ends = [len(MAGIC)] + sorted(last for _, last in batches)
    starts = [*sorted(first for first, _ in batches), start]
    if any(last > first for last, first in zip(ends, starts, strict=True)):
        raise _damaged(file, start, "the batches of the footer overlap, or are outside the file")
    return start, header, batches


def columns_in(message: bytes) -> tuple[Column, ...]:
    """Return the columns of a message with a schema, as Parquet's metadata have it.

    Raises:
        ValueError: It is damaged.
    """
    header = root_of(memoryview(message)[8:]).table(2)
    if header is None:
        raise ValueError("a message without a schema")
    return _columns(header)


def _columns(schema: FlatTable) -> tuple[Column, ...]:
    left = [_MOST_COLUMNS]
    return tuple(_column(column, left, 0) for column in schema.tables(1))


def _texts(table: FlatTable, field: int) -> dict[str, str]:
    """Return the metadata in a field of a schema or column."""
    return {pair.text(0): pair.text(1) for pair in table.tables(field)}


def _column(table: FlatTable, left: list[int], depth: int) -> Column:
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise ValueError(
            f"more than {_MOST_COLUMNS} columns, or more than {_DEEPEST} levels of them"
        )
    kind, type_table, encoded = table.number(2, "<B"), table.table(3), table.table(4)
    width, unit = _size_and_unit(kind, type_table)
    column = Column(
        table.text(0),
        kind,
        width,
        kind == Type.INT and type_table is not None and bool(type_table.number(1, "<B")),
        tuple(_column(child, left, depth + 1) for child in table.tables(5)),
        dense=kind == Type.UNION and type_table is not None and type_table.number(0, "<h") == 1,
        unit=unit,
        metadata=_texts(table, 6),
    )
    if encoded is None:
        return column
    bits, is_signed, numbers = 32, True, encoded.table(1)
    if numbers is not None:
        bits, is_signed = numbers.number(0, "<i"), bool(numbers.number(1, "<B"))
    number = encoded.number(0, "<q")
    return Column(column.name, Type.INT, bits, is_signed, dictionary=number, entries=column)


def _size_and_unit(kind: int, table: FlatTable | None) -> tuple[int, str]:
    """Return the width of a type, and NumPy's unit of its times: see `Column`."""
    if table is None:
        return 0, ""
    match kind:
        case Type.DATE:
            return ((32, "D"), (64, "ms"))[table.number(0, "<h", 1) & 1]
        case Type.TIME:
            return table.number(1, "<i", 32), _UNITS[table.number(0, "<h", 1) & 3]
        case Type.TIMESTAMP:
            return 64, _UNITS[table.number(0, "<h") & 3]
        case Type.DURATION:
            return 64, _UNITS[table.number(0, "<h", 1) & 3]
        case Type.INTERVAL if table.number(0, "<h") == 0:  # others have several numbers
            return 32, "M"
        case Type.FLOAT:
            return table.number(0, "<h"), ""
        case Type.INT | Type.FIXED_BINARY | Type.FIXED_LIST:
            return table.number(0, "<i"), ""
    return 0, ""


def batches_of(file: File, schema: Schema) -> Iterator[Batch]:
    """Yield the dictionaries and record batches of a file in order. Raise FormatError if it is damaged."""
    for message in _messages(file, schema):
        if message.kind in (_DICTIONARY, _RECORDS):
            try:
                yield _batch(file, message)
            except ValueError as error:
                raise _damaged(file, message.start, error) from error


def _messages(file: File, schema: Schema) -> Iterator[_Message]:
    if schema.batches is None:
        at = schema.end
        while (message := _message_at(file, at)) is not None:
            yield message
            at = message.end
        return
    for start, end in schema.batches:
        message = _message_at(file, start)
        if message is None or message.end > end:
            raise _damaged(
                file, start, f"a batch is larger than the {end - start} bytes of it in the footer"
            )
        yield message


def _batch(file: File, message: _Message) -> Batch:
    table, dictionary, delta = message.header, None, False
    if message.kind == _DICTIONARY:
        dictionary, delta = table.number(0, "<q"), bool(table.number(2, "<B"))
        inner = table.table(1)
        if inner is None:
            raise ValueError("a dictionary without values")
        table = inner
    packed = table.table(3)
    codec = None
    if packed is not None:
        codec = {0: "lz4", 1: "zstd"}.get(packed.number(0, "<b"))
        if codec is None:
            raise ValueError(f"unknown compression {packed.number(0, '<b')}")
    rows = table.number(0, "<q")
    nodes = table.structs(1, "<qq")
    size = message.end - message.body
    buffers = []
    for offset, length in table.structs(2, "<qq"):
        if not (0 <= offset <= size and 0 <= length <= size - offset):
            raise ValueError(
                f"a buffer of {length} bytes at {offset} is outside the {size} bytes of its batch"
            )
        buffers.append((message.body + offset, length))
    most = _MOST_ROWS if codec else max(8 * file.size, _FEW_ROWS)
    if not 0 <= rows <= most or any(
        not 0 <= length <= most or not 0 <= nulls <= length for length, nulls in nodes
    ):
        raise ValueError("a number of rows or nulls is impossible")
    views = tuple(number for (number,) in table.structs(4, "<q"))
    return Batch(rows, tuple(nodes), tuple(buffers), codec, dictionary, delta, views, message.start)


def _message_at(file: File, start: int) -> _Message | None:
    """Return the message at a position; None at the end of the stream.

    Raises:
        FormatError: It is damaged or truncated.
    """
    if start >= file.size:
        return None
    head = file.read(start, min(8, file.size - start))
    before = 8 if head[:4] == _CONTINUED else 4  # streams from before 2020 have no mark
    if len(head) < before:
        raise _damaged(file, start, "a message is truncated")
    length = int.from_bytes(head[before - 4 : before], "little", signed=True)
    if length == 0:
        return None
    if head[:4] == _FEATHER_1:
        raise FormatError(
            "a file of version 1 of Feather, which is not Arrow IPC", file.path, hint=_REWRITE
        )
    if not 0 < length <= min(_LARGEST, file.size - start - before):
        raise _damaged(file, start, f"the metadata of a message takes {length} bytes")
    try:
        root = root_of(memoryview(file.read(start + before, length)))
        kind, header, size = root.number(1, "<B"), root.table(2), root.number(3, "<q")
    except ValueError as error:
        raise _damaged(file, start, error) from error
    body = start + before + length
    if header is None or not 0 <= size <= file.size - body:
        raise _damaged(
            file,
            start,
            f"a message has a body of {size} bytes, but only {file.size - body} are there",
        )
    return _Message(kind, header, start, body, body + size)


def _damaged(file: File, offset: int, what: object) -> FormatError:
    return FormatError(str(what), file.path, offset, _HINT)


class FlatTable(Struct, frozen=True):
    """A table in a buffer."""

    data: memoryview
    at: int

    def _place(self, field: int) -> int:
        """Return where the value of a field is, or 0 for a field that is not stored."""
        vtable = self.at - _number(self.data, self.at, "<i")
        size = _number(self.data, vtable, "<H")
        slot = 4 + 2 * field
        if slot + 2 > size:
            return 0
        offset = _number(self.data, vtable + slot, "<H")
        if offset:
            return self.at + offset
        return 0

    def number(self, field: int, layout: str, default: int = 0) -> int:
        """Return a number; `layout` is its format in `struct`."""
        place = self._place(field)
        if place:
            return _number(self.data, place, layout)
        return default

    def table(self, field: int) -> FlatTable | None:
        """Return a table, or None if it is not stored."""
        place = self._place(field)
        if place:
            return FlatTable(self.data, place + _number(self.data, place, "<I"))
        return None

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        place = self._place(field)
        if not place:
            return 0, 0
        start = place + _number(self.data, place, "<I")
        count = _number(self.data, start, "<I")
        if start + 4 + count * width > len(self.data):
            raise ValueError(
                f"a vector of {count} elements does not fit into {len(self.data)} bytes"
            )
        return start + 4, count

    def tables(self, field: int) -> list[FlatTable]:
        """Return a vector of tables."""
        start, count = self._vector(field, 4)
        places = range(start, start + 4 * count, 4)
        return [FlatTable(self.data, place + _number(self.data, place, "<I")) for place in places]

    def structs(self, field: int, layout: str) -> list[tuple[int, ...]]:
        """Return a vector of structs; `layout` is the format of one for `struct`."""
        width = struct.calcsize(layout)
        start, count = self._vector(field, width)
        return list(struct.iter_unpack(layout, self.data[start : start + count * width]))

    def text(self, field: int) -> str:
        """Return a string, which is empty if it is not stored. Raise UnicodeDecodeError if it is not UTF-8."""
        start, count = self._vector(field, 1)
        return str(self.data[start : start + count], "utf-8")


def root_of(data: memoryview) -> FlatTable:
    """Return the root table of a buffer."""
    return FlatTable(data, _number(data, 0, "<I"))


def _number(data: memoryview, at: int, layout: str) -> int:
    if at < 0 or at + struct.calcsize(layout) > len(data):
        raise ValueError(f"position {at} is outside {len(data)} bytes of metadata")
    number: int = struct.unpack_from(layout, data, at)[0]
    return number
