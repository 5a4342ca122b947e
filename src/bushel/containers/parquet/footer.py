"""The footer of a Parquet file: its schema, its row groups, and where the chunk of each leaf is.

https://github.com/apache/parquet-format (README.md, parquet.thrift). A footer is checked as it is
read; nothing above it reads a number of the wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from bushel.containers.features import can_be_field
from bushel.errors import FormatError
from bushel.filters.parquet_pages import ThriftError, ThriftStruct, read_struct
from bushel.spec import Field
from bushel.storage import File

REQUIRED, OPTIONAL, REPEATED = range(3)
BOOLEAN, BYTE_ARRAY, FIXED = 0, 6, 7
"""The physical types BOOLEAN, BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY."""
BYTE_ARRAYS = (BYTE_ARRAY, FIXED)
UNSIGNED = (11, 12, 13, 14)
"""Converted types UINT_8 to UINT_64."""
# of the physical types INT32, INT64, FLOAT and DOUBLE
_DTYPES: Mapping[int | None, str] = {1: "<i4", 2: "<i8", 4: "<f4", 5: "<f8"}
_WHOLE = (1, 2)  # the physical types INT32 and INT64
_LIST_TYPE = 3  # the converted type and the logical one
_FLOAT16 = 15  # a logical type
_JSON, _JSON_TYPE = 19, 12  # the converted type and the logical one
_DATE, _TIME, _TIMESTAMP = 6, 7, 8
"""The logical types of dates and times; DATE is the converted type, too."""
_CONVERTED_TIMES: Mapping[int | None, str] = {
    6: "datetime64(D)",
    7: "timedelta64(ms)",
    8: "timedelta64(us)",
    9: "datetime64(ms)",
    10: "datetime64(us)",
}
_TIME_UNITS = {1: "ms", 2: "us", 3: "ns"}


class Node(Struct, frozen=True):
    """An element of the schema."""

    name: str
    path: tuple[str, ...]  # the names from the first level of the schema to this one
    repetition: int  # 0 for required, 1 for optional, 2 for repeated
    # physical type, 0 to 7, of a leaf: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY,
    # FIXED_LEN_BYTE_ARRAY. None for a group
    physical: int | None
    width: int  # bytes of a value of FIXED_LEN_BYTE_ARRAY, else 0
    converted: int | None  # converted type, or None
    logical: int | None  # the number of the logical type in its union, or None
    children: tuple[Node, ...]  # the elements of a group
    leaf: int  # number of the leaf among all leaves; -1 for a group
    definition: int  # definition level of a value that is there
    repeats: int  # number of repeated elements from the root to this one
    # codec of its values if they are dates or times, such as `datetime64(us)`
    time: str | None = None

    def leaves(self) -> Iterator[Node]:
        """Yield the leaves below this element, or the element itself if it is one."""
        if self.physical is not None:
            yield self
        for child in self.children:
            yield from child.leaves()


def _node(elements: Iterator[ThriftStruct], leaves: Iterator[int], parent: Node | None) -> Node:
    """Return the next element of a schema, with its children. Leaves get the next numbers."""
    path, definition, repeats = tuple[str, ...](), 0, 0
    if parent is not None:
        path, definition, repeats = parent.path, parent.definition, parent.repeats
    if (element := next(elements, None)) is None or len(path) > 64:
        raise ValueError("the schema ends inside a group, or is nested too deep")
    if not isinstance(raw := element.get(4), bytes):
        raise ValueError("an element of the schema has no name")  # noqa: TRY004 - of a file
    name = raw.decode("utf-8", "surrogateescape")
    repetition = element.get(3, REQUIRED) if parent else REQUIRED
    if repetition not in (REQUIRED, OPTIONAL, REPEATED):
        raise ValueError(f"element {name!r} of the schema has repetition {repetition!r}")
    converted, union = element.get(6), element.get(10)
    group = Node(
        name,
        path=(*path, name) if parent else (),
        repetition=repetition,
        physical=None,
        width=0,
        converted=converted if isinstance(converted, int) else None,
        logical=min(union) if isinstance(union, dict) and union else None,
        children=(),
        leaf=-1,
        definition=definition + (repetition != REQUIRED),
        repeats=repeats + (repetition == REPEATED),
    )
    children = count_in(element, 5, 0)
    if parent and not children:
        return _leaf(group, element, next(leaves))
    return replace(group, children=tuple(_node(elements, leaves, group) for _ in range(children)))


def _leaf(node: Node, element: ThriftStruct, number: int) -> Node:
    """Return an element without children as the leaf of this number."""
    physical, width = count_in(element, 1), count_in(element, 2, 0)
    if physical > 7 or (physical == FIXED and not width):
        raise ValueError(
            f"element {node.name!r} of the schema has physical type {physical} of {width} bytes"
        )
    union, converted, time = element.get(10), node.converted, None
    if physical in _WHOLE:
        time = _time_codec(converted, union)
    match union:
        case {10: {2: False}} if converted is None:  # the logical type INTEGER, which is unsigned
            converted = UNSIGNED[0]
    return replace(
        node, physical=physical, width=width, converted=converted, leaf=number, time=time
    )


def _time_codec(converted: int | None, union: object) -> str | None:
    """Return the codec of dates and times, by the converted type and the union of the logical one; None for others."""
    logical = union if isinstance(union, dict) else {}
    if _DATE in logical:
        return "datetime64(D)"
    for kind, base in ((_TIME, "timedelta64"), (_TIMESTAMP, "datetime64")):
        described = logical.get(kind)
        unit = described.get(2) if isinstance(described, dict) else None
        if isinstance(unit, dict) and unit:
            return f"{base}({_TIME_UNITS.get(min(unit), 'us')})"
    return _CONVERTED_TIMES.get(converted)


def holds_json(leaf: Node) -> bool:
    """Return whether the texts of a leaf are JSON."""
    return leaf.converted == _JSON or leaf.logical == _JSON_TYPE


def count_in(parsed: ThriftStruct, number: int, default: int | None = None) -> int:
    """Return a field of a struct that is a count, or the default where the field is missing.

    Raises:
        ValueError: It is missing without a default, or too large.
    """
    value = parsed.get(number, default)
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"field {number} is {value!r}, not a count")
    return value


def dtype_of(leaf: Node) -> str | None:
    """Return NumPy's name of the type of the stored numbers of a leaf; None if they are not numbers."""
    if leaf.physical == FIXED and leaf.logical == _FLOAT16 and leaf.width == 2:
        return "<f2"
    return _DTYPES.get(leaf.physical)


