"""crc32 against zlib: every variant of the kernel has its own range of lengths."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import crc32, crc32_pieces, join_crc32

DATA = np.random.default_rng(0).bytes(300_000)


def test_every_short_length_at_every_alignment() -> None:
    view = memoryview(DATA)
    for length in range(700):
        for start in (0, 1, 7, 15, 33, 63):
            piece = view[start : start + length]
            assert crc32(piece) == zlib.crc32(piece)


@pytest.mark.parametrize("length", [1023, 4096, 4097, 8192, 65_535, 65_536, 65_537, 299_000])
def test_long_lengths(length: int) -> None:
    for start in range(0, 70, 9):
        piece = DATA[start : start + length]
        assert crc32(piece) == zlib.crc32(piece)


def test_zeros_and_ones() -> None:
    for byte in (b"\0", b"\xff"):
        for length in (1, 63, 64, 255, 256, 257, 5000):
            assert crc32(byte * length) == zlib.crc32(byte * length)


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 2**32 - 1))
def test_continues_from_any_value(cut: int, length: int, value: int) -> None:
    piece = DATA[:length]
    assert crc32(piece, value) == zlib.crc32(piece, value)
    assert crc32(piece[cut:], crc32(piece[:cut], value)) == crc32(piece, value)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_joined_from_two_parts(cut: int, length: int) -> None:
    piece = DATA[:length]
    assert join_crc32(crc32(piece[:cut]), crc32(piece[cut:]), len(piece[cut:])) == crc32(piece)


@given(st.lists(st.sampled_from([0, 1, 60, 1023, 1024, 5000, 70_000]), max_size=5))
def test_pieces(lengths: list[int]) -> None:
    pieces = [memoryview(DATA)[:length] for length in lengths]
    assert crc32_pieces(pieces) == ([zlib.crc32(piece) for piece in pieces], zlib.crc32(b"".join(pieces)))


def test_joined_over_many_bytes() -> None:
    beginning, zeros = crc32(DATA), 0
    for exponent in range(32):  # the checksum of 2**exponent zeros, from the checksums of halves
        zeros = crc32(b"\0") if exponent == 0 else join_crc32(zeros, zeros, 1 << (exponent - 1))
        if exponent < 20:
            assert zeros == zlib.crc32(bytes(1 << exponent))
            assert join_crc32(beginning, zeros, 1 << exponent) == zlib.crc32(bytes(1 << exponent), beginning)
    twice = join_crc32(join_crc32(beginning, zeros, 1 << 31), zeros, 1 << 31)
    assert twice == join_crc32(beginning, join_crc32(zeros, zeros, 1 << 31), 1 << 32)


def test_what_it_takes() -> None:
    assert crc32(b"") == 0
    assert crc32(b"123456789") == 0xCBF43926  # the check value of the polynomial
    assert crc32(bytearray(b"123456789")) == crc32(np.frombuffer(b"123456789", np.uint8)) == 0xCBF43926
    with pytest.raises(TypeError):
        crc32("text")  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        crc32(memoryview(DATA)[::2])
    with pytest.raises(TypeError):
        crc32(b"", -1)
    with pytest.raises(TypeError):
        crc32(b"", 2**32)
