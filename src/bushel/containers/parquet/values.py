"""Where the values of a leaf are, in the file or in a block file of its pages: lists, numbers and byte arrays.

Its pages are read chunk by chunk, and their levels make the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, Bools, offsets_of
from bushel.containers.growing import GrowingArrays
from bushel.filters.parquet import (
    DELTA_LENGTHS,
    DELTA_PREFIXES,
    NUMBERS,
    SPLIT,
    delta_byte_arrays,
    number_bytes,
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

from .footer import BOOLEAN, FIXED, Chunk, Footer, Node, dtype_of


class OtherEncoding(Exception):
    """The values of a leaf have no extents: pyarrow has to decode them."""


class ChunkPages(Struct, frozen=True):
    """The pages of a leaf in one row group."""

    file: File
    node: Node
    chunk: Chunk
    rows: int  # rows of the pages that are read
    kept: slice  # the wanted ones among these rows

    @property
    def leaf(self) -> Leaf:
        """The properties of the leaf that its pages need."""
        return Leaf(self.chunk.codec, self.node.definition, self.node.repeats)

    def __iter__(self) -> Iterator[tuple[Page, Payload]]:
        for start, stop in self.chunk.spans:
            for page in pages_of(self.file.read, start, stop - start):
                yield page, payload_of(page, self.file.read, self.leaf)

    def present(self, page: Page, payload: Payload) -> tuple[int, Bools | None]:
        """Return the number of values of a page that are there, and which these are; None for all."""
        return present(page, payload, self.leaf)

    def check(self, values: int) -> None:
        """Raise ValueError if a leaf that does not repeat has another number of values than rows."""
        if values != self.rows:
            raise ValueError(
                f"column {self.name!r} has {values} values in a row group of {self.rows} rows"
            )

    @property
    def name(self) -> str:
        """The name of the leaf."""
        return ".".join(self.node.path)


def chunks_of(file: File, footer: Footer, node: Node) -> Iterator[ChunkPages]:
    """Yield the chunks of a leaf."""
    for group in footer.groups:
        chunk = group.chunks[node.leaf]
        rows, chosen = group.rows, slice(None)
        if chunk.part is not None:
            rows, first = chunk.part.rows, group.first - chunk.part.first
            chosen = slice(first, first + group.rows)
        yield ChunkPages(file, node, chunk, rows, chosen)


class ListRows:
    """The rows of a chunk of a leaf that repeats once, which its pages fill."""

    def __init__(self, pages: ChunkPages, group: Node) -> None:
        self.pages, self.list_level = pages, group.definition
        # elements of each row; 1 for each row that is a null; number of rows that have begun
        self.counts, self.absent = np.empty(pages.rows, np.int64), np.empty(pages.rows, np.uint8)
        self.begun = 0

    def add(self, page: Page, payload: Payload) -> tuple[int, int, Bools | None]:
        """Add the rows of a page.

        Returns:
            The number of elements of the page, the number of those that are there, and which these
            are; None for all.

        Raises:
            ValueError: The levels are damaged.
        """
        if payload.repetition is None or payload.definition is None:
            raise ValueError("a list has no levels")
        self.begun, elements, count, present_rows = present_elements(
            payload.repetition,
            payload.definition,
            self.pages.node.definition,
            self.list_level,
            page.values,
            self.begun,
            self.counts,
            self.absent,
        )
        return elements, count, present_rows

    def finish(self) -> tuple[I64, Bools]:
        """Return int64[rows], the elements of each row, and bool[rows], the nulls, when all pages were added.

        Raises:
            ValueError: The pages have another number of rows.
        """
        if self.begun != self.pages.rows:
            name, rows = self.pages.name, self.pages.rows
            raise ValueError(f"column {name!r} has {self.begun} rows in a row group of {rows}")
        return self.counts, self.absent.view(np.bool_)


_DECODED = (DELTA_PREFIXES, SPLIT)  # encodings of byte arrays that are not in a page
_SNAPPY_PART = 1 << 16


class Scanned(Struct, frozen=True):
    """The places of the values of a leaf, in arrays that grow."""

    key: str  # with which the names of its arrays begin
    kept: slice  # the rows that are wanted
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
            return offset[self.kept], length[self.kept], None, None
        absent = arrays[f"{self.key} absent"][self.kept]
        if self.kept != slice(None):
            starts = starts[self.kept.start : self.kept.stop + 1]
            elements = slice(int(starts[0]), int(starts[-1]))
            offset, length, starts = offset[elements], length[elements], starts - starts[0]
        return offset, length, starts, absent


def scan_places(
    file: File, footer: Footer, node: Node, group: Node | None, arrays: GrowingArrays, key: str
) -> Scanned:
    """Find where the byte arrays of a leaf are.

    Args:
        file: The file.
        footer: Its footer.
        node: The leaf.
        group: The list that the leaf is the element of, or None.
        arrays: The arrays that are given the places.
        key: The names of these arrays begin with it.

    Raises:
        OtherEncoding: The values have no extents.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    chunks = list(chunks_of(file, footer, node))
    blocks = None if all(map(_lies_plain, chunks)) else BlockList()
    none, elements = np.zeros(0, np.int64), 0
    for name, first in (("offset", none), ("length", none)):
        arrays.append(f"{key} {name}", first)
    if group is not None:
        arrays.append(f"{key} starts", np.zeros(1, np.int64))
        arrays.append(f"{key} absent", np.zeros(0, np.bool_))
    for pages in chunks:
        rows = None if group is None else ListRows(pages, group)
        entries, values = (none, none), 0
        for page, payload in pages:
            if page.dictionary:
                entries = _lying(pages, page, payload, blocks, page.values)
                continue
            size = page.values
            if rows is None:
                count, present = pages.present(page, payload)
            else:
                size, count, present = rows.add(page, payload)
            places = _page(pages, page, payload, blocks, count, entries)
            for name, placed, missing in zip(("offset", "length"), places, (0, -1), strict=True):
                arrays.append(
                    f"{key} {name}",
                    placed if present is None else _spread(placed, present, size, missing),
                )
            values += page.values
        if rows is None:
            pages.check(values)
            continue
        counts, absent = rows.finish()
        starts = offsets_of(counts)[1:] + elements
        if len(starts):
            elements = int(starts[-1])
        arrays.append(f"{key} starts", starts)
        arrays.append(f"{key} absent", absent)
    chosen = next((pages.kept for pages in chunks if pages.chunk.part is not None), slice(None))
    return Scanned(key, chosen, None if blocks is None else blocks.blocks())


