"""The leaves of a Parquet file: where byte arrays and lists of numbers lie, and the values of scalars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bushel._runtime.arrays import I64, U8, Bools
from bushel.containers.parquet.footer import Chunk, Footer, Node
from bushel.filters.parquet import side_of, values_side
from bushel.filters.parquet_encodings import (
    DELTA_LENGTHS,
    DELTA_PREFIXES,
    NUMBERS,
    SPLIT,
    delta_byte_arrays,
    number_bytes,
    prefixed_byte_arrays,
)
from bushel.filters.parquet_pages import (
    DICTIONARY,
    PLAIN,
    Leaf,
    Page,
    Payload,
    indices,
    pages_of,
    payload_of,
    read_hybrid,
    values_at,
)
from bushel.kernels import scan_snappy
from bushel.storage import Blocks, File
from bushel.storage.block_list import BlockList

_DTYPES = {1: "<i4", 2: "<i8", 4: "<f4", 5: "<f8"}  # of the physical types INT32, INT64, FLOAT and DOUBLE
_BOOLEAN, _FIXED = 0, 7
_FLOAT16 = 15  # the logical type
_RLE = 3
_DECODED = (DELTA_PREFIXES, SPLIT)  # encodings of byte arrays that do not lie in a page
_SNAPPY_PART = 1 << 16


def dtype_of(leaf: Node) -> str | None:
    """Return NumPy's name of the type of the stored numbers of a leaf; None if they are not numbers."""
    if leaf.physical == _FIXED and leaf.logical == _FLOAT16 and leaf.width == 2:
        return "<f2"
    return _DTYPES.get(-1 if leaf.physical is None else leaf.physical)


class OtherEncoding(Exception):
    """The values of a leaf have no extents: pyarrow has to decode them."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """The byte arrays of a leaf."""

    offset: I64  # int64[rows or elements], where each lies: in the file, or in `blocks`
    length: I64  # int64[rows or elements], bytes; -1 for a null
    starts: I64 | None  # int64[rows + 1], the elements of each row of a list; None if the leaf does not repeat
    absent: Bools | None  # bool[rows], the rows without a list; None if the leaf does not repeat
    blocks: Blocks | None  # the block file; None if the bytes lie in the file as they are


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of numbers of a leaf: for each row where its numbers lie in `blocks`; -1 is the length of a null."""

    offset: I64
    length: I64
    blocks: Blocks


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a chunk of a leaf that repeats once."""

    counts: I64  # int64[rows], elements of each
    absent: Bools  # bool[rows], the nulls
    present: Bools  # bool[elements], False for nulls


def _chunks(footer: Footer, node: Node) -> Iterator[tuple[int, Chunk]]:
    """Yield the rows of the pages that are read of each chunk, and the chunk."""
    for group in footer.groups:
        chunk = group.chunks[node.leaf]
        yield group.rows if chunk.part is None else chunk.part.rows, chunk


def _kept(footer: Footer, node: Node) -> slice:
    """Return the wanted rows among the rows of all pages that are read."""
    for group in footer.groups:  # one, if it is a run of rows
        part = group.chunks[node.leaf].part
        if part is not None:
            return slice(group.first - part.first, group.first - part.first + group.rows)
    return slice(None)


def _pages(file: File, chunk: Chunk, leaf: Leaf) -> Iterator[tuple[Page, Payload]]:
    for start, stop in chunk.spans:
        for page in pages_of(file.read, start, stop - start):
            yield page, payload_of(page, file.read(page.offset, page.length), leaf)


def _leaf(node: Node, chunk: Chunk) -> Leaf:
    return Leaf(chunk.codec, node.definition, node.repeats)


def _present(page: Page, payload: Payload, node: Node) -> int:
    """Return the number of values of a page that are there."""
    return page.values if payload.definition is None else int((payload.definition == node.definition).sum())


def places_of(file: File, footer: Footer, node: Node, group: Node | None = None) -> Bytes:
    """Return where the byte arrays of a leaf lie. `group` is the list that the leaf is the element of, or None.

    Raises:
        OtherEncoding: The values have no extents.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    made = None if all(map(_lies_plain, (chunk for _, chunk in _chunks(footer, node)))) else BlockList()
    offsets, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    rows_of_chunks = []
    for rows, chunk in _chunks(footer, node):
        entries = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        levels: list[Payload] = []
        count = 0
        for page, payload in _pages(file, chunk, _leaf(node, chunk)):
            if page.dictionary:
                entries = _lying(file, page, payload, chunk, node, made, page.values)
                continue
            there = _present(page, payload, node)
            if page.encoding == DICTIONARY:
                numbers = indices(payload.values, there, len(entries[0]))
                own, sizes = entries[0][numbers], entries[1][numbers]
            elif page.encoding in _DECODED:
                own, sizes = _decoded(page, payload, chunk, node, made, there)
            else:
                own, sizes = _lying(file, page, payload, chunk, node, made, there)
            own, sizes = _with_nulls(payload, node, group, own, sizes)
            offsets.append(own)
            lengths.append(sizes)
            levels.append(payload)
            count += page.values
        if group is None and count != rows:
            raise ValueError(f"column {'.'.join(node.path)!r} has {count} values in a row group of {rows} rows")
        if group is not None:
            rows_of_chunks.append(_rows(levels, node, group, rows))
    starts = absent = None
    if group is not None:
        counts = np.concatenate([np.zeros(1, np.int64), *(each.counts for each in rows_of_chunks)])
        starts = np.cumsum(counts)
        absent = np.concatenate([np.zeros(0, np.bool_), *(each.absent for each in rows_of_chunks)])
    blocks = None if made is None else made.blocks()
    made_of_all = Bytes(np.concatenate(offsets), np.concatenate(lengths), starts, absent, blocks)
    return _of_rows(made_of_all, _kept(footer, node))


