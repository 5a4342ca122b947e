"""The values of a chunk of Riegeli: compressed data after their size, which headers of blocks of 64 KiB may interrupt.

The side input is the name of the compression, one byte, and the number of bytes before the first
header, as u32. https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md
"""

from __future__ import annotations

import numpy as np

from bushel._runtime.arrays import I64, U8

from . import by_cramjam
from .base import Buffer, Filter

BLOCK, HEADER = 1 << 16, 24
"""Bytes of a block of Riegeli, and of the header at its start."""

SIDE = 5
"""Bytes of a side input."""

KINDS = {ord("z"): "zstd", ord("b"): "brotli", ord("s"): "snappy"}
"""Filters by the bytes that stand for compressions; 0 means no compression."""


def sides_of(kind: U8, offset: I64) -> U8:
    """Return the side inputs of data that begin at these offsets of a file: uint8[n, SIDE]."""
    sides = np.empty((len(kind), SIDE), np.uint8)
    sides[:, 0] = kind
    sides[:, 1:] = (BLOCK - offset % BLOCK).astype("<u4").view(np.uint8).reshape(-1, 4)
    return sides


def read_number(data: Buffer, at: int = 0) -> tuple[int, int]:
    """Return a varint and the position after it. Raise ValueError if it is truncated or has more than 64 bits."""
    view, value = memoryview(data), 0
    for number, byte in enumerate(view[at : at + 10]):
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + number + 1
    raise ValueError("a number is truncated or has more than 64 bits")


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    view, plan = memoryview(stored).cast("B"), memoryview(side or b"")
    if len(plan) != SIDE or plan[0] not in KINDS:
        raise ValueError("the side input does not name a compression and the next header")
    cut = int.from_bytes(plan[1:], "little")
    if cut < len(view):
        parts = [
            view[:cut],
            *(view[at + HEADER : at + BLOCK] for at in range(cut, len(view), BLOCK)),
        ]
        view = memoryview(b"".join(parts))
    size, start = read_number(view)
    if size != len(out):
        raise ValueError(f"it says that it expands to {size} bytes")
    return by_cramjam.FILTERS[KINDS[plan[0]]].expand(view[start:], out, None)


FILTERS = {"riegeli": Filter("riegeli", _expand)}
