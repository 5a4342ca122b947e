"""Blocks compressed by LZ4: `lz4` is its frame format, `lz4-block` a single block without frame, as in Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cramjam import lz4

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _expand_frame(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(lz4.decompress_into(stored, out))


def _expand_block(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(lz4.decompress_block_into(stored, out, output_len=len(out)))


FILTERS = {"lz4": Filter("lz4", _expand_frame, 256), "lz4-block": Filter("lz4-block", _expand_block, 256)}
