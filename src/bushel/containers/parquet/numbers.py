"""The numbers of a leaf: where its lists lie, and the values of scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._runtime.arrays import I64, Bools
from bushel.containers.growing import GrowingArrays
from bushel.containers.parquet.footer import Footer
from bushel.containers.parquet.pages import ChunkPages, ListRows, OtherEncoding, chunks_of
from bushel.containers.parquet.schema import BOOLEAN, Node, dtype_of
from bushel.filters.parquet import NUMBERS, number_bytes, side_of
from bushel.filters.parquet_pages import DICTIONARY, PLAIN, codec_of, indices
from bushel.kernels import read_hybrid
from bushel.storage import Blocks, File
from bushel.storage.block_list import BlockList

_RLE = 3


@dataclass(frozen=True, slots=True)
class ScannedLists:
    """The lists of numbers of a leaf, whose places are in arrays that grow."""

    key: str  # with which the names of its arrays begin
    kept: slice  # the rows that are wanted
    blocks: Blocks

    def within(self, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[I64, I64]:
        """Return where the numbers of each row begin in the block file, and their bytes; -1 for a null."""
        return arrays[f"{self.key} offset"][self.kept], arrays[f"{self.key} length"][self.kept]


def scan_lists(
    file: File, footer: Footer, node: Node, group: Node, arrays: GrowingArrays, key: str
) -> ScannedLists:
    """Find where the lists of numbers of a leaf lie. Their numbers are adjacent in the block file.

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
    made, kept = BlockList(), slice(None)
    for name in ("offset", "length"):
        arrays.append(f"{key} {name}", np.zeros(0, np.int64))
    for pages in chunks_of(file, footer, node):
        start, kept = made.starts[-1], pages.kept
        counts, absent = _list_rows(pages, group, width, made)
        length = counts * np.int64(width)
        arrays.append(f"{key} offset", np.cumsum(length) - length + start)
        length[absent] = -1
        arrays.append(f"{key} length", length)
    return ScannedLists(key, kept, made.blocks())


def _list_rows(pages: ChunkPages, group: Node, width: int, made: BlockList) -> tuple[I64, Bools]:
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
            made.add(at, size, size, "stored")
    else:
        # without a dictionary if it is a part: see container.py
        [(start, stop)] = pages.chunk.spans
        made.add(start, stop - start, total, "parquet", side_of(pages.leaf, width))
    return rows.finish()


def scalars_of(file: File, footer: Footer, node: Node) -> tuple[npt.NDArray[np.generic], Bools]:
    """Return the numbers of a leaf that does not repeat, and bool[rows], which of them are null and 0 here.

    Raises:
        OtherEncoding: The numbers have another encoding.
        FilterError, ThriftError, ValueError: A page is damaged.
    """
    dtype = np.dtype(np.bool_ if node.physical == BOOLEAN else dtype_of(node) or "V")
    if dtype.kind == "V":
        raise OtherEncoding
    values, nulls, kept = [np.zeros(0, dtype)], [np.zeros(0, np.bool_)], slice(None)
    for pages in chunks_of(file, footer, node):
        dictionary, count, kept = np.zeros(0, dtype), 0, pages.kept
        for page, payload in pages:
            if page.dictionary:
                dictionary = _numbers(payload.values(), page.values, dtype)
                continue
            present, there = pages.present(page, payload)
            if page.encoding == DICTIONARY:
                own = dictionary[indices(payload.values(), present, len(dictionary))]
            elif page.encoding == PLAIN or (page.encoding in NUMBERS and dtype.kind != "b"):
                own = _numbers(payload.values(), present, dtype, page.encoding)
            elif page.encoding == _RLE and dtype.kind == "b":
                own = read_hybrid(payload.values()[4:], 1, present).astype(np.bool_)
            else:
                raise OtherEncoding
            if there is not None:
                filled = np.zeros(page.values, dtype)
                filled[there] = own
                own = filled
            values.append(own)
            nulls.append(np.zeros(page.values, np.bool_) if there is None else ~there)
            count += page.values
        pages.check(count)
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
