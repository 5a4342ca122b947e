"""Where the values of a leaf are, in the file or in a block file of its pages: lists, numbers and byte arrays.

Its pages are read chunk by chunk, and their levels make the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, NO_NUMBERS, U8, Bools, GrowingArrays, offsets_of, truths_of
from bushel.filters.parquet import (
    DELTA_LENGTHS,
    DELTA_PREFIXES,
    NUMBERS,
    SPLIT,
    OtherEncoding,
    delta_byte_arrays,
    number_bytes,
    page_numbers,
    prefixed_byte_arrays,
    side_of,
    values_side,
)
from bushel.filters.parquet_pages import (
    DICTIONARY,
    PLAIN,
    Leaf,
    Page,
    Payload,
    codec_of,
    indices,
    pages_of,
    payload_of,
    present,
)
from bushel.kernels import MappedFile, present_elements, read_hybrid, scan_byte_arrays, scan_snappy
from bushel.storage import Blocks, File
from bushel.storage.blocks import BlockList

from .footer import BOOLEAN, BYTE_ARRAY, FIXED, FileColumn, RowGroup, dtype_of

_RLE = 3
_DECODED = (DELTA_PREFIXES, SPLIT)  # encodings of byte arrays that are not in a page
_SNAPPY_PART = 1 << 16
_LARGE = 1 << 16
"""Bytes of byte arrays whose lengths are read alone: the kernel would read all bytes between them."""


class _Values(NamedTuple):
    """A page with values."""

    page: Page
    payload: Payload
    elements: int  # number of its values, nulls included
    valid: int  # number of those that are not null
    present: Bools | None  # bool[elements], which these are; None for all

    @property
    def start(self) -> int:
        """Where the values begin in the page as it is stored, if that is not compressed."""
        return self.page.levels + self.payload.start


class ChunkPages:
    """The pages of a leaf in one row group.

    Attributes:
        file: The file.
        node: The leaf, which may be the element of a list.
        chunk: Its chunk.
        rows: Rows of the pages that are read.
        wanted_rows: The wanted ones among these rows.
        leaf: The properties of the leaf that its pages need.
        dictionary: The page of the dictionary, when it has been met; else None.
        counts: int64[rows], the elements of each row of a list, when all pages have been read.
        absent: uint8[rows], 1 for each row that is a null, of a list.
    """

    def __init__(self, file: File, column: FileColumn, group: RowGroup) -> None:
        node = column.leaf
        self.file, self.node = file, node
        self.rows, self.wanted_rows = group.rows, slice(None)
        self.chunk = group.chunks[node.leaf]
        if (part := self.chunk.part) is not None:
            first = group.first - part.first
            self.rows, self.wanted_rows = part.rows, slice(first, first + group.rows)
        self.leaf = Leaf(self.chunk.codec, node.definition, node.repeats)
        self.dictionary: tuple[Page, Payload] | None = None
        self.counts: I64 = NO_NUMBERS
        self.absent: U8 = NO_NUMBERS.view(np.uint8)
        self._above = column.above

    def __iter__(self) -> Iterator[_Values]:
        begun = 0
        if self._above is not None:
            self.counts, self.absent = np.empty(self.rows, np.int64), np.empty(self.rows, np.uint8)
        spans = self.chunk.spans
        pages = (pages_of(self.file.read, start, stop - start) for start, stop in spans)
        for page in chain.from_iterable(pages):
            payload = payload_of(page, self.file.read, self.leaf)
            if page.dictionary:
                self.dictionary = page, payload
            elif self._above is None:
                yield _Values(page, payload, page.values, *present(page, payload, self.leaf))
                begun += page.values
            elif payload.repetition is None or payload.definition is None:
                raise ValueError("a list has no levels")
            else:
                begun, elements, valid, which = present_elements(
                    payload.repetition,
                    payload.definition,
                    self.node.definition,
                    self._above.definition,
                    page.values,
                    begun,
                    self.counts,
                    self.absent,
                )
                yield _Values(page, payload, elements, valid, which)
        if begun != self.rows:
            name = ".".join(self.node.path)
            raise ValueError(
                f"column {name!r} has {begun} values in a row group of {self.rows} rows"
            )


class Scanned(Struct, frozen=True):
    """The places of the values of a leaf, in arrays that grow."""

    key: str  # with which the names of its arrays begin
    wanted_rows: slice  # the rows that are wanted
    blocks: Blocks | None  # the block file; None if the bytes are in the file as they are

    def within(self, arrays: Mapping[str, np.ndarray]) -> tuple[I64, I64, I64 | None, Bools | None]:
        """Return the places, given the finished arrays.

        Returns:
            offset: int64[rows or elements], where each value is: in the file, or in `blocks`.
            length: int64[rows or elements], bytes; -1 for a null.
            starts: int64[rows + 1], the elements before each list; None without lists of values.
            absent: bool[rows], the rows without a list; None without lists of values.
        """
        offset, length = (arrays[f"{self.key} {name}"] for name in ("offset", "length"))
        starts = arrays.get(f"{self.key} starts")
        if starts is None:
            return offset[self.wanted_rows], length[self.wanted_rows], None, None
        absent = arrays[f"{self.key} absent"][self.wanted_rows]
        if self.wanted_rows != slice(None):
            starts = starts[self.wanted_rows.start : self.wanted_rows.stop + 1]
            elements = slice(int(starts[0]), int(starts[-1]))
            offset, length, starts = offset[elements], length[elements], starts - starts[0]
        return offset, length, starts, absent


def scan_places(
    file: File, groups: Iterable[RowGroup], column: FileColumn, arrays: GrowingArrays
) -> Scanned:
    """Find where the byte arrays of a column are.

    Args:
        file: The file.
        groups: Its row groups.
        column: The column.
        arrays: The arrays that are given the places. Their names begin with the name of the field.

    Raises:
        OtherEncoding: The values have no extents.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    key, chunks = column.field.name, [ChunkPages(file, column, group) for group in groups]
    is_plain = all(
        pages.chunk.codec == "stored" and not {*_DECODED} & {*pages.chunk.encodings}
        for pages in chunks
    )
    blocks = None if is_plain else BlockList()
    elements, wanted_rows = 0, slice(None)
    arrays.add(f"{key} ", offset=NO_NUMBERS, length=NO_NUMBERS)
    if column.above is not None:
        arrays.add(f"{key} ", starts=np.zeros(1, np.int64), absent=np.zeros(0, np.bool_))
    if is_plain and isinstance(file, MappedFile) and column.leaf.physical == BYTE_ARRAY:
        _load_lengths(file, chunks)
    for pages in chunks:
        byte_arrays = _ByteArrays(pages, blocks)
        for values in pages:
            places = byte_arrays.places(values)
            for name, numbers, missing in zip(("offset", "length"), places, (0, -1), strict=True):
                if values.present is not None:
                    spread = np.full(values.elements, missing, np.int64)
                    spread[values.present] = numbers
                    numbers = spread
                arrays.append(f"{key} {name}", numbers)
        if pages.wanted_rows != slice(None):
            wanted_rows = pages.wanted_rows
        if column.above is not None:
            starts = offsets_of(pages.counts) + elements
            elements = int(starts[-1])
            arrays.add(f"{key} ", starts=starts[1:], absent=pages.absent.view(np.bool_))
    return Scanned(key, wanted_rows, None if blocks is None else blocks.blocks())


