"""The delta encodings and byte stream split of Parquet."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.tfrecords import varint
from tests.filters.parquet_deltas import encoded, signed

from bushel.filters.parquet import DELTA, SPLIT, delta_byte_arrays, number_bytes, prefixed_byte_arrays
from bushel.kernels import decode_deltas, join_prefixed


def read_prefixed(data: bytes, count: int = -1) -> list[bytes]:
    """Return the values of a section of DELTA_BYTE_ARRAY."""
    found = prefixed_byte_arrays(memoryview(data), count)
    out = np.empty(int(found.sizes.sum()), np.uint8)
    assert found.write(out) == len(out)
    ends = np.cumsum(found.sizes)
    return [out[end - size : end].tobytes() for size, end in zip(found.sizes.tolist(), ends.tolist(), strict=True)]


_WORD = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(_WORD | st.integers(-9, 9), max_size=300), st.sampled_from([(128, 4), (256, 1), (32, 4)]))
def test_delta_numbers_come_out(numbers: list[int], sizes: tuple[int, int]) -> None:
    data = encoded(numbers, *sizes, rest=255)
    found, used = decode_deltas(data + b"more", len(numbers))
    assert (found.tolist(), used) == (numbers, len(data))


def test_numbers_of_32_bits_wrap() -> None:
    numbers = [-(1 << 31), (1 << 31) - 1, 0, -1]
    found = number_bytes(memoryview(encoded(numbers)), DELTA, 4, 4).view("<i4")
    assert found.tolist() == numbers


def test_split_numbers_come_out() -> None:
    numbers = np.array([1.5, -0.25, 3e30], "<f4")
    data = numbers.view(np.uint8).reshape(3, 4).T.tobytes()
    assert number_bytes(memoryview(data), SPLIT, 3, 4).view("<f4").tolist() == numbers.tolist()
    with pytest.raises(ValueError, match="3 numbers of 8 bytes are announced in 12 bytes"):
        number_bytes(memoryview(data), SPLIT, 3, 8)


def test_byte_arrays_come_out() -> None:
    values = [b"", b"apple", b"applet", b"\xff\0", b"ap"]
    lengths = encoded([len(each) for each in values])
    offset, length = delta_byte_arrays(memoryview(lengths + b"".join(values)), 5)
    data = lengths + b"".join(values)
    assert [data[at : at + size] for at, size in zip(offset.tolist(), length.tolist(), strict=True)] == values
    prefixes, ends = encoded([0, 0, 5, 0, 0]), [b"", b"apple", b"t", b"\xff\0", b"ap"]
    data = prefixes + encoded([len(each) for each in ends]) + b"".join(ends)
    assert read_prefixed(data, 5) == values
    assert read_prefixed(data) == values


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "inside a number"),
        (varint(128) + varint(0) + varint(2) + signed(0), "blocks of 128 with 0 parts"),
        (varint(1 << 60) + varint(1) + varint(2) + signed(0), "blocks of"),
        (varint(128) + varint(4) + varint(1 << 40) + signed(0), "delta-encoded numbers are announced"),
        (varint(128) + varint(4) + varint(2) + signed(0) + signed(0) + b"\x41\0\0\0", "65 bits"),
        (varint(128) + varint(4) + varint(2) + signed(0) + signed(0) + b"\x40\0\0\0", "inside a block"),
        (varint(128) + varint(4) + varint(2) + signed(0) + signed(0) + b"\x40", "inside a block"),
    ],
)
def test_damaged_numbers(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_deltas(data)


def test_other_counts_and_lengths_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 delta-encoded numbers are announced, where 2 are expected"):
        decode_deltas(encoded([1, 2, 3]), 2)
    for lengths in ([-1, 1], [1, 9], [1 << 62, 1 << 62]):
        with pytest.raises(ValueError, match="2 byte arrays are announced"):
            delta_byte_arrays(memoryview(encoded(lengths) + b"abc"), 2)
    with pytest.raises(ValueError, match="begins with 3 bytes of the one before it, which has 2"):
        read_prefixed(encoded([0, 3]) + encoded([2, 0]) + b"ab")
    for prefix in (-1, -(1 << 63), (1 << 63) - 1):
        with pytest.raises(ValueError, match=f"begins with {prefix} bytes of the one before it, which has 0"):
            read_prefixed(encoded([prefix, 0]) + encoded([2, 0]) + b"ab")


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
    data = encoded([rng.randrange(-1000, 1000) for _ in range(300)])
    for _ in range(3000):
        changed = bytearray(data[: rng.randrange(1, len(data) + 1)])
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            found = read_prefixed(bytes(changed))
        except ValueError:
            continue
        assert sum(map(len, found)) < 1 << 30
