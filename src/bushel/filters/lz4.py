"""Blocks compressed by LZ4.

`lz4` is its frame format, and `lz4-block` one block without a frame. `lz4-hadoop` is Parquet's
compression number 5: blocks that follow two lengths each, as Hadoop writes them, or one block, or a
frame, as other writers understood it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from cramjam import lz4

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FRAME = b"\x04\x22\x4d\x18"


def _expand_frame(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(lz4.decompress_into(stored, out))


def _expand_block(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(lz4.decompress_block_into(stored, out, output_len=len(out)))


def _expand_hadoop(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    view = memoryview(stored).cast("B")
    if (blocks := _hadoop_blocks(view, len(out))) is None:
        if view[:4] == _FRAME:
            return _expand_frame(view, out, side)
        return _expand_block(view, out, side)
    start = 0
    for block, size in blocks:
        start += int(lz4.decompress_block_into(block, out[start : start + size], output_len=size))
    return start


def _hadoop_blocks(view: memoryview, size: int) -> list[tuple[memoryview, int]] | None:
    """Return blocks and their expanded sizes; None if the lengths before them do not add up to `size`."""
    blocks, at, total = list[tuple[memoryview, int]](), 0, 0
    while at + 8 <= len(view):
        expanded, length = struct.unpack_from(">II", view, at)
        blocks.append((view[at + 8 : at + 8 + length], expanded))
        at, total = at + 8 + length, total + expanded
    return blocks if at == len(view) and total == size else None


FILTERS = {
    "lz4": Filter("lz4", _expand_frame, 256),
    "lz4-block": Filter("lz4-block", _expand_block, 256),
    "lz4-hadoop": Filter("lz4-hadoop", _expand_hadoop, 256),
}