def element_of(node: Node) -> tuple[Node | None, Node | None]:
    """Return the leaf with the values of a field, and the list that it is the element of, if any.

    The leaf of a struct of bytes and path is the leaf of the bytes. None stands for other nested
    values.
    """
    if (leaf := _value_of(node)) is not None:
        return leaf, None
    is_list = node.converted == _LIST_TYPE or node.logical == _LIST_TYPE
    if is_list and len(node.children) == 1 and node.children[0].repeats == 1 and node.repeats == 0:
        repeated = node.children[0]
        element = repeated.children[0] if len(repeated.children) == 1 else repeated
        return _value_of(element, repeats=1), node
    return None, None


def _value_of(node: Node, repeats: int = 0) -> Node | None:
    if node.repeats != repeats:
        return None
    if node.physical is not None:
        return node
    names = {child.name: child for child in node.children}
    if (
        names.keys() == {"bytes", "path"}
        and names["bytes"].physical == 6
        and names["bytes"].repeats == repeats
    ):
        return names["bytes"]
    return None


Form: TypeAlias = Literal["bytes", "lists", "numbers", "decoded"]
"""Byte arrays, or lists of them; lists of numbers; numbers; and values that pyarrow decodes."""


class FileColumn(Struct, frozen=True):
    """A column of a file, and the field that it becomes."""

    node: Node
    field: Field
    form: Form
    leaf: Node  # the leaf with the values; of a decoded column, the column itself
    above: Node | None = None  # the list that the leaf is the element of