def _lies_plain(pages: ChunkPages) -> bool:
    """Return whether the byte arrays of a chunk are in the file as they are."""
    return pages.chunk.codec == "stored" and not any(
        encoding in _DECODED for encoding in pages.chunk.encodings
    )


def _spread(numbers: I64, present: Bools, size: int, missing: int) -> I64:
    """Return the numbers of a page, with another one where values are missing."""
    spread = np.full(size, missing, np.int64)
    spread[present] = numbers
    return spread


def _page(
    pages: ChunkPages,
    page: Page,
    payload: Payload,
    blocks: BlockList | None,
    count: int,
    entries: tuple[I64, I64],
) -> tuple[I64, I64]:
    """Return where the byte arrays of a page are, without nulls."""
    if page.encoding == DICTIONARY:
        numbers = indices(payload.values(), count, len(entries[0]))
        return entries[0][numbers], entries[1][numbers]
    return (_decoded if page.encoding in _DECODED else _lying)(pages, page, payload, blocks, count)


def _lying(
    pages: ChunkPages, page: Page, payload: Payload, blocks: BlockList | None, count: int
) -> tuple[I64, I64]:
    """Return where the byte arrays of a page are, as they are in its payload: in the file, or in the block file."""
    node, file = pages.node, pages.file
    before = page.offset + sum(page.before or (0,)) + payload.start
    if page.encoding == PLAIN and node.physical != FIXED:
        if blocks is None and isinstance(file, MappedFile):  # most of the page is not read
            return scan_byte_arrays(file, count, before, page.next - before)
        starts, sizes = scan_byte_arrays(payload.values(), count)
    elif page.encoding == PLAIN:
        starts, sizes = _fixed(pages, page, payload, count)
    elif page.encoding == DELTA_LENGTHS and node.physical != FIXED:
        starts, sizes = delta_byte_arrays(payload.values(), count)
    else:
        raise OtherEncoding
    return starts + (
        before if blocks is None else _block(pages, page, blocks) + payload.start
    ), sizes