def _lies_plain(chunk: Chunk) -> bool:
    """Return whether the byte arrays of a chunk lie in the file as they are."""
    return chunk.codec == "stored" and not any(each in _DECODED for each in chunk.encodings)


def _lying(
    file: File, page: Page, payload: Payload, chunk: Chunk, node: Node, made: BlockList | None, count: int
) -> tuple[I64, I64]:
    """Return where the byte arrays of a page lie, as they are in its payload: in the file, or in the block file."""
    if page.encoding == PLAIN:
        own, sizes = _plain(node, payload.values, count)
    elif page.encoding == DELTA_LENGTHS and node.physical != _FIXED:
        own, sizes = delta_byte_arrays(payload.values, count)
    else:
        raise OtherEncoding
    return own + (_start(file, page, chunk, made) + payload.start), sizes


def _decoded(
    page: Page, payload: Payload, chunk: Chunk, node: Node, made: BlockList | None, count: int
) -> tuple[I64, I64]:
    """Return where the byte arrays of a page lie in a block of the decoded values."""
    if made is None:
        raise OtherEncoding  # the footer does not list the encoding
    if page.encoding == DELTA_PREFIXES:
        sizes = np.array([len(value) for value in prefixed_byte_arrays(payload.values, count)], np.int64)
    else:
        sizes = np.full(count, node.width, np.int64)
        if count * node.width > len(payload.values):
            raise ValueError(f"{count} values of {node.width} bytes are announced in {len(payload.values)} bytes")
    ends = np.cumsum(sizes)
    start, total = made.starts[-1], int(ends[-1]) if count else 0
    if total:
        before = sum(page.before or (0,))
        codec = chunk.codec if page.compressed or page.before is None else "stored"
        side = values_side(codec, page.size - before, payload.start, page.encoding, node.width)
        start = made.add(page.offset + before, page.length - before, total, "parquet-values", side)
    return ends - sizes + start, sizes