_HINT = "the file is damaged or incomplete: write or download it again"
_DECRYPT = "write the file again without encryption"
TAIL = 64 << 10
"""Bytes of the end of a file that are read at once: most footers are smaller."""
_MAX_FOOTER = 1 << 30
_MOST_COLUMNS = 100_000  # elements of a schema; opening a file takes some 40 µs for each
_CODECS = dict(
    enumerate(("stored", "snappy", "gzip", "lzo", "brotli", "lz4-hadoop", "zstd", "lz4-block"))
)


class _RefusedError(ValueError):
    """The file is intact, and has something that Bushel does not read. The second argument is the hint."""


class Part(Struct, frozen=True):
    """The pages of a chunk that have some rows of its row group."""

    # bytes of the dictionary at the beginning of the chunk that these pages need; 0 without a
    # dictionary
    dictionary: int
    start: int  # first byte of the data pages
    stop: int  # their end
    first: int  # number of their first row in the row group
    rows: int  # number of their rows


class Chunk(Struct, frozen=True):
    """The pages of one leaf in one row group."""

    offset: int  # offset of the first page, which may be a dictionary
    length: int  # bytes of all pages
    values: int  # number of values, nulls included
    codec: str  # name of the filter of its pages, such as `stored` or `snappy`
    # numbers of the encodings of its values and levels, as far as they are listed
    encodings: tuple[int, ...] = ()
    # offset and bytes of its offset index; None if it has none
    index: tuple[int, int] | None = None
    part: Part | None = None  # the pages that are read; None for all

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First byte and end of the range that is read of it."""
        if self.part is None:
            return ((self.offset, self.offset + self.length),)
        data = (self.part.start, self.part.stop)
        if self.part.dictionary:
            return ((self.offset, self.offset + self.part.dictionary), data)
        return (data,)


class RowGroup(Struct, frozen=True):
    """Some rows: the chunks of all leaves."""

    rows: int
    chunks: tuple[Chunk, ...]  # one for each leaf
    first: int = 0  # number of the first row in the row group of the file, if these are a run of it
    number: int = 0  # of the row group in the file

    @property
    def start(self) -> int:
        """First byte of its chunks."""
        return min((chunk.offset for chunk in self.chunks), default=0)

    @property
    def stop(self) -> int:
        """End of its chunks."""
        return max((chunk.offset + chunk.length for chunk in self.chunks), default=0)


class Footer(Struct, frozen=True):
    """The contents of a footer."""

    fields: tuple[Node, ...]
    groups: tuple[RowGroup, ...]
    metadata: Mapping[str, bytes]


def read_footer(file: File) -> Footer:
    """Read and check the footer of a file: one read, or two if it is longer than 64 KiB.

    Raises:
        FormatError: The file is not a Parquet file, is damaged, or is encrypted.
    """
    size = file.size
    if size < 12:
        raise FormatError(f"not a Parquet file: it has {size} bytes", file.path, hint=_HINT)
    tail = file.read(max(0, size - TAIL), min(size, TAIL))
    if tail[-4:] == b"PARE":
        raise FormatError(
            "the footer is encrypted, which Bushel does not read", file.path, size - 4, _DECRYPT
        )
    if tail[-4:] != b"PAR1":
        ending = f"it ends in {bytes(tail[-4:])!r}, not in b'PAR1'"
        raise FormatError(f"not a Parquet file: {ending}", file.path, size - 4, _HINT)
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(size - 12, _MAX_FOOTER):
        raise FormatError(
            f"the footer is said to have {length} bytes, where the file has {size}",
            file.path,
            size - 8,
            _HINT,
        )
    start = size - 8 - length
    if length + 8 <= len(tail):
        data = tail[-8 - length : -8]
    else:
        data = file.read(start, length)
    try:
        parsed, _ = read_struct(data)
        return _footer(parsed, file)
    except _RefusedError as error:
        message, hint = error.args
        raise FormatError(message, file.path, start, hint) from error
    except (ValueError, RecursionError) as error:
        at = start + error.offset if isinstance(error, ThriftError) else start
        raise FormatError(f"damaged footer: {error}", file.path, at, _HINT) from error


def _footer(parsed: ThriftStruct, file: File) -> Footer:
    if 8 in parsed:
        raise _RefusedError("its columns are encrypted, which Bushel does not read", _DECRYPT)
    elements = structs_in(parsed, 2)
    if len(elements) > _MOST_COLUMNS:
        raise ValueError(
            f"the schema has {len(elements):,} elements, and Bushel reads {_MOST_COLUMNS:,} at most"
        )
    left = iter(elements)
    root = _node(left, count(), None)
    if further := len(list(left)):
        of_root = len(elements) - further
        raise ValueError(
            f"the schema has {len(elements)} elements, but {of_root} belong to its root"
        )
    names = [child.name for child in root.children]
    if len(set(names)) < len(names):
        name = max(names, key=names.count)
        raise _RefusedError(
            f"several columns have the name {name!r}", "write the file again with different names"
        )
    leaves = sum(1 for _ in root.leaves())
    groups = tuple(
        _group(number, group, leaves, file.size)
        for number, group in enumerate(structs_in(parsed, 4))
    )
    rows, rows_of_groups = count_in(parsed, 3), sum(group.rows for group in groups)
    if rows != rows_of_groups:
        raise ValueError(f"{rows} rows are announced, and the row groups have {rows_of_groups}")
    metadata = {}
    for pair in structs_in(parsed, 5) if 5 in parsed else ():
        match pair:
            case {1: bytes(key), 2: bytes(value)}:
                metadata[key.decode("utf-8", "replace")] = value
    fields = tuple(node for node in root.children if can_be_field(node.name, file.path))
    return Footer(fields, groups, metadata)


def _group(number: int, group: ThriftStruct, leaves: int, size: int) -> RowGroup:
    chunks = [_chunk(chunk, size) for chunk in structs_in(group, 1)]
    if len(chunks) != leaves:
        raise ValueError(f"a row group has {len(chunks)} chunks for {leaves} leaves of the schema")
    return RowGroup(count_in(group, 3), tuple(chunks), number=number)


def _chunk(chunk: ThriftStruct, size: int) -> Chunk:
    if chunk.get(1):
        raise _RefusedError(
            "a column chunk is in another file, which Bushel does not read",
            "open the files that have the data",
        )
    [meta] = structs_in({3: [chunk.get(3)]}, 3)
    number, length = count_in(meta, 4), count_in(meta, 7)
    # a chunk without values, as pyarrow writes it, has only a dictionary, and 0 as the offset of
    # its data
    offset = min(filter(None, (count_in(meta, 9), count_in(meta, 11, 0))), default=0)
    codec = _CODECS.get(number)
    if codec is None or codec == "lzo":
        raise _RefusedError(
            f"a column chunk has compression {codec or number}, which Bushel does not read",
            "write the file again with zstd, or without compression",
        )
    if length > size or offset > size - length:
        raise ValueError(
            f"a chunk of {length} bytes at offset {offset} "
            f"is not inside the {size} bytes of the file"
        )
    listed, at, size_of_index = meta.get(2), chunk.get(4), chunk.get(5)
    encodings = listed if isinstance(listed, list) else []
    return Chunk(
        offset,
        length,
        count_in(meta, 5),
        codec,
        tuple(encoding for encoding in encodings if type(encoding) is int),
        (at, size_of_index) if type(at) is int and type(size_of_index) is int else None,
    )


def structs_in(parsed: ThriftStruct, number: int) -> list[ThriftStruct]:
    """Return a field of a struct that is a list of structs. Raise ValueError if it is not."""
    structs = parsed.get(number)
    if not isinstance(structs, list) or not all(isinstance(entry, dict) for entry in structs):
        raise ValueError(f"field {number} is not a list of structs")
    return structs
