"""Inflater against zlib: expanded bytes, restart points, and damage."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel.filters import expand
from bushel.filters.deflate import deflate_side
from bushel.kernels import Inflater

STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]


def text(size: int, seed: int) -> bytes:
    generator = random.Random(seed)
    words = [generator.randbytes(generator.randrange(1, 12)) for _ in range(generator.choice([2, 50, 3000]))]
    out = bytearray()
    while len(out) < size:
        out += generator.choice(words) if generator.random() < 0.99 else generator.randbytes(generator.randrange(3000))
    return bytes(out[:size])


def deflated(data: bytes, level: int, strategy: int, flushes: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    step = max(1, len(data) // (flushes + 1))
    modes = [zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH]
    parts = [
        packer.compress(data[at : at + step]) + (packer.flush(modes[at // step % 3]) if flushes else b"")
        for at in range(0, len(data), step)
    ]
    return b"".join(parts) + packer.flush()


def inflated(stream: bytes, spacing: int = 1 << 20, chunk: int = 1 << 16) -> tuple[bytes, bytes, list[tuple[int, int]]]:
    """Return the expanded bytes, the unused rest, and the restart points."""
    inflater, data, at, out = Inflater(spacing), b"", 0, bytearray()
    points = []
    while not inflater.done:
        last = at >= len(stream)
        used, expanded = inflater.feed(data, last)
        data, moved = data[used:], used or expanded
        out += expanded
        points += inflater.points
        if not moved and not last:
            data += stream[at : at + chunk]
            at += chunk
    return bytes(out), data + stream[at:], points


@given(
    st.integers(0, 400_000),
    st.integers(0, 10**6),
    st.integers(0, 9),
    st.sampled_from(STRATEGIES),
    st.integers(0, 5),
    st.sampled_from([1, 7, 400, 1 << 16, 1 << 20]),
    st.binary(max_size=9),
)
@settings(deadline=None)
def test_the_same_as_zlib(
    size: int, seed: int, level: int, strategy: int, flushes: int, chunk: int, rest: bytes
) -> None:
    data = text(size, seed)
    stream = deflated(data, level, strategy, flushes)
    expanded, unused, points = inflated(stream + rest, 5000, chunk if size < 20_000 else max(chunk, 400))
    assert (expanded, unused) == (data, rest)
    bounds = [(0, 0), *points, (8 * len(stream), len(data))]
    for (bit, start), (end_bit, end) in zip(bounds, bounds[1:], strict=False):
        assert end - start >= 5000 or end == len(data)
        side = deflate_side(bit % 8, data[max(0, start - 32768) : start])
        stored = stream[bit // 8 : -(-end_bit // 8)]
        assert expand("deflate", stored, end - start, side).tobytes() == data[start:end]


@given(st.integers(1, 3000), st.integers(0, 10**6), st.integers(0, 10**9), st.sampled_from([0, 1, 6]), st.booleans())
@settings(deadline=None)
def test_damage_is_seen_or_gives_what_zlib_gives(size: int, seed: int, place: int, level: int, cut: bool) -> None:
    stream = bytearray(deflated(text(size, seed), level, STRATEGIES[seed % 5], 0))
    if cut:
        del stream[place % len(stream) :]
    else:
        stream[place % len(stream)] ^= 1 << place % 8
    check = zlib.decompressobj(-15)
    try:
        expected = check.decompress(bytes(stream), 1 << 24)
    except zlib.error:
        expected = None
    if expected is None or not check.eof:
        with pytest.raises(ValueError, match=r"^(the|there|a|no) "):
            inflated(bytes(stream))
    else:
        assert inflated(bytes(stream))[:2] == (expected, check.unused_data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    try:
        expanded, unused, _ = inflated(data)
    except ValueError:
        check = zlib.decompressobj(-15)
        try:
            check.decompress(data, 1 << 24)
        except zlib.error:
            return
        assert not check.eof
    else:
        check = zlib.decompressobj(-15)
        assert (check.decompress(data), check.unused_data) == (expanded, unused)


def test_bytes_that_expand_a_thousandfold_come_in_parts() -> None:
    data = bytes(50_000_000)
    inflater, stream = Inflater(1 << 20), zlib.compress(data, 9)[2:-4]
    size, points = 0, []
    while not inflater.done:
        used, expanded = inflater.feed(stream, last=True)
        stream = stream[used:]
        assert len(expanded) <= (256 << 10) + 258
        size += len(expanded)
        points += inflater.points
    assert size == len(data)
    assert np.diff([position for _, position in points]).min() >= 1 << 20


def test_a_spacing_of_nothing() -> None:
    with pytest.raises(ValueError, match="spacing"):
        Inflater(0)
