"""The footer of a Parquet file: its schema, its row groups, and where the chunk of each leaf lies.

https://github.com/apache/parquet-format (README.md, parquet.thrift). A footer is checked as it is read; nothing above
it reads a number of the wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bushel.errors import FormatError
from bushel.filters.thrift import Struct, ThriftError, read_struct
from bushel.storage import File

_HINT = "the file is damaged or incomplete: write or download it again"
_DECRYPT = "write the file again without encryption"
TAIL = 64 << 10
"""Bytes of the end of a file that are read at once: most footers are smaller."""
_MAX_FOOTER = 1 << 30
_MOST_COLUMNS = 100_000  # elements of a schema; opening a file takes some 40 µs for each
REQUIRED, OPTIONAL, REPEATED = range(3)
_CODECS = ("stored", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4-block")


class _RefusedError(ValueError):
    """The file is intact, and has something that Bushel does not read. The second argument is the hint."""


@dataclass(frozen=True, slots=True)
class Node:
    """An element of the schema."""

    name: str
    path: tuple[str, ...]  # the names from the first level of the schema to this one
    repetition: int  # 0 for required, 1 for optional, 2 for repeated
    # physical type, 0 to 7, of a leaf: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY.
    # None for a group
    physical: int | None
    width: int  # bytes of a value of FIXED_LEN_BYTE_ARRAY, else 0
    converted: int | None  # converted type, or None
    logical: int | None  # the number of the logical type in its union, or None
    children: tuple[Node, ...]  # the elements of a group
    leaf: int  # number of the leaf among all leaves; -1 for a group
    definition: int  # definition level of a value that is there
    repeats: int  # number of repeated elements from the root to this one

    def leaves(self) -> Iterator[Node]:
        """Yield the leaves below this element, or the element itself if it is one."""
        if self.physical is not None:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, slots=True)
class Part:
    """The pages of a chunk that have some rows of its row group."""

    # bytes of the dictionary at the beginning of the chunk that these pages need; 0 without a dictionary
    dictionary: int
    start: int  # first byte of the data pages
    stop: int  # their end
    first: int  # number of their first row in the row group
    rows: int  # number of their rows


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pages of one leaf in one row group."""

    offset: int  # offset of the first page, which may be a dictionary
    length: int  # bytes of all pages
    values: int  # number of values, nulls included
    codec: str  # name of the filter of its pages: `stored`, `snappy`, `gzip`, `brotli`, `zstd`, `lz4`, `lz4-block`
    encodings: tuple[int, ...] = ()  # numbers of the encodings of its values and levels, as far as they are listed
    index: tuple[int, int] | None = None  # offset and bytes of its offset index; None if it has none
    part: Part | None = None  # the pages that are read; None for all

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First byte and end of the range that is read of it."""
        if self.part is None:
            return ((self.offset, self.offset + self.length),)
        data = (self.part.start, self.part.stop)
        return ((self.offset, self.offset + self.part.dictionary), data) if self.part.dictionary else (data,)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Some rows: the chunks of all leaves."""

    rows: int
    chunks: tuple[Chunk, ...]  # one for each leaf
    first: int = 0  # number of the first row in the row group of the file, if these are a run of it

    @property
    def start(self) -> int:
        """First byte of its chunks."""
        return min((chunk.offset for chunk in self.chunks), default=0)

    @property
    def stop(self) -> int:
        """End of its chunks."""
        return max((chunk.offset + chunk.length for chunk in self.chunks), default=0)


@dataclass(frozen=True, slots=True)
class Footer:
    """The contents of a footer."""

    rows: int
    fields: tuple[Node, ...]
    groups: tuple[RowGroup, ...]
    metadata: Mapping[str, bytes]

    def only(self, first: int, last: int) -> Footer:
        """Return the footer of a file that has only some of the row groups, and no metadata."""
        groups = self.groups[first:last]
        return Footer(sum(group.rows for group in groups), self.fields, groups, {})


def read_footer(file: File, tail: bytes | None = None) -> Footer:
    """Read and check the footer of a file: one read, or two if it is longer than 64 KiB.

    `tail` is its last 64 KiB, or all of a shorter file, if they have been read.

    Raises:
        FormatError: The file is not a Parquet file, is damaged, or is encrypted.
    """
    size = file.size
    if size < 12:
        raise FormatError(f"not a Parquet file: it has {size} bytes", file=file.path, hint=_HINT)
    if tail is None:
        tail = file.read(max(0, size - TAIL), min(size, TAIL))
    if tail[-4:] == b"PARE":
        message = "the footer is encrypted, which Bushel does not read"
        raise FormatError(message, file=file.path, offset=size - 4, hint=_DECRYPT)
    if tail[-4:] != b"PAR1":
        found = f"it ends in {bytes(tail[-4:])!r}, not in b'PAR1'"
        raise FormatError(f"not a Parquet file: {found}", file=file.path, offset=size - 4, hint=_HINT)
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(size - 12, _MAX_FOOTER):
        message = f"the footer is said to have {length} bytes, where the file has {size}"
        raise FormatError(message, file=file.path, offset=size - 8, hint=_HINT)
    start = size - 8 - length
    data = tail[-8 - length : -8] if length + 8 <= len(tail) else file.read(start, length)
    try:
        parsed, _ = read_struct(data)
        return _footer(parsed, size)
    except _RefusedError as error:
        message, hint = error.args
        raise FormatError(message, file=file.path, offset=start, hint=hint) from error
    except ThriftError as error:
        at = start + error.offset
        raise FormatError(f"damaged footer: {error}", file=file.path, offset=at, hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"damaged footer: {error}", file=file.path, offset=start, hint=_HINT) from error


