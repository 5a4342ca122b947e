"""The pages of a Parquet column chunk: headers, levels, and where values lie.

https://parquet.apache.org/docs/file-format/data-pages/. A page is a header of Thrift's compact protocol and a payload:
repetition levels, definition levels, values. In pages of version 1 they are compressed together; in pages of version 2
only the values are compressed. Sizes in a header are checked before memory is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bushel.filters import brotli, deflate, lz4, snappy, zstd
from bushel.filters.base import MAX_BLOCK, Filter
from bushel.filters.parquet_encodings import varint
from bushel.filters.thrift import Struct, ThriftError, read_struct
from bushel.kernels import scan_byte_arrays

_CODECS: Mapping[str, Filter] = {
    **brotli.FILTERS,
    **deflate.FILTERS,
    **lz4.FILTERS,
    **snappy.FILTERS,
    **zstd.FILTERS,
}
"""The filters that pages can have."""

PLAIN, DICTIONARY = 0, 8
_PLAIN_DICTIONARY, _RLE = 2, 3
_DATA, _INDEX, _DICTIONARY_PAGE, _DATA_V2 = range(4)
_HEADER = 256  # bytes that are read for the header of a page; more if it has longer statistics
_LONGEST_HEADER = 16 << 20
_MOST_VALUES = 1 << 24  # largest number of values of a page; writers stop at some ten thousand, or a few MiB
Read: TypeAlias = Callable[[int, int], "bytes | memoryview"]
"""Returns bytes, given an offset and a length."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The properties of the schema that reading the pages of a leaf needs."""

    codec: str  # name of the filter of its pages; `stored` for none
    definition: int  # largest definition level
    repetition: int  # largest repetition level


