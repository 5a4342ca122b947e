"""The footer of a Parquet file: its schema, its row groups, and where the chunk of each leaf is.

https://github.com/apache/parquet-format (README.md, parquet.thrift). A footer is checked as it is
read; nothing above it reads a number of the wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bushel.containers.parquet.schema import Node, count_in, read_schema
from bushel.errors import FormatError
from bushel.filters.thrift import Struct, ThriftError, read_struct
from bushel.storage import File

_HINT = "the file is damaged or incomplete: write or download it again"
_DECRYPT = "write the file again without encryption"
TAIL = 64 << 10
"""Bytes of the end of a file that are read at once: most footers are smaller."""
_MAX_FOOTER = 1 << 30
_MOST_COLUMNS = 100_000  # elements of a schema; opening a file takes some 40 µs for each
_CODECS = ("stored", "snappy", "gzip", "lzo", "brotli", "lz4-hadoop", "zstd", "lz4-block")


class _RefusedError(ValueError):
    """The file is intact, and has something that Bushel does not read. The second argument is the hint."""


@dataclass(frozen=True, slots=True)
class Part:
    """The pages of a chunk that have some rows of its row group."""

    # bytes of the dictionary at the beginning of the chunk that these pages need; 0 without a
    # dictionary
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
        ending = f"it ends in {bytes(tail[-4:])!r}, not in b'PAR1'"
        raise FormatError(
            f"not a Parquet file: {ending}", file=file.path, offset=size - 4, hint=_HINT
        )
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(size - 12, _MAX_FOOTER):
        message = f"the footer is said to have {length} bytes, where the file has {size}"
        raise FormatError(message, file=file.path, offset=size - 8, hint=_HINT)
    start = size - 8 - length
    if length + 8 <= len(tail):
        data = tail[-8 - length : -8]
    else:
        data = file.read(start, length)
    try:
        parsed, _ = read_struct(data)
        return _footer(parsed, size)
    except _RefusedError as error:
        message, hint = error.args
        raise FormatError(message, file=file.path, offset=start, hint=hint) from error
    except ThriftError as error:
        at = start + error.offset
        raise FormatError(
            f"damaged footer: {error}", file=file.path, offset=at, hint=_HINT
        ) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"damaged footer: {error}", file=file.path, offset=start, hint=_HINT
        ) from error


def _footer(parsed: Struct, size: int) -> Footer:
    if 8 in parsed:
        raise _RefusedError("its columns are encrypted, which Bushel does not read", _DECRYPT)
    elements = _structs(parsed, 2)
    if len(elements) > _MOST_COLUMNS:
        raise ValueError(
            f"the schema has {len(elements):,} elements, and Bushel reads {_MOST_COLUMNS:,} at most"
        )
    root = read_schema(elements)
    names = [child.name for child in root.children]
    if len(set(names)) < len(names):
        name = max(names, key=names.count)
        raise _RefusedError(
            f"several columns have the name {name!r}", "write the file again with different names"
        )
    leaves = sum(1 for _ in root.leaves())
    groups = tuple(_group(group, leaves, size) for group in _structs(parsed, 4))
    rows = count_in(parsed, 3)
    if rows != sum(group.rows for group in groups):
        raise ValueError(
            f"{rows} rows are announced, and the row groups have"
            f" {sum(group.rows for group in groups)}"
        )
    metadata = {}
    for pair in parsed.get(5, []):
        if (
            isinstance(pair, dict)
            and isinstance(pair.get(1), bytes)
            and isinstance(pair.get(2), bytes)
        ):
            metadata[pair[1].decode("utf-8", "replace")] = pair[2]
    return Footer(rows, root.children, groups, metadata)


def _group(group: Struct, leaves: int, size: int) -> RowGroup:
    chunks = [_chunk(chunk, size) for chunk in _structs(group, 1)]
    if len(chunks) != leaves:
        raise ValueError(f"a row group has {len(chunks)} chunks for {leaves} leaves of the schema")
    return RowGroup(count_in(group, 3), tuple(chunks))


def _chunk(chunk: Struct, size: int) -> Chunk:
    if chunk.get(1):
        message = "a column chunk is in another file, which Bushel does not read"
        raise _RefusedError(message, "open the files that have the data")
    [meta] = _structs({3: [chunk.get(3)]}, 3)
    codec, length = count_in(meta, 4), count_in(meta, 7)
    # a chunk without values, as pyarrow writes it, has only a dictionary, and 0 as the offset of
    # its data
    offset = min(
        filter(None, (count_in(meta, 9), count_in(meta, 11) if meta.get(11) else 0)), default=0
    )
    if codec >= len(_CODECS) or _CODECS[codec] == "lzo":
        name = _CODECS[codec] if codec < len(_CODECS) else codec
        message = f"a column chunk has compression {name}, which Bushel does not read"
        raise _RefusedError(message, "write the file again with zstd, or without compression")
    if length > size or offset > size - length:
        raise ValueError(
            f"a chunk of {length} bytes at offset {offset} is not inside the {size}"
            " bytes of the file"
        )
    listed = meta.get(2)
    if isinstance(listed, list):
        encodings = tuple(encoding for encoding in listed if type(encoding) is int)
    else:
        encodings = ()
    index = (chunk.get(4), chunk.get(5))
    offset_index = None
    if type(index[0]) is int and type(index[1]) is int:
        offset_index = index[0], index[1]
    return Chunk(offset, length, count_in(meta, 5), _CODECS[codec], encodings, offset_index)


def _structs(parsed: Struct, number: int) -> list[Struct]:
    structs = parsed.get(number)
    if not isinstance(structs, list) or not all(isinstance(entry, dict) for entry in structs):
        raise ValueError(f"field {number} is not a list of structs")
    return structs
