"""Encodings of the values in pages of Parquet that are not the values themselves: delta and byte stream split.

https://parquet.apache.org/docs/file-format/data-pages/encodings/. Counts and sizes are checked before memory is
allocated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bushel._runtime.arrays import I64, U8
from bushel.filters.base import MAX_BLOCK
from bushel.kernels import decode_deltas, join_prefixed

DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT = 5, 6, 7, 9
"""DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT."""
NUMBERS = (0, DELTA, SPLIT)
"""The encodings that `number_bytes` decodes."""


@dataclass(frozen=True, slots=True)
class Prefixed:
    """The byte arrays of a section of DELTA_BYTE_ARRAY."""

    prefix: I64  # int64[n], how many bytes each shares with the beginning of the one before it
    length: I64  # int64[n], bytes of the rest of each
    sizes: I64  # int64[n], bytes of each
    rests: memoryview  # the rests, one after another

    def write(self, out: U8) -> int:
        """Write them one after another, and return how many bytes were written.

        Raises:
            ValueError: There is too little room.
        """
        return join_prefixed(self.rests, self.prefix, self.length, out)


def number_bytes(values: memoryview, encoding: int, count: int, width: int) -> U8:
    """Return the bytes of numbers as PLAIN stores them.

    Args:
        values: The encoded numbers.
        encoding: `DELTA`, `SPLIT`, or 0 for PLAIN.
        count: Number of numbers.
        width: Bytes of each.

    Returns:
        uint8[count * width].

    Raises:
        ValueError: There are fewer numbers, or they are damaged.
    """
    if encoding == DELTA:
        numbers, _ = decode_deltas(values, count)
        return numbers.astype(f"<i{width}").view(np.uint8)
    if count * width > len(values):
        raise ValueError(f"{count} numbers of {width} bytes are announced in {len(values)} bytes")
    plain = np.frombuffer(values[: count * width], np.uint8)
    if encoding == SPLIT:
        return np.ascontiguousarray(plain.reshape(width, count).T).reshape(-1)
    return plain


def delta_byte_arrays(values: memoryview, count: int) -> tuple[I64, I64]:
    """Return offset and length of the byte arrays of a section of DELTA_LENGTH_BYTE_ARRAY.

    Raises:
        ValueError: They are damaged, or end before the last one does.
    """
    lengths, at = decode_deltas(values, count)
    ends = np.cumsum(lengths)
    if count and (int(lengths.min()) < 0 or int(lengths.max()) > len(values) or int(ends[-1]) > len(values) - at):
        raise ValueError(f"{count} byte arrays are announced in {len(values)} bytes, and take more")
    return ends - lengths + at, lengths


def prefixed_byte_arrays(values: memoryview, count: int = -1) -> Prefixed:
    """Find the byte arrays of a section of DELTA_BYTE_ARRAY: `count` of them, or as many as there are.

    Raises:
        ValueError: They are damaged, or take more than a block may have.
    """
    prefix, at = decode_deltas(values, count)
    rest = values[at:]
    offset, length = delta_byte_arrays(rest, len(prefix))
    sizes = prefix + length
    before = np.zeros_like(sizes)
    before[1:] = sizes[:-1]
    if len(wrong := np.flatnonzero((prefix < 0) | (prefix > before))):
        shared, most = int(prefix[wrong[0]]), int(before[wrong[0]])
        raise ValueError(f"a byte array begins with {shared} bytes of the one before it, which has {most}")
    if int(sizes.sum()) > MAX_BLOCK:
        raise ValueError(f"byte arrays take more than {MAX_BLOCK} bytes")
    return Prefixed(prefix, length, sizes, rest[int(offset[0]) :] if len(offset) else rest)
