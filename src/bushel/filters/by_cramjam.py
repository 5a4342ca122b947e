"""Blocks that cramjam expands: Zstandard, LZ4, Snappy, Brotli and bzip2.

`lz4` is its frame format, and `lz4-block` one block without a frame. `lz4-hadoop` is Parquet's
compression number 5: blocks that follow two lengths each, as Hadoop writes them, or one block, or a
frame, as other writers understood it. `snappy` is a whole stream without Snappy's framing format,
and `snappy-tags` a part of one (`bushel.kernels.scan_snappy` finds where parts begin).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from cramjam import brotli, bzip2, lz4, snappy, zstd

from .base import Buffer, Expander, Filter

_FRAME = b"\x04\x22\x4d\x18"
_LARGE = 1 << 20  # blocks of at least this size are expanded by pyarrow, if it is imported
_WORTH_IMPORT = 256 << 20
"""After this number of bytes in such blocks, pyarrow is imported, which takes as long as expanding them."""


def _by(decompress_into: Callable[[Any, memoryview], int]) -> Expander:
    return lambda stored, out, side: int(decompress_into(stored, out))


def _lz4_block(stored: Buffer, out: memoryview, side: Buffer | None = None) -> int:
    return int(lz4.decompress_block_into(stored, out, output_len=len(out)))


def _lz4_hadoop(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    view = memoryview(stored).cast("B")
    if (blocks := _hadoop_blocks(view, len(out))) is None:
        if view[:4] == _FRAME:
            return int(lz4.decompress_into(view, out))
        return _lz4_block(view, out)
    start = 0
    for block, size in blocks:
        start += _lz4_block(block, out[start : start + size])
    return start


def _hadoop_blocks(view: memoryview, size: int) -> list[tuple[memoryview, int]] | None:
    """Return blocks and their expanded sizes; None if the lengths before them do not add up to `size`."""
    blocks, at, total = list[tuple[memoryview, int]](), 0, 0
    while at + 8 <= len(view):
        expanded, length = struct.unpack_from(">II", view, at)
        blocks.append((view[at + 8 : at + 8 + length], expanded))
        at, total = at + 8 + length, total + expanded
    return blocks if at == len(view) and total == size else None


def _snappy_tags(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    """Expand tags as a stream, by writing their size before them, in groups of seven bits, the lowest first."""
    size, groups = len(out), bytearray()
    while size >= 0x80:
        groups.append(size & 0x7F | 0x80)
        size >>= 7
    return int(snappy.decompress_raw_into(bytes([*groups, size]) + stored, out))


class _ByPyarrow:
    """Expands large blocks in half the time: cramjam copies each byte more often than pyarrow does."""

    def __init__(self) -> None:
        self._before = 0  # bytes in large blocks; threads that add at the same time may lose some

    def __call__(self, stored: Buffer, size: int) -> npt.NDArray[np.uint8] | None:
        """Return the bytes of a block; None for blocks that are left to cramjam, as pyarrow refuses them."""
        if size < _LARGE:
            return None
        if "pyarrow" not in sys.modules and self._before < _WORTH_IMPORT:
            self._before += size
            if self._before >= _WORTH_IMPORT:
                with suppress(ImportError):
                    import_module("pyarrow")
        pyarrow: Any = sys.modules.get("pyarrow")
        if not hasattr(pyarrow, "Codec"):  # it is not installed, or another thread is importing it
            return None
        try:
            return np.frombuffer(pyarrow.Codec("zstd").decompress(stored, size), np.uint8)
        except (pyarrow.ArrowException, OSError):
            # cramjam says why, in the same words with and without pyarrow
            return None


# the third argument is the largest expansion of one stored byte: a copy of 64 bytes takes three
# bytes of Snappy
FILTERS = {
    filter.name: filter
    for filter in (
        Filter("brotli", _by(brotli.decompress_into)),
        Filter("bzip2", _by(bzip2.decompress_into)),
        Filter("lz4", _by(lz4.decompress_into), 256),
        Filter("lz4-block", _lz4_block, 256),
        Filter("lz4-hadoop", _lz4_hadoop, 256),
        Filter("snappy", _by(snappy.decompress_raw_into), 64),
        Filter("snappy-tags", _snappy_tags, 64),
        Filter("zstd", _by(zstd.decompress_into), whole=_ByPyarrow()),
    )
}