def _fixed(pages: ChunkPages, page: Page, payload: Payload, count: int) -> tuple[I64, I64]:
    width, size = pages.node.width, len(payload.values())
    if count * width > size:
        raise ValueError(f"{count} values of {width} bytes are announced in {size} bytes")
    return np.arange(count, dtype=np.int64) * width, np.full(count, width, np.int64)


def _decoded(
    pages: ChunkPages, page: Page, payload: Payload, blocks: BlockList | None, count: int
) -> tuple[I64, I64]:
    """Return where the byte arrays of a page are in a block of the decoded values."""
    if blocks is None:
        raise OtherEncoding  # the footer does not list the encoding
    if page.encoding == DELTA_PREFIXES:
        sizes = prefixed_byte_arrays(payload.values(), count).sizes
        starts = offsets_of(sizes)
    else:
        starts, sizes = _fixed(pages, page, payload, count)
        starts = offsets_of(sizes)
    start, total, width = blocks.starts[-1], int(starts[-1]), pages.node.width
    if total:
        offset, length, size, codec = _stored(pages, page)
        side = values_side(codec, size, payload.start, page.encoding, width)
        start = blocks.add(offset, length, total, "parquet-values", side)
    return starts[:-1] + start, sizes


def _stored(pages: ChunkPages, page: Page) -> tuple[int, int, int, str]:
    """Return where the part of a page is that may be compressed, its bytes, those it expands to, and its filter."""
    before = sum(page.before or (0,))
    return (
        page.offset + before,
        page.length - before,
        page.size - before,
        codec_of(page, pages.chunk.codec),
    )


def _block(pages: ChunkPages, page: Page, blocks: BlockList) -> int:
    """Add the payload of a page to the block file, and return where it begins there."""
    offset, length, size, codec = _stored(pages, page)
    if codec != "snappy":
        return blocks.add(offset, length, size, codec)
    # a Snappy stream has parts of 64 KiB; of photos, 9 of 10 are plain bytes
    first = blocks.starts[-1]
    starts, offsets, lengths, literal = scan_snappy(pages.file.read(offset, length), _SNAPPY_PART)
    if int(starts[-1]) != size:
        raise ValueError(f"a page expands to {int(starts[-1])} bytes, where its header says {size}")
    sizes = np.diff(starts).tolist()
    for start, stored, part, plain in zip(
        offsets.tolist(), lengths.tolist(), sizes, literal.tolist(), strict=True
    ):
        blocks.add(offset + start, stored, part, "stored" if plain else "snappy-tags")
    return first


_RLE = 3