def _load_lengths(file: MappedFile, chunks: Iterable[ChunkPages]) -> None:
    """Load the lengths of large byte arrays into memory: in one page, each is found by the one before.

    Levels before the values begin with their length, too.
    """
    places = [
        (page.offset + page.levels, page.next)
        for pages in chunks
        for start, stop in pages.chunk.spans
        if stop - start > _LARGE * pages.rows
        for page in pages_of(file.read, start, stop - start)
        if page.encoding == PLAIN
    ]
    if places:
        file.load_lengths(np.array(places, np.int64).reshape(-1))


class _ByteArrays:
    """Finds the byte arrays of the pages of a chunk, in the file or in a block file that gets the pages."""

    def __init__(self, pages: ChunkPages, blocks: BlockList | None) -> None:
        self._pages, self._blocks = pages, blocks
        self._entries: tuple[I64, I64] | None = None  # of the dictionary

    def places(self, values: _Values) -> tuple[I64, I64]:
        """Return where the byte arrays of a page are, without nulls."""
        if values.page.encoding == DICTIONARY:
            if self._entries is None:
                self._entries = self._of_dictionary()
            numbers = indices(values.payload.values(), values.valid, len(self._entries[0]))
            return self._entries[0][numbers], self._entries[1][numbers]
        if values.page.encoding in _DECODED:
            return self._decoded(values)
        return self._lying(values)

    def _of_dictionary(self) -> tuple[I64, I64]:
        if self._pages.dictionary is None:
            return NO_NUMBERS, NO_NUMBERS
        page, payload = self._pages.dictionary
        return self._lying(_Values(page, payload, page.values, page.values, None))

    def _lying(self, values: _Values) -> tuple[I64, I64]:
        """Return where the byte arrays of a page are, as they are in its payload."""
        page, count = values.page, values.valid
        file, node = self._pages.file, self._pages.node
        fixed = node.physical == FIXED
        begin = page.offset + values.start
        if page.encoding == PLAIN and fixed:
            starts, sizes = _fixed(values, node.width)
        elif page.encoding == PLAIN:
            if self._blocks is None and isinstance(
                file, MappedFile
            ):  # most of the page is not read
                return scan_byte_arrays(file, count, begin, page.next - begin)
            starts, sizes = scan_byte_arrays(values.payload.values(), count)
        elif page.encoding == DELTA_LENGTHS and not fixed:
            starts, sizes = delta_byte_arrays(values.payload.values(), count)
        else:
            raise OtherEncoding
        if self._blocks is not None:
            begin = self._block(values, self._blocks) + values.payload.start
        return starts + begin, sizes

    def _decoded(self, values: _Values) -> tuple[I64, I64]:
        """Return where the byte arrays of a page are in a block of the decoded values."""
        blocks, encoding, width = self._blocks, values.page.encoding, self._pages.node.width
        if blocks is None:
            raise OtherEncoding  # the footer does not list the encoding
        if encoding == DELTA_PREFIXES:
            sizes = prefixed_byte_arrays(values.payload.values(), values.valid).sizes
        else:
            _, sizes = _fixed(values, width)
        starts = offsets_of(sizes) + blocks.starts[-1]
        if total := int(sizes.sum()):
            offset, length, size, codec = self._stored(values)
            side = values_side(codec, size, values.payload.start, encoding, width)
            blocks.add(offset, length, total, "parquet-values", side)
        return starts[:-1], sizes

    def _stored(self, values: _Values) -> tuple[int, int, int, str]:
        """Return where the part of a page is that may be compressed, its bytes, those it expands to, and its filter."""
        page, before = values.page, values.page.levels
        codec = codec_of(page, self._pages.chunk.codec)
        return page.offset + before, page.length - before, page.size - before, codec

    def _block(self, values: _Values, blocks: BlockList) -> int:
        """Add the payload of a page to the block file, and return where it begins there."""
        offset, length, size, codec = self._stored(values)
        if codec != "snappy":
            return blocks.add(offset, length, size, codec)
        # a Snappy stream has parts of 64 KiB; of photos, 9 of 10 are plain bytes
        first, stored = blocks.starts[-1], self._pages.file.read(offset, length)
        starts, offsets, lengths, literal = scan_snappy(stored, _SNAPPY_PART)
        if int(starts[-1]) != size:
            raise ValueError(
                f"a page expands to {int(starts[-1])} bytes, where its header says {size}"
            )
        columns = (offsets + offset, lengths, np.diff(starts), literal)
        for at, bytes_stored, expanded, plain in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            blocks.add(at, bytes_stored, expanded, "stored" if plain else "snappy-tags")
        return first


