"""The pages of a Parquet column chunk: headers, levels, and where values are; and Thrift, which headers are written in.

https://parquet.apache.org/docs/file-format/data-pages/. A page is a header of Thrift's compact
protocol and a payload: repetition levels, definition levels, values. In pages of version 1 they are
compressed together; in pages of version 2 only the values are compressed. Sizes in a header are
checked before memory is allocated.

Thrift's compact protocol, in which footers are written, too
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md): structs become
dicts by the numbers of their fields, since Parquet's definition gives the numbers their meaning.
Lengths and depths are checked before use, so a forged struct costs no more memory than a few times
its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import U32, Bools
from bushel.kernels import present_values, read_hybrid

from . import by_cramjam, deflate
from .base import MAX_BLOCK, Buffer, Filter

ThriftStruct: TypeAlias = dict[int, Any]
"""The values of a struct by the numbers of their fields: bool, int, float, bytes, list or another struct."""

_DEEPEST = 32
_MOST_NUMBER = 1000  # of a field: Parquet has some 20 in a struct
_ENOUGH_PARTS, _BYTES_PER_PART = 1 << 20, 3
"""Structs and elements of lists that some bytes may have in any case, and the least bytes for each of more. A footer
has 5 to 8 for each; an empty struct takes 1 byte there, and 70 in memory."""
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)


class ThriftError(ValueError):
    """The bytes are not a struct of the compact protocol.

    Attributes:
        offset: Offset in the bytes at which they are not.
    """

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


def read_struct(data: bytes | memoryview) -> tuple[ThriftStruct, int]:
    """Read the struct at the beginning of some bytes.

    Returns:
        The struct, and the offset after it.

    Raises:
        ThriftError: The bytes are damaged or end too early.
    """
    reader = _Reader(data)
    return reader.struct(0), reader.at


class _Reader:
    """Reads values one after another."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self.at = data, 0
        self._left = max(_ENOUGH_PARTS, len(data) // _BYTES_PER_PART)

    def struct(self, depth: int) -> ThriftStruct:
        """Read a struct."""
        if depth > _DEEPEST:
            raise ThriftError(f"structs are nested more than {_DEEPEST} deep", self.at)
        self._count(1)
        members: ThriftStruct = {}
        number = 0
        while (head := self._byte()) & 0x0F != _STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if number > _MOST_NUMBER:
                raise ThriftError(
                    f"a field has number {number}, which Parquet does not use", self.at
                )
            members[number] = self._value(head & 0x0F, depth)
        return members

    def _count(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            message = (
                f"more structs and elements of lists than {len(self._data)} bytes of Parquet have"
            )
            raise ThriftError(message, self.at)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind == _BINARY:
            return bytes(self._take(self._varint()))
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ThriftError(f"a field has type {kind}, which Parquet does not use", self.at)

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self._varint()
        if size > len(self._data) - self.at:  # each element has one byte or more
            raise ThriftError(
                f"a list of {size} elements in {len(self._data) - self.at} bytes", self.at
            )
        self._count(size)
        if kind in (_TRUE, _FALSE):
            return [byte == _TRUE for byte in self._take(size)]
        if depth >= _DEEPEST:
            raise ThriftError(f"lists are nested more than {_DEEPEST} deep", self.at)
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ThriftError("the bytes end inside a struct", self.at)
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _take(self, size: int) -> bytes | memoryview:
        if size > len(self._data) - self.at:
            raise ThriftError(
                f"{size} bytes are announced where {len(self._data) - self.at} are left", self.at
            )
        taken = self._data[self.at : self.at + size]
        self.at += size
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ThriftError("a number has more than 64 bits", self.at)

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


_CODECS: Mapping[str, Filter] = {**by_cramjam.FILTERS, **deflate.FILTERS}
"""The filters that pages can have."""

PLAIN, DICTIONARY = 0, 8
_PLAIN_DICTIONARY, _RLE = 2, 3
_DATA, _INDEX, _DICTIONARY_PAGE, _DATA_V2 = range(4)
_HEADER = 256  # bytes that are read for the header of a page; more if it has longer statistics
_LONGEST_HEADER = 16 << 20
# largest number of values of a page; writers stop at some ten thousand, or a few MiB
_MOST_VALUES = 1 << 24
Read: TypeAlias = Callable[[int, int], "bytes | memoryview"]
"""Returns bytes, given an offset and a length."""


class Leaf(Struct, frozen=True):
    """The properties of the schema that reading the pages of a leaf needs."""

    codec: str  # name of the filter of its pages; `stored` for none
    definition: int  # largest definition level
    repetition: int  # largest repetition level


class Page(Struct, frozen=True):
    """A page, without its payload."""

    offset: int  # offset of the payload
    length: int  # bytes of the payload as it is stored
    size: int  # bytes of the payload when it is expanded
    dictionary: bool  # whether its values are the dictionary of the following pages
    values: int  # number of levels: of values, nulls and empty lists
    encoding: int  # encoding of the values: `PLAIN`, `DICTIONARY` or another
    # in version 2, the bytes of repetition and of definition levels, which are not compressed; else
    # None
    before: tuple[int, int] | None
    compressed: bool  # whether the values are compressed, if the chunk is

    @property
    def levels(self) -> int:
        """Bytes of levels before the values, which are not compressed."""
        return sum(self.before or ())

    @property
    def next(self) -> int:
        """Offset of the header of the next page."""
        return self.offset + self.length


class Payload(Struct, frozen=True):
    """The contents of a page. Its values are read or expanded when they are asked for."""

    repetition: Buffer | None  # encoded repetition levels; None if the leaf does not repeat
    definition: Buffer | None  # encoded definition levels; None if no value can be missing
    # offset of the values in the expanded payload; in version 2, in the bytes after the levels
    start: int
    values: Callable[[], memoryview]  # returns the encoded values


def pages_of(read: Read, offset: int, length: int) -> Iterator[Page]:
    """Yield the pages of a chunk.

    Args:
        read: Reads bytes of the file.
        offset: Offset of the first page.
        length: Bytes of all pages.

    Raises:
        ThriftError: A header is damaged.
        ValueError: A page has values that cannot be.
    """
    end = offset + length
    while offset < end:
        header, after = _header(read, offset, end)
        page = _page(header, after)
        if page.next > end:
            raise ValueError(
                f"a page of {page.length} bytes at offset "
                f"{page.offset} goes beyond its column chunk"
            )
        if header.get(1) != _INDEX:
            yield page
        offset = page.next


def _header(read: Read, offset: int, end: int) -> tuple[ThriftStruct, int]:
    size = _HEADER
    while True:
        data = read(offset, min(size, end - offset))
        try:
            header, used = read_struct(data)
        except ThriftError as error:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise ThriftError(f"header of a page: {error}", offset + error.offset) from error
            size *= 16
            continue
        return header, offset + used


def _page(header: ThriftStruct, offset: int) -> Page:
    kind, size, length = (_number(header, number) for number in (1, 2, 3))
    if kind == _INDEX:
        return Page(offset, length, size, False, 0, PLAIN, None, False)
    kind_header = header.get({_DATA: 5, _DICTIONARY_PAGE: 7, _DATA_V2: 8}.get(kind, 6))
    if not isinstance(kind_header, dict):
        raise ValueError(  # noqa: TRY004 - of a file
            f"the page before offset {offset} is of kind {kind} and has no header of that kind"
        )
    values, encoding = _number(kind_header, 1), _number(kind_header, 4 if kind == _DATA_V2 else 2)
    if values > _MOST_VALUES or size > MAX_BLOCK:
        raise ValueError(
            f"the page at offset {offset} is said to have {values} values and {size} bytes"
        )
    if encoding == _PLAIN_DICTIONARY and kind != _DICTIONARY_PAGE:
        encoding = DICTIONARY
    before = None
    if kind == _DATA_V2:
        before = (_number(kind_header, 6), _number(kind_header, 5))
        if sum(before) > min(length, size):
            raise ValueError(f"the levels of the page at offset {offset} are longer than the page")
    if kind == _DICTIONARY_PAGE:
        encoding = PLAIN
    return Page(
        offset,
        length,
        size,
        kind == _DICTIONARY_PAGE,
        values,
        encoding,
        before,
        kind_header.get(7) is not False,
    )


def _number(parsed: ThriftStruct, number: int) -> int:
    value = parsed.get(number)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise ValueError(f"field {number} of the header of a page is {value!r}, not a count")
    return value


def payload_of(page: Page, read: Read, leaf: Leaf) -> Payload:
    """Read the levels of a page, and its values as far as these are compressed with them.

    Args:
        page: The page.
        read: Reads bytes of the file, or of other bytes in which the offset of the page is meant.
        leaf: The leaf.

    Raises:
        FilterError: The payload cannot be expanded.
        ValueError: Its levels are longer than the page.
    """
    if page.before is not None:
        codec, first = codec_of(page, leaf.codec), page.before[0]
        levels = read(page.offset, page.levels) if page.levels else b""

        def values() -> memoryview:
            data = memoryview(read(page.offset + page.levels, page.length - page.levels))
            return expanded(data, codec, page.size - page.levels) if data else data

        definition = levels[first:] if leaf.definition else None
        return Payload(levels[:first] if leaf.repetition else None, definition, 0, values)
    if leaf.codec == "stored":
        size = page.length

        def take(at: int, length: int) -> Buffer:
            return read(page.offset + at, length)
    else:
        whole = expanded(memoryview(read(page.offset, page.length)), leaf.codec, page.size)
        size = len(whole)

        def take(at: int, length: int) -> Buffer:
            return whole[at : at + length]

    levels_found: list[Buffer | None] = [None, None]
    at = 0
    for which, largest in enumerate((leaf.repetition, leaf.definition)):
        if largest and not page.dictionary:
            length = int.from_bytes(bytes(take(at, min(4, size - at))), "little")
            if length > size - at - 4:
                raise ValueError(f"{length} bytes of levels are announced in a page of {size}")
            levels_found[which] = take(at + 4, length)
            at += 4 + length
    return Payload(levels_found[0], levels_found[1], at, lambda: memoryview(take(at, size - at)))


def codec_of(page: Page, codec: str) -> str:
    """Return the name of the filter of the values of a page, given that of its chunk."""
    return codec if page.compressed or page.before is None else "stored"


def present(page: Page, payload: Payload, leaf: Leaf) -> tuple[int, Bools | None]:
    """Return the number of values of a page that are there, and bool[values], which these are; None for all.

    Raises:
        ValueError: The levels are damaged.
    """
    if payload.definition is None:
        return page.values, None
    return present_values(payload.definition, leaf.definition, page.values)


def expanded(data: memoryview, codec: str, size: int) -> memoryview:
    """Return bytes, expanded by a filter of pages to `size`; as they are if they are not compressed.

    Raises:
        FilterError: They cannot be expanded.
    """
    if codec == "stored":
        return data
    return _CODECS[codec].expanded(data, size).data


def indices(values: memoryview, count: int, entries: int) -> U32:
    """Return uint32[count], the numbers of entries of a dictionary.

    Raises:
        ValueError: They are damaged, or beyond the dictionary.
    """
    if not count:
        return np.zeros(0, np.uint32)
    if not len(values) or values[0] > 32:
        raise ValueError("a page of indices of a dictionary has no width, or one beyond 32 bits")
    numbers = read_hybrid(values[1:], values[0], count)
    if int(numbers.max()) >= entries:
        raise ValueError(
            f"a page refers to entry {int(numbers.max())} of a dictionary of {entries}"
        )
    return numbers
