"""scan_snappy: the parts of streams expand on their own, and damage is seen."""

from __future__ import annotations

import random

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel.filters import FilterError, expand
from bushel.kernels import scan_snappy


def literal(data: bytes) -> bytes:
    if len(data) <= 60:
        return bytes([(len(data) - 1) << 2]) + data
    return bytes([62 << 2]) + (len(data) - 1).to_bytes(3, "little") + data


def copy(size: int, distance: int) -> bytes:
    return bytes([(size - 1) << 2 | 3]) + distance.to_bytes(4, "little")


def stream(size: int, *tags: bytes) -> bytes:
    head = bytearray()
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + b"".join(tags)


def joined(data: bytes, spacing: int = 65536) -> bytes:
    """Expand every part alone."""
    start, offset, length, is_literal = (column.tolist() for column in scan_snappy(data, spacing))
    out = b""
    for number, (first, size) in enumerate(zip(offset, length, strict=True)):
        name = "stored" if is_literal[number] else "snappy-tags"
        out += expand(name, data[first : first + size], start[number + 1] - start[number]).tobytes()
    return out


def content(size: int, seed: int) -> bytes:
    generator = random.Random(seed)
    out = bytearray()
    while len(out) < size:
        out += generator.randbytes(generator.randrange(1, 90_000)) if generator.random() < 0.3 else b"bushel" * 3000
    return bytes(out[:size])


@given(st.integers(0, 500_000), st.integers(0, 10**6), st.sampled_from([1, 100, 4096, 65536, 100_000]))
@settings(deadline=None)
def test_parts_expand_alone(size: int, seed: int, spacing: int) -> None:
    data = content(size, seed)
    packed = bytes(cramjam.snappy.compress_raw(data))
    assert joined(packed, spacing) == data
    start, *_ = scan_snappy(packed, spacing)
    assert (start[1:-1] % spacing == 0).all()


def test_photos_become_stored_parts() -> None:
    data = np.random.default_rng(0).bytes(1 << 20)
    start, offset, length, is_literal = scan_snappy(bytes(cramjam.snappy.compress_raw(data)), 65536)
    assert (np.diff(start) == 65536).all()
    assert is_literal.all()
    assert (length == 65536).all()
    assert (np.diff(offset) > 65536).all()


def test_copies_and_literals_that_reach_across() -> None:
    tags = [literal(b"a" * 90), copy(10, 1), literal(b"b" * 100), copy(50, 150), literal(b"c" * 50)]
    packed = stream(300, *tags)
    assert joined(packed, 100) == b"a" * 100 + b"b" * 100 + b"a" * 50 + b"c" * 50
    assert scan_snappy(packed, 100)[0].tolist() == [0, 300]  # the copy of 50 reaches across both borders
    packed = stream(300, *tags[:3], copy(50, 50), tags[4])
    assert scan_snappy(packed, 100)[0].tolist() == [0, 100, 300]
    packed = stream(300, literal(b"x" * 250), literal(b"y" * 50))
    assert [column.tolist() for column in scan_snappy(packed, 100)] == [[0, 300], [2], [len(packed) - 2], [0]]
    assert joined(packed, 100) == b"x" * 250 + b"y" * 50
    assert [column.tolist() for column in scan_snappy(stream(0), 100)] == [[0], [], [], []]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "the size is not a number"),
        (b"\xff" * 6, "the size is not a number"),
        (b"\xff\xff\xff\xff\x7f", "the size is not a number"),
        (stream(5), "fewer bytes"),
        (stream(5, literal(b"abc")), "fewer bytes"),
        (stream(2, literal(b"abc")), "more bytes"),
        (stream(5, literal(b"abcde")[:-1]), "truncated"),
        (stream(500, literal(bytes(500))[:2]), "truncated"),
        (stream(5, literal(b"a"), copy(4, 2)), "before the start"),
        (stream(5, literal(b"a"), copy(4, 0)), "no distance"),
        (stream(5, literal(b"a"), b"\x01\x00"), "no distance"),
        (stream(5, literal(b"a"), b"\x02"), "truncated"),
    ],
)
def test_damage_is_named(data: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        scan_snappy(data, 65536)


@given(st.integers(0, 5), st.integers(0, 10**6), st.integers(-1, 255))
@settings(deadline=None)
def test_damage_is_seen_or_gives_what_snappy_gives(seed: int, place: int, change: int) -> None:
    broken = bytearray(cramjam.snappy.compress_raw(content(3000, seed)))
    at = place % len(broken)
    broken[at : at + 1] = b"" if change < 0 else bytes([change])
    try:
        found = joined(bytes(broken), 100)
    except (ValueError, FilterError):
        with pytest.raises(cramjam.DecompressionError):
            cramjam.snappy.decompress_raw(bytes(broken))
    else:
        assert found == bytes(cramjam.snappy.decompress_raw(bytes(broken)))


@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    try:
        joined(data, 10)
    except (ValueError, FilterError) as error:
        assert str(error)  # noqa: PT017 - some bytes are a stream