def _fixed(values: _Values, width: int) -> tuple[I64, I64]:
    """Return offset and length of byte arrays of one length in the values of a page."""
    count, size = values.valid, len(values.payload.values())
    if count * width > size:
        raise ValueError(f"{count} values of {width} bytes are announced in {size} bytes")
    return np.arange(count) * width, np.full(count, width, np.int64)


def scan_lists(
    file: File, groups: Iterable[RowGroup], column: FileColumn, arrays: GrowingArrays
) -> Scanned:
    """Find where the lists of numbers of a column are. Their numbers are adjacent in the block file.

    Args:
        file: The file.
        groups: Its row groups.
        column: The column.
        arrays: As for `scan_places`.

    Raises:
        OtherEncoding: The numbers have another encoding, or some of them are null.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    key, width = column.field.name, np.dtype(dtype_of(column.leaf)).itemsize
    blocks, wanted_rows = BlockList(), slice(None)
    arrays.add(f"{key} ", offset=NO_NUMBERS, length=NO_NUMBERS)
    for group in groups:
        pages = ChunkPages(file, column, group)
        start, wanted_rows = blocks.starts[-1], pages.wanted_rows
        _add_numbers(pages, width, blocks)
        length = pages.counts * np.int64(width)
        offset = np.cumsum(length) - length + start
        length[pages.absent.view(np.bool_)] = -1
        arrays.add(f"{key} ", offset=offset, length=length)
    return Scanned(key, wanted_rows, blocks.blocks())


def _add_numbers(pages: ChunkPages, width: int, blocks: BlockList) -> None:
    """Add the numbers of a chunk to the block file: its pages if all are plain, else the chunk as one block."""
    sections: list[tuple[int, int]] = []
    plain = pages.chunk.codec == "stored"
    for values in pages:
        page, size = values.page, values.valid * width
        if page.encoding not in (*NUMBERS, DICTIONARY) or values.valid < values.elements:
            raise OtherEncoding
        plain = plain and page.encoding == PLAIN
        is_stored = codec_of(page, pages.chunk.codec) == "stored"
        room = (page.length if is_stored else page.size) - values.start
        if page.encoding == PLAIN and size > room:
            raise ValueError(f"{size} bytes of numbers are announced in a page of {room}")
        sections.append((page.offset + values.start, size))
    if plain:
        for at, size in sections:
            blocks.add(at, size, size, "stored")
        return
    # without a dictionary if it is a part: see container.py
    [(start, stop)] = pages.chunk.spans
    total = sum(size for _, size in sections)
    blocks.add(start, stop - start, total, "parquet", side_of(pages.leaf, width))


def scalars_of(
    file: File, groups: Iterable[RowGroup], column: FileColumn
) -> tuple[np.ndarray, Bools]:
    """Return the numbers of a column that does not repeat, and bool[rows], which of them are null and 0 here.

    Raises:
        OtherEncoding: The numbers have another encoding.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    dtype = np.dtype(np.bool_ if column.leaf.physical == BOOLEAN else dtype_of(column.leaf))
    numbers, nulls, wanted_rows = [np.zeros(0, dtype)], [np.zeros(0, np.bool_)], slice(None)
    for group in groups:
        pages = ChunkPages(file, column, group)
        dictionary, wanted_rows = numbers[0], pages.wanted_rows
        for values in pages:
            if pages.dictionary is not None and not len(dictionary):
                page, payload = pages.dictionary
                plain = number_bytes(payload.values(), PLAIN, page.values, dtype.itemsize)
                dictionary = plain.view(dtype)
            if dtype.kind == "b":
                filled = _truths(values)
            else:
                filled = page_numbers(values.page, values.payload, values.valid, dictionary)
            null = np.zeros(values.elements, np.bool_)
            if values.present is not None:
                present_numbers, null = filled, ~values.present
                filled = np.zeros(values.elements, dtype)
                filled[values.present] = present_numbers
            numbers.append(filled)
            nulls.append(null)
    return np.concatenate(numbers)[wanted_rows], np.concatenate(nulls)[wanted_rows]


def _truths(values: _Values) -> Bools:
    data, count = values.payload.values(), values.valid
    if values.page.encoding == _RLE:
        return read_hybrid(data[4:], 1, count).astype(np.bool_)
    if values.page.encoding != PLAIN:
        raise OtherEncoding
    return truths_of(data, count)