def _footer(parsed: Struct, size: int) -> Footer:
    if 8 in parsed:
        raise _RefusedError("its columns are encrypted, which Bushel does not read", _DECRYPT)
    elements = _structs(parsed, 2)
    if len(elements) > _MOST_COLUMNS:
        raise ValueError(f"the schema has {len(elements):,} elements, and Bushel reads {_MOST_COLUMNS:,} at most")
    root, end, _ = _node(elements, 0, (), 0, 0, 0)
    names = [child.name for child in root.children]
    if len(set(names)) < len(names):
        name = max(names, key=names.count)
        raise _RefusedError(f"several columns have the name {name!r}", "write the file again with different names")
    if end != len(elements):
        raise ValueError(f"the schema has {len(elements)} elements, but {end} belong to its root")
    leaves = sum(1 for _ in root.leaves())
    groups = tuple(_group(each, leaves, size) for each in _structs(parsed, 4))
    rows = _count(parsed, 3)
    if rows != sum(group.rows for group in groups):
        raise ValueError(f"{rows} rows are announced, and the row groups have {sum(group.rows for group in groups)}")
    metadata = {}
    for each in parsed.get(5, []):
        if isinstance(each, dict) and isinstance(each.get(1), bytes) and isinstance(each.get(2), bytes):
            metadata[each[1].decode("utf-8", "replace")] = each[2]
    return Footer(rows, root.children, groups, metadata)


def _node(
    elements: list[Struct], at: int, above: tuple[str, ...], leaf: int, definition: int, repeats: int
) -> tuple[Node, int, int]:
    """Return the element at a place of the schema, the place after it, and the number of the next leaf."""
    if at >= len(elements) or len(above) > 64:
        raise ValueError("the schema ends inside a group, or is nested too deep")
    element = elements[at]
    if not isinstance(raw := element.get(4), bytes):
        raise ValueError("an element of the schema has no name")  # noqa: TRY004 - of a file
    name = raw.decode("utf-8", "surrogateescape")
    repetition = element.get(3, REQUIRED) if at else REQUIRED
    if repetition not in (REQUIRED, OPTIONAL, REPEATED):
        raise ValueError(f"element {name!r} of the schema has repetition {repetition!r}")
    path = (*above, name) if at else ()
    definition, repeats = definition + (repetition != REQUIRED), repeats + (repetition == REPEATED)
    count = _count(element, 5) if 5 in element else 0
    converted = element.get(6) if isinstance(element.get(6), int) else None
    union = element.get(10)
    logical = min(union) if isinstance(union, dict) and union else None
    children: list[Node] = []
    here, at = at, at + 1
    if not count and here:
        physical, width = _count(element, 1), _count(element, 2) if 2 in element else 0
        if physical > 7 or (physical == 7 and not width):
            raise ValueError(f"element {name!r} of the schema has physical type {physical} of {width} bytes")
        node = Node(name, path, repetition, physical, width, converted, logical, (), leaf, definition, repeats)
        return node, at, leaf + 1
    for _ in range(count):
        child, at, leaf = _node(elements, at, path, leaf, definition, repeats)
        children.append(child)
    node = Node(name, path, repetition, None, 0, converted, logical, tuple(children), -1, definition, repeats)
    return node, at, leaf


def _group(group: Struct, leaves: int, size: int) -> RowGroup:
    chunks = [_chunk(each, size) for each in _structs(group, 1)]
    if len(chunks) != leaves:
        raise ValueError(f"a row group has {len(chunks)} chunks for {leaves} leaves of the schema")
    return RowGroup(_count(group, 3), tuple(chunks))


def _chunk(chunk: Struct, size: int) -> Chunk:
    if chunk.get(1):
        message = "a column chunk lies in another file, which Bushel does not read"
        raise _RefusedError(message, "open the files that have the data")
    [meta] = _structs({3: [chunk.get(3)]}, 3)
    codec, length = _count(meta, 4), _count(meta, 7)
    # a chunk without values, as pyarrow writes it, has only a dictionary, and 0 as the offset of its data
    offset = min(filter(None, (_count(meta, 9), _count(meta, 11) if meta.get(11) else 0)), default=0)
    if codec >= len(_CODECS) or _CODECS[codec] == "lzo":
        name = _CODECS[codec] if codec < len(_CODECS) else codec
        message = f"a column chunk has compression {name}, which Bushel does not read"
        raise _RefusedError(message, "write the file again with zstd, or without compression")
    if length > size or offset > size - length:
        raise ValueError(f"a chunk of {length} bytes at offset {offset} is not inside the {size} bytes of the file")
    listed = meta.get(2)
    encodings = tuple(each for each in listed if type(each) is int) if isinstance(listed, list) else ()
    index = (chunk.get(4), chunk.get(5))
    own = (index[0], index[1]) if type(index[0]) is int and type(index[1]) is int else None
    return Chunk(offset, length, _count(meta, 5), _CODECS[codec], encodings, own)


def _structs(parsed: Struct, number: int) -> list[Struct]:
    found = parsed.get(number)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"field {number} is not a list of structs")
    return found


def _count(parsed: Struct, number: int) -> int:
    value = parsed.get(number)
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"field {number} is {value!r}, not a count")
    return value
