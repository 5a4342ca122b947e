"""The delta encodings and byte stream split of Parquet."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.filters.parquet_encodings import DELTA, SPLIT, delta_byte_arrays, number_bytes, prefixed_byte_arrays
from bushel.kernels import decode_deltas, join_prefixed


def prefixed(data: bytes, count: int = -1) -> list[bytes]:
    """Return the values of a section of DELTA_BYTE_ARRAY."""
    found = prefixed_byte_arrays(memoryview(data), count)
    out = np.empty(int(found.sizes.sum()), np.uint8)
    assert found.write(out) == len(out)
    ends = np.cumsum(found.sizes)
    return [out[end - size : end].tobytes() for size, end in zip(found.sizes.tolist(), ends.tolist(), strict=True)]


_WORD = st.integers(-(1 << 63), (1 << 63) - 1)
_ALL = (1 << 64) - 1


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _signed(number: int) -> bytes:
    return _varint((number << 1 ^ number >> 63) & _ALL)


def _encoded(numbers: Sequence[int], block: int = 128, packs: int = 4, rest: int = 0) -> bytes:
    """Encode numbers as the specification says; widths of parts without numbers are `rest`."""
    length = block // packs
    data = _varint(block) + _varint(packs) + _varint(len(numbers)) + _signed(numbers[0] if numbers else 0)
    deltas = [
        (after - before + (1 << 63) & _ALL) - (1 << 63) for before, after in zip(numbers, numbers[1:], strict=False)
    ]
    for first in range(0, len(deltas), block):
        own = deltas[first : first + block]
        least = min(own)
        parts = [own[at : at + length] for at in range(0, len(own), length)]
        widths = [max((each - least).bit_length() for each in part) for part in parts]
        data += _signed(least) + bytes(widths) + bytes([rest] * (packs - len(parts)))
        for part, width in zip(parts, widths, strict=True):
            packed = sum(each - least << at * width for at, each in enumerate(part))
            data += packed.to_bytes(length * width // 8, "little")
    return data


@given(st.lists(_WORD | st.integers(-9, 9), max_size=300), st.sampled_from([(128, 4), (256, 1), (32, 4)]))
def test_delta_numbers_come_out(numbers: list[int], sizes: tuple[int, int]) -> None:
    data = _encoded(numbers, *sizes, rest=255)
    found, used = decode_deltas(data + b"more", len(numbers))
    assert (found.tolist(), used) == (numbers, len(data))


def test_numbers_of_32_bits_wrap() -> None:
    numbers = [-(1 << 31), (1 << 31) - 1, 0, -1]
    found = number_bytes(memoryview(_encoded(numbers)), DELTA, 4, 4).view("<i4")
    assert found.tolist() == numbers


def test_split_numbers_come_out() -> None:
    numbers = np.array([1.5, -0.25, 3e30], "<f4")
    data = numbers.view(np.uint8).reshape(3, 4).T.tobytes()
    assert number_bytes(memoryview(data), SPLIT, 3, 4).view("<f4").tolist() == numbers.tolist()
    with pytest.raises(ValueError, match="3 numbers of 8 bytes are announced in 12 bytes"):
        number_bytes(memoryview(data), SPLIT, 3, 8)


def test_byte_arrays_come_out() -> None:
    values = [b"", b"apple", b"applet", b"\xff\0", b"ap"]
    lengths = _encoded([len(each) for each in values])
    offset, length = delta_byte_arrays(memoryview(lengths + b"".join(values)), 5)
    data = lengths + b"".join(values)
    assert [data[at : at + size] for at, size in zip(offset.tolist(), length.tolist(), strict=True)] == values
    prefixes, ends = _encoded([0, 0, 5, 0, 0]), [b"", b"apple", b"t", b"\xff\0", b"ap"]
    data = prefixes + _encoded([len(each) for each in ends]) + b"".join(ends)
    assert prefixed(data, 5) == values
    assert prefixed(data) == values


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "inside a number"),
        (_varint(128) + _varint(0) + _varint(2) + _signed(0), "blocks of 128 with 0 parts"),
        (_varint(1 << 60) + _varint(1) + _varint(2) + _signed(0), "blocks of"),
        (_varint(128) + _varint(4) + _varint(1 << 40) + _signed(0), "delta-encoded numbers are announced"),
        (_varint(128) + _varint(4) + _varint(2) + _signed(0) + _signed(0) + b"\x41\0\0\0", "65 bits"),
        (_varint(128) + _varint(4) + _varint(2) + _signed(0) + _signed(0) + b"\x40\0\0\0", "inside a block"),
        (_varint(128) + _varint(4) + _varint(2) + _signed(0) + _signed(0) + b"\x40", "inside a block"),
    ],
)
def test_damaged_numbers(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_deltas(data)


def test_other_counts_and_lengths_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 delta-encoded numbers are announced, where 2 are expected"):
        decode_deltas(_encoded([1, 2, 3]), 2)
    for lengths in ([-1, 1], [1, 9], [1 << 62, 1 << 62]):
        with pytest.raises(ValueError, match="2 byte arrays are announced"):
            delta_byte_arrays(memoryview(_encoded(lengths) + b"abc"), 2)
    with pytest.raises(ValueError, match="begins with 3 bytes of the one before it, which has 2"):
        prefixed(_encoded([0, 3]) + _encoded([2, 0]) + b"ab")
    for prefix in (-1, -(1 << 63), (1 << 63) - 1):
        with pytest.raises(ValueError, match=f"begins with {prefix} bytes of the one before it, which has 0"):
            prefixed(_encoded([prefix, 0]) + _encoded([2, 0]) + b"ab")


def test_prefixes_are_checked_when_they_are_written() -> None:
    one, two, data = np.array([0, 2]), np.array([2, 1]), b"abc"
    out = np.zeros(5, np.uint8)
    assert (join_prefixed(data, one, two, out), out.tobytes()) == (5, b"ababc")
    for prefix, length, room, message in (
        ([0, 3], [2, 1], 9, "begins with 3 bytes"),
        ([0, -1], [2, 1], 9, "begins with -1 bytes"),
        ([0, 2], [2, 2], 9, "more bytes than there are"),
        ([0, 2], [2, -1], 9, "more bytes than there are"),
        ([0, 2], [2, 1], 4, "than they have room"),
    ):
        with pytest.raises(ValueError, match=message):
            join_prefixed(data, np.array(prefix), np.array(length), np.zeros(room, np.uint8))


def test_changed_bytes_are_errors_or_other_numbers() -> None:
    rng = random.Random(5)
    data = _encoded([rng.randrange(-1000, 1000) for _ in range(300)])
    for _ in range(3000):
        changed = bytearray(data[: rng.randrange(1, len(data) + 1)])
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            found = prefixed(bytes(changed))
        except ValueError:
            continue
        assert sum(map(len, found)) < 1 << 30
