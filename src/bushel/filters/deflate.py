"""Blocks compressed by deflate: a part of a stream from a restart point on, or whole members of gzip or zlib."""

from __future__ import annotations

import zlib
from functools import partial

from .base import Buffer, Filter

try:
    from isal.isal_zlib import decompressobj  # 1.5 to 2.5 times as fast as zlib; the extra `isal`
except ImportError:
    from zlib import decompressobj

# largest expansion of one stored byte: a pair of codes of one bit each stands for 258 bytes
_RATIO = 1032
_WINDOW = 1 << 15

_EMPTY = {0: (0, 0), 1: (97, 0x5FE17F200000000000A1C004), 2: (10, 0x2)}
"""Empty blocks of deflate, their number of bits modulo 8 to (number of bits, bits): one with codes of its own, and
one with the fixed codes. They fill the bits before a restart point, so that any library of deflate
can begin there."""


def deflate_side(bit: int, window: Buffer) -> bytes:
    """Return the side input of a block that begins within a stream of deflate.

    Args:
        bit: Number of bits of the first stored byte that belong to the data before the block, 0 to
            7.
        window: The 32 KiB before the block; fewer if the stream has fewer.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return bytes([bit]) + (
        packer.compress(window) + packer.flush() if memoryview(window).nbytes else b""
    )


def _prefix(bit: int) -> tuple[int, int]:
    """Return empty blocks whose bits are 8n + `bit`: their number, and the bits from the lowest on."""
    count, bits = _EMPTY[bit % 2]
    for _ in range(bit // 2):
        bits |= _EMPTY[2][1] << count
        count += _EMPTY[2][0]
    return count, bits


_PREFIXES = [_prefix(bit) for bit in range(8)]


def _expand_from(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    """Expand from a restart point; no side input stands for the start of a stream."""
    view, side = memoryview(stored).cast("B"), memoryview(side or b"\0").cast("B")
    window = b""
    if len(side) > 1:
        window = decompressobj(-15).decompress(side[1:], _WINDOW)
    stream = decompressobj(-15, zdict=window) if window else decompressobj(-15)
    if bit := side[0]:
        if bit > 7:
            raise ValueError(f"the side input begins with {bit}, not a number of bits from 0 to 7")
        count, bits = _PREFIXES[bit]
        head = bits | view[0] >> bit << count
        stream.decompress(head.to_bytes(count // 8 + 1, "little"))
        view = view[1:]
    if not len(out):  # 0 would be no limit
        return 0
    data = stream.decompress(view, len(out))
    out[: len(data)] = data
    return len(data)


def _expand_member(kind: int, stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    """Expand whole members, one after another."""
    view, written = memoryview(stored).cast("B"), 0
    while len(view):
        stream, room = decompressobj(kind), len(out) - written
        # one byte more than fits: an empty member is read, too
        data = stream.decompress(view, room + 1)
        if len(data) > room:
            raise ValueError("it expands to more bytes")
        out[written : written + len(data)] = data
        written += len(data)
        if not stream.eof:
            raise ValueError("it is truncated")
        view = view[len(view) - len(stream.unused_data) :]
        if not any(view):  # padding, which gzip allows
            break
    return written


FILTERS = {
    "deflate": Filter("deflate", _expand_from, _RATIO),
    "gzip": Filter("gzip", partial(_expand_member, 31), _RATIO),
    "zlib": Filter("zlib", partial(_expand_member, 15), _RATIO),
}