def _of_rows(places: Bytes, kept: slice) -> Bytes:
    """Return the byte arrays of some of the rows."""
    if kept == slice(None):
        return places
    if places.starts is None or places.absent is None:
        return replace(places, offset=places.offset[kept], length=places.length[kept])
    starts = places.starts[kept.start : kept.stop + 1]
    elements = slice(int(starts[0]), int(starts[-1]))
    offset, length = places.offset[elements], places.length[elements]
    return Bytes(offset, length, starts - starts[0], places.absent[kept], places.blocks)


def _start(file: File, page: Page, chunk: Chunk, made: BlockList | None) -> int:
    """Return where the expanded payload of a page begins: in the file, or in the block file that gets it as a block."""
    before = sum(page.before or (0,))
    if made is None:
        return page.offset + before
    codec = chunk.codec if page.compressed or page.before is None else "stored"
    offset, length, size = page.offset + before, page.length - before, page.size - before
    if codec != "snappy":
        return made.add(offset, length, size, codec)
    first = made.starts[-1]  # a Snappy stream has parts of 64 KiB; of photos, 9 of 10 are plain bytes
    starts, offsets, lengths, literal = scan_snappy(file.read(offset, length), _SNAPPY_PART)
    if int(starts[-1]) != size:
        raise ValueError(f"a page expands to {int(starts[-1])} bytes, where its header says {size}")
    sizes = np.diff(starts).tolist()
    for own, stored, part, plain in zip(offsets.tolist(), lengths.tolist(), sizes, literal.tolist(), strict=True):
        made.add(offset + own, stored, part, "stored" if plain else "snappy-tags")
    return first


def _plain(node: Node, values: memoryview, count: int) -> tuple[I64, I64]:
    if node.physical != _FIXED:
        return values_at(values, count)
    if count * node.width > len(values):
        raise ValueError(f"{count} values of {node.width} bytes are announced in {len(values)} bytes")
    return np.arange(count, dtype=np.int64) * node.width, np.full(count, node.width, np.int64)


def _with_nulls(payload: Payload, node: Node, group: Node | None, own: I64, sizes: I64) -> tuple[I64, I64]:
    """Return the extents of a page, with nulls of length -1 between the values that are there."""
    levels = payload.definition
    if levels is None:
        return own, sizes
    kept = levels if group is None else levels[levels >= _element_level(group)]
    there = kept == node.definition
    offset, length = np.zeros(len(kept), np.int64), np.full(len(kept), -1, np.int64)
    offset[there], length[there] = own, sizes
    return offset, length


def _element_level(group: Node) -> int:
    """Return the lowest definition level at which a list has an element, perhaps a null."""
    return group.definition + 1


def _rows(levels: list[Payload], node: Node, group: Node, rows: int) -> _Rows:
    """Return the rows of a chunk, given the levels of its pages."""
    repetition = np.concatenate([np.zeros(0, np.uint8), *(_or_zeros(each.repetition) for each in levels)])
    definition = np.concatenate([np.zeros(0, np.uint8), *(_or_zeros(each.definition) for each in levels)])
    first = repetition == 0
    if int(first.sum()) != rows or (len(first) and not first[0]):
        raise ValueError(f"column {'.'.join(node.path)!r} has {int(first.sum())} rows in a row group of {rows}")
    elements = definition >= _element_level(group)
    number = np.cumsum(first) - 1
    counts = np.bincount(number[elements], minlength=rows).astype(np.int64)
    return _Rows(counts, definition[first] < group.definition, (definition == node.definition)[elements])


def _or_zeros(levels: U8 | None) -> U8:
    if levels is None:
        raise ValueError("a list has no levels")
    return levels