@dataclass(frozen=True, slots=True)
class Page:
    """A page, without its payload."""

    offset: int  # offset of the payload
    length: int  # bytes of the payload as it is stored
    size: int  # bytes of the payload when it is expanded
    dictionary: bool  # whether its values are the dictionary of the following pages
    values: int  # number of levels: of values, nulls and empty lists
    encoding: int  # encoding of the values: `PLAIN`, `DICTIONARY` or another
    # in version 2, the bytes of repetition and of definition levels, which are not compressed; else None
    before: tuple[int, int] | None
    compressed: bool  # whether the values are compressed, if the chunk is

    @property
    def next(self) -> int:
        """Offset of the header of the next page."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Payload:
    """The contents of a page."""

    repetition: npt.NDArray[np.uint8] | None  # uint8[n], repetition levels; None if the leaf does not repeat
    definition: npt.NDArray[np.uint8] | None  # uint8[n], definition levels; None if no value can be missing
    values: memoryview  # the encoded values
    start: int  # offset of `values` in the expanded payload; in version 2, in the bytes that are compressed


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
            raise ValueError(f"a page of {page.length} bytes at offset {page.offset} goes beyond its column chunk")
        if header.get(1) != _INDEX:
            yield page
        offset = page.next


def _header(read: Read, offset: int, end: int) -> tuple[Struct, int]:
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


def _page(header: Struct, offset: int) -> Page:
    kind, size, length = (_number(header, number) for number in (1, 2, 3))
    own = header.get({_DATA: 5, _DICTIONARY_PAGE: 7, _DATA_V2: 8}.get(kind, 6))
    if not isinstance(own, dict) and kind != _INDEX:
        raise ValueError(f"the page before offset {offset} is of kind {kind} and has no header of that kind")
    if kind == _INDEX or not isinstance(own, dict):
        return Page(offset, length, size, False, 0, PLAIN, None, False)
    values, encoding = _number(own, 1), _number(own, 4 if kind == _DATA_V2 else 2)
    if values > _MOST_VALUES or size > MAX_BLOCK:
        raise ValueError(f"the page at offset {offset} is said to have {values} values and {size} bytes")
    encoding = DICTIONARY if encoding == _PLAIN_DICTIONARY and kind != _DICTIONARY_PAGE else encoding
    before = None
    if kind == _DATA_V2:
        before = (_number(own, 6), _number(own, 5))
        if sum(before) > min(length, size):
            raise ValueError(f"the levels of the page at offset {offset} are longer than the page")
    if kind == _DICTIONARY_PAGE:
        encoding = PLAIN
    return Page(offset, length, size, kind == _DICTIONARY_PAGE, values, encoding, before, own.get(7) is not False)


def _number(parsed: Struct, number: int) -> int:
    value = parsed.get(number)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise ValueError(f"field {number} of the header of a page is {value!r}, not a count")
    return value


def payload_of(page: Page, stored: bytes | memoryview, leaf: Leaf) -> Payload:
    """Expand the payload of a page, and read its levels.

    Args:
        page: The page.
        stored: Its bytes.
        leaf: The leaf.

    Raises:
        FilterError: The payload cannot be expanded.
        ValueError: Its levels are damaged.
    """
    data = memoryview(stored)
    if page.before is None:
        whole = expanded(data, leaf.codec, page.size)
        if page.dictionary:
            return Payload(None, None, whole, 0)
        repetition, at = _counted_levels(whole, 0, leaf.repetition, page.values)
        definition, at = _counted_levels(whole, at, leaf.definition, page.values)
        return Payload(repetition, definition, whole[at:], at)
    first, second = page.before[0], sum(page.before)
    repetition = _levels(data[:first], leaf.repetition, page.values)
    definition = _levels(data[first:second], leaf.definition, page.values)
    rest = data[second:]
    if page.compressed and len(rest):
        rest = expanded(rest, leaf.codec, page.size - second)
    return Payload(repetition, definition, rest, 0)


def expanded(data: memoryview, codec: str, size: int) -> memoryview:
    """Return bytes, expanded by a filter of pages to `size`; as they are if they are not compressed.

    Raises:
        FilterError: They cannot be expanded.
    """
    return data if codec == "stored" else _CODECS[codec].expanded(data, size).data


def _counted_levels(data: memoryview, at: int, largest: int, count: int) -> tuple[npt.NDArray[np.uint8] | None, int]:
    if not largest:
        return None, at
    length = int.from_bytes(data[at : at + 4], "little")
    if at + 4 + length > len(data):
        raise ValueError(f"{length} bytes of levels are announced in a page of {len(data)}")
    return _levels(data[at + 4 : at + 4 + length], largest, count), at + 4 + length


def _levels(data: memoryview, largest: int, count: int) -> npt.NDArray[np.uint8] | None:
    if not largest:
        return None
    levels = read_hybrid(data, largest.bit_length(), count)
    if len(levels) and int(levels.max()) > largest:
        raise ValueError(f"a level is {int(levels.max())}, where the largest is {largest}")
    return levels.astype(np.uint8)


def read_hybrid(data: memoryview, width: int, count: int) -> npt.NDArray[np.uint32]:
    """Decode numbers of the hybrid of run lengths and bit-packing.

    Args:
        data: The bytes.
        width: Bits of a number, 32 at most.
        count: How many numbers to read.

    Returns:
        uint32[count].

    Raises:
        ValueError: The bytes hold fewer numbers.
    """
    out = np.zeros(count, np.uint32)
    if not width:
        return out
    done = at = 0
    size = -(-width // 8)
    weights = np.left_shift(np.uint64(1), np.arange(width, dtype=np.uint64))
    while done < count:
        head, at = varint(data, at)
        if head & 1:
            groups = head >> 1
            packed = np.frombuffer(data[at : at + groups * width], np.uint8)
            bits = np.unpackbits(packed, bitorder="little")
            taken = min(count - done, groups * 8, len(bits) // width)
            numbers = bits[: taken * width].reshape(taken, width).astype(np.uint64) @ weights
            out[done : done + taken] = numbers
            at += groups * width
        else:
            taken = min(count - done, head >> 1)
            out[done : done + taken] = int.from_bytes(data[at : at + size], "little") & 0xFFFFFFFF
            at += size
        if not taken and at >= len(data):
            raise ValueError(f"{count} levels or indices are announced, and {done} are there")
        done += taken
    return out


def values_at(values: memoryview, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return offset and length of the byte arrays of a section of PLAIN values.

    Args:
        values: The section: for each value its length, 4 bytes, and its bytes.
        count: Number of values.

    Returns:
        Two arrays int64[count]; offsets are from the start of the section.

    Raises:
        ValueError: The section ends inside a value.
    """
    return scan_byte_arrays(values, count)


def indices(values: memoryview, count: int, entries: int) -> npt.NDArray[Any]:
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
        raise ValueError(f"a page refers to entry {int(numbers.max())} of a dictionary of {entries}")
    return numbers
