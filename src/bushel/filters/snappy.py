"""Blocks compressed by Snappy, without its framing format.

`snappy` is a whole stream, `snappy-tags` a part of one (`bushel.kernels.scan_snappy` finds where
parts begin).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cramjam import snappy

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer

_RATIO = 64  # largest expansion of one stored byte: a copy of 64 bytes takes three bytes


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(snappy.decompress_raw_into(stored, out))


def _expand_tags(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    """Expand tags as a stream, by writing their size before them."""
    return int(snappy.decompress_raw_into(_number(len(out)) + stored, out))


def _number(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


FILTERS = {
    "snappy": Filter("snappy", _expand, _RATIO),
    "snappy-tags": Filter("snappy-tags", _expand_tags, _RATIO),
}