def lists_of(file: File, footer: Footer, node: Node, group: Node) -> Lists:
    """Return where the lists of numbers of a leaf lie. Their numbers are adjacent in the block file.

    Raises:
        OtherEncoding: The numbers have another encoding, or some of them are null.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    width = np.dtype(dtype_of(node)).itemsize
    made = BlockList()
    counts, absent = [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for rows, chunk in _chunks(footer, node):
        leaf = _leaf(node, chunk)
        levels: list[Payload] = []
        sections: list[tuple[int, int]] = []
        plain = chunk.codec == "stored"
        for page, payload in _pages(file, chunk, leaf):
            if page.dictionary:
                continue
            if page.encoding not in (*NUMBERS, DICTIONARY):
                raise OtherEncoding
            plain = plain and page.encoding == PLAIN
            size = _present(page, payload, node) * width
            if page.encoding == PLAIN and size > len(payload.values):
                raise ValueError(f"{size} bytes of numbers are announced in a page of {len(payload.values)}")
            sections.append((page.offset + sum(page.before or (0,)) + payload.start, size))
            levels.append(Payload(payload.repetition, payload.definition, memoryview(b""), 0))
        own = _rows(levels, node, group, rows)
        if not own.present.all():
            raise OtherEncoding
        if plain:
            for at, size in sections:
                made.add(at, size, size, "stored")
        else:
            [(start, stop)] = chunk.spans  # without a dictionary if it is a part: see container.py
            made.add(start, stop - start, len(own.present) * width, "parquet", side_of(leaf, width))
        counts.append(own.counts)
        absent.append(own.absent)
    length: I64 = np.concatenate(counts) * np.int64(width)
    offset: I64 = np.cumsum(length) - length
    length[np.concatenate(absent)] = -1
    kept = _kept(footer, node)
    return Lists(offset[kept], length[kept], made.blocks())


def scalars_of(file: File, footer: Footer, node: Node) -> tuple[npt.NDArray[np.generic], Bools]:
    """Return the numbers of a leaf that does not repeat, and bool[rows], which of them are null and 0 here.

    Raises:
        OtherEncoding: The numbers have another encoding.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    dtype = np.dtype(np.bool_ if node.physical == _BOOLEAN else dtype_of(node) or "V")
    if dtype.kind == "V":
        raise OtherEncoding
    values, nulls = [np.zeros(0, dtype)], [np.zeros(0, np.bool_)]
    for rows, chunk in _chunks(footer, node):
        dictionary = np.zeros(0, dtype)
        count = 0
        for page, payload in _pages(file, chunk, _leaf(node, chunk)):
            if page.dictionary:
                dictionary = _numbers(payload.values, page.values, dtype)
                continue
            there = _present(page, payload, node)
            if page.encoding == DICTIONARY:
                own = dictionary[indices(payload.values, there, len(dictionary))]
            elif page.encoding == PLAIN or (page.encoding in NUMBERS and dtype.kind != "b"):
                own = _numbers(payload.values, there, dtype, page.encoding)
            elif page.encoding == _RLE and dtype.kind == "b":
                own = read_hybrid(payload.values[4:], 1, there).astype(np.bool_)
            else:
                raise OtherEncoding
            null = np.zeros(page.values, np.bool_)
            if payload.definition is not None:
                null = payload.definition != node.definition
            filled = np.zeros(page.values, dtype)
            filled[~null] = own
            values.append(filled)
            nulls.append(null)
            count += page.values
        if count != rows:
            raise ValueError(f"column {'.'.join(node.path)!r} has {count} values in a row group of {rows} rows")
    kept = _kept(footer, node)
    return np.concatenate(values)[kept], np.concatenate(nulls)[kept]


def _numbers(
    values: memoryview, count: int, dtype: np.dtype[np.generic], encoding: int = PLAIN
) -> npt.NDArray[np.generic]:
    if dtype.kind == "b":
        bits = np.unpackbits(np.frombuffer(values, np.uint8), bitorder="little")[:count]
        if len(bits) < count:
            raise ValueError(f"{count} truth values are announced in {len(values)} bytes")
        return bits.astype(np.bool_)
    return number_bytes(values, encoding, count, dtype.itemsize).view(dtype)
