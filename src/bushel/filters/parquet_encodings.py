"""Encodings of the values in pages of Parquet that are not the values themselves: delta and byte stream split.

https://parquet.apache.org/docs/file-format/data-pages/encodings/. Counts and sizes are checked before memory is
allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bushel._runtime.arrays import I64, U8, U64
from bushel.filters.base import MAX_BLOCK

if TYPE_CHECKING:
    import numpy.typing as npt

DELTA, DELTA_LENGTHS, DELTA_PREFIXES, SPLIT = 5, 6, 7, 9
"""DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT."""
NUMBERS = (0, DELTA, SPLIT)
"""The encodings that `number_bytes` decodes."""

_ALL = (1 << 64) - 1
_MOST = 1 << 24  # numbers of a section
_STEP = 1 << 16  # numbers that are unpacked at a time
_LONGEST = 1 << 16  # numbers that are packed with the same width; writers have 32


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
        numbers, _ = delta_numbers(values, count)
        return numbers.astype(f"<i{width}").view(np.uint8)
    if count * width > len(values):
        raise ValueError(f"{count} numbers of {width} bytes are announced in {len(values)} bytes")
    plain = np.frombuffer(values[: count * width], np.uint8)
    return np.ascontiguousarray(plain.reshape(width, count).T).reshape(-1) if encoding == SPLIT else plain


def delta_numbers(values: memoryview, count: int | None = None) -> tuple[I64, int]:
    """Decode numbers of DELTA_BINARY_PACKED, and return them and the number of bytes that they take.

    Args:
        values: The encoded numbers, which other bytes may follow.
        count: How many there must be, or None for as many as the bytes announce.

    Raises:
        ValueError: They are fewer or more, or damaged.
    """
    size, at = varint(values, 0)
    packs, at = varint(values, at)
    total, at = varint(values, at)
    first, at = _signed(values, at)
    if total > _MOST or total != (total if count is None else count):
        raise ValueError(f"{total} delta-encoded numbers are announced, where {count} are expected")
    length = size // packs if packs else 0
    if not length or size % packs or length % 8 or length > _LONGEST:
        raise ValueError(f"delta-encoded numbers are in blocks of {size} with {packs} parts")
    starts, widths, leasts = list[int](), list[int](), list[int]()
    while len(starts) * length < total - 1:
        least, at = _signed(values, at)
        own = values[at : at + packs]
        at += packs
        for width in own[: -(-(total - 1) // length) - len(starts)]:  # the others have no numbers
            if width > 64:
                raise ValueError(f"delta-encoded numbers of {width} bits are announced")
            starts.append(at)
            widths.append(width)
            leasts.append(least)
            at += length * width // 8
        if len(own) < packs or at > len(values):
            raise ValueError("delta-encoded numbers end inside a block")
    numbers = np.empty(total, np.uint64)
    if total:
        numbers[0] = first & _ALL
        start, size_of, least_of = (np.array(each, np.int64) for each in (starts, widths, leasts))
        _unpack(values, numbers[1:], length, start, size_of, least_of.view(np.uint64))
    return np.cumsum(numbers, dtype=np.uint64).view(np.int64), at


def _unpack(values: memoryview, out: U64, length: int, start: I64, width: I64, least: U64) -> None:
    """Write the differences that lie packed from bytes `start` on, `length` in each part with a width of its own."""
    data = np.zeros(len(values) + 16, np.uint8)
    data[: len(values)] = values
    words: npt.NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))  # one from each byte on
    largest = (np.uint64(1) << np.minimum(width, 63).astype(np.uint64)) - np.uint64(1)
    mask = np.where(width == 64, np.uint64(_ALL), largest)
    for first in range(0, len(start), step := max(_STEP // length, 1)):
        part = slice(first, first + step)
        bit = width[part, None] * np.arange(length)
        place, shift = start[part, None] + (bit >> 3), (bit & 7).astype(np.uint64)
        high = words[place + 8] << np.uint64(1) << (np.uint64(63) - shift)
        unpacked = ((words[place] >> shift | high) & mask[part, None]) + least[part, None]
        target = out[first * length : (first + step) * length]
        target[:] = unpacked.reshape(-1)[: len(target)]


def delta_byte_arrays(values: memoryview, count: int) -> tuple[I64, I64]:
    """Return offset and length of the byte arrays of a section of DELTA_LENGTH_BYTE_ARRAY.

    Raises:
        ValueError: They are damaged, or end before the last one does.
    """
    lengths, at = delta_numbers(values, count)
    ends = np.cumsum(lengths)
    if count and (int(lengths.min()) < 0 or int(lengths.max()) > len(values) or int(ends[-1]) > len(values) - at):
        raise ValueError(f"{count} byte arrays are announced in {len(values)} bytes, and take more")
    return ends - lengths + at, lengths


def prefixed_byte_arrays(values: memoryview, count: int | None = None) -> list[bytes]:
    """Return the byte arrays of a section of DELTA_BYTE_ARRAY.

    Raises:
        ValueError: They are damaged, or take more than a block may have.
    """
    prefixes, at = delta_numbers(values, count)
    rest = values[at:]
    found: list[bytes] = []
    value, size = b"", 0
    offsets, lengths = delta_byte_arrays(rest, len(prefixes))
    for prefix, offset, length in zip(prefixes.tolist(), offsets.tolist(), lengths.tolist(), strict=True):
        if not 0 <= prefix <= len(value):
            raise ValueError(f"a byte array begins with {prefix} bytes of the one before it, which has {len(value)}")
        value = value[:prefix] + bytes(rest[offset : offset + length])
        size += len(value)
        if size > MAX_BLOCK:
            raise ValueError(f"byte arrays take more than {MAX_BLOCK} bytes")
        found.append(value)
    return found


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte at a position, and the position after it.

    Raises:
        ValueError: The bytes end inside the number.
    """
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("levels, indices or numbers end inside a number")


def _signed(data: memoryview, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    value = (value & _ALL) >> 1 ^ -(value & 1)
    return value, at