def scan_lists(
    file: File, footer: Footer, node: Node, group: Node, arrays: GrowingArrays, key: str
) -> Scanned:
    """Find where the lists of numbers of a leaf are. Their numbers are adjacent in the block file.

    Args:
        file: The file.
        footer: Its footer.
        node: The leaf.
        group: The list that the leaf is the element of.
        arrays: The arrays that are given the places.
        key: The names of these arrays begin with it.

    Raises:
        OtherEncoding: The numbers have another encoding, or some of them are null.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    width = np.dtype(dtype_of(node)).itemsize
    blocks, chosen = BlockList(), slice(None)
    for name in ("offset", "length"):
        arrays.append(f"{key} {name}", np.zeros(0, np.int64))
    for pages in chunks_of(file, footer, node):
        start, chosen = blocks.starts[-1], pages.kept
        counts, absent = _list_rows(pages, group, width, blocks)
        length = counts * np.int64(width)
        arrays.append(f"{key} offset", np.cumsum(length) - length + start)
        length[absent] = -1
        arrays.append(f"{key} length", length)
    return Scanned(key, chosen, blocks.blocks())


def _list_rows(pages: ChunkPages, group: Node, width: int, blocks: BlockList) -> tuple[I64, Bools]:
    """Add the numbers of a chunk to the block file, and return the numbers of each row, and which rows are null."""
    rows = ListRows(pages, group)
    sections: list[tuple[int, int]] = []
    plain, total = pages.chunk.codec == "stored", 0
    for page, payload in pages:
        if page.dictionary:
            continue
        if page.encoding not in (*NUMBERS, DICTIONARY):
            raise OtherEncoding
        plain = plain and page.encoding == PLAIN
        elements, count, _ = rows.add(page, payload)
        if count < elements:
            raise OtherEncoding
        size, before = count * width, sum(page.before or (0,)) + payload.start
        room = (
            page.length if codec_of(page, pages.chunk.codec) == "stored" else page.size
        ) - before
        if page.encoding == PLAIN and size > room:
            raise ValueError(f"{size} bytes of numbers are announced in a page of {room}")
        sections.append((page.offset + before, size))
        total += size
    if plain:
        for at, size in sections:
            blocks.add(at, size, size, "stored")
    else:
        # without a dictionary if it is a part: see container.py
        [(start, stop)] = pages.chunk.spans
        blocks.add(start, stop - start, total, "parquet", side_of(pages.leaf, width))
    return rows.finish()


def scalars_of(file: File, footer: Footer, node: Node) -> tuple[np.ndarray, Bools]:
    """Return the numbers of a leaf that does not repeat, and bool[rows], which of them are null and 0 here.

    Raises:
        OtherEncoding: The numbers have another encoding.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    dtype = np.dtype(np.bool_ if node.physical == BOOLEAN else dtype_of(node) or "V")
    if dtype.kind == "V":
        raise OtherEncoding
    values, nulls, chosen = [np.zeros(0, dtype)], [np.zeros(0, np.bool_)], slice(None)
    for pages in chunks_of(file, footer, node):
        dictionary, count, chosen = np.zeros(0, dtype), 0, pages.kept
        for page, payload in pages:
            if page.dictionary:
                dictionary = _numbers(payload.values(), page.values, dtype)
                continue
            present, valid = pages.present(page, payload)
            if page.encoding == DICTIONARY:
                numbers = dictionary[indices(payload.values(), present, len(dictionary))]
            elif page.encoding == PLAIN or (page.encoding in NUMBERS and dtype.kind != "b"):
                numbers = _numbers(payload.values(), present, dtype, page.encoding)
            elif page.encoding == _RLE and dtype.kind == "b":
                numbers = read_hybrid(payload.values()[4:], 1, present).astype(np.bool_)
            else:
                raise OtherEncoding
            if valid is not None:
                filled = np.zeros(page.values, dtype)
                filled[valid] = numbers
                numbers = filled
            values.append(numbers)
            nulls.append(np.zeros(page.values, np.bool_) if valid is None else ~valid)
            count += page.values
        pages.check(count)
    return np.concatenate(values)[chosen], np.concatenate(nulls)[chosen]


def _numbers(
    values: memoryview, count: int, dtype: np.dtype[np.generic], encoding: int = PLAIN
) -> np.ndarray:
    if dtype.kind == "b":
        bits = np.unpackbits(np.frombuffer(values, np.uint8), bitorder="little")[:count]
        if len(bits) < count:
            raise ValueError(f"{count} truth values are announced in {len(values)} bytes")
        return bits.astype(np.bool_)
    return number_bytes(values, encoding, count, dtype.itemsize).view(dtype)
