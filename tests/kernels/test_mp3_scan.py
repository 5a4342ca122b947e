"""The scan of the frames of an MP3 file, against a reference in Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import mp3_frames

BIT_RATES = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def size_of(header: bytes) -> int:
    """Return the bytes of a frame; 0 for an invalid header."""
    version, layer, bit_rate, rate = header[1] >> 3 & 3, header[1] >> 1 & 3, header[2] >> 4, header[2] >> 2 & 3
    if header[0] != 255 or header[1] < 224 or version == 1 or layer != 1 or bit_rate in (0, 15) or rate == 3:
        return 0
    bits = BIT_RATES[version == 3][bit_rate] * 1000 * (144 if version == 3 else 72)
    return bits // RATES[version][rate] + (header[2] >> 1 & 1)


def offsets_of(data: bytes, start: int) -> list[int]:
    """Return the offsets of all frames and the end of the last one."""
    found, at, first = [], start, data[start : start + 4]
    while at + 4 <= len(data):
        own = data[at : at + 4]
        size = size_of(own)
        other = (own[1] ^ first[1]) & 0x18 or (own[2] ^ first[2]) & 0x0C or (own[3] >> 6 == 3) != (first[3] >> 6 == 3)
        if not size or at + size > len(data) or other:
            break
        found.append(at)
        at += size
    return [*found, at]


def header(version: int, bit_rate: int, rate: int, padding: int, mode: int, protected: int) -> bytes:
    return bytes(
        [255, 0xE0 | version << 3 | 1 << 1 | (1 - protected), bit_rate << 4 | rate << 2 | padding << 1, mode << 6]
    )


HEADERS = st.builds(
    header,
    st.sampled_from([0, 2, 3]),
    st.integers(1, 14),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(0, 3),
    st.integers(0, 1),
)


def file(head: bytes, frames: list[tuple[int, int]]) -> bytes:
    """Return frames of one stream with other bit rates and paddings."""
    own = [bytes([*head[:2], head[2] & 0x0C | rate << 4 | padding << 1, head[3]]) for rate, padding in frames]
    return b"".join(each.ljust(size_of(each), b"\x55") for each in own)


FRAMES = st.lists(st.tuples(st.integers(1, 14), st.integers(0, 1)), min_size=1, max_size=30)


@given(HEADERS, FRAMES, st.binary(max_size=9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 3000))
def test_frames_are_those_of_the_reference(
    head: bytes, frames: list[tuple[int, int]], after: bytes, first: int, step: int, cut: int
) -> None:
    data = b"\0" * 7 + file(head, frames) + after
    data = data[: max(7, len(data) - cut)] if cut > 1500 else data
    expected = offsets_of(data, 7)
    offsets, count = mp3_frames(data, 7, first, step)
    assert count == len(expected) - 1
    wanted = [
        at for number, at in enumerate(expected[:-1]) if not number or (number - first) % step == 0 <= number - first
    ]
    assert offsets.tolist() == [*wanted, expected[-1]]


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes(data: bytes, start: int) -> None:
    if start > len(data):
        with pytest.raises(ValueError, match="start"):
            mp3_frames(data, start, 1, 1)
        return
    offsets, count = mp3_frames(data, start, 1, 1)
    assert offsets.tolist() == offsets_of(data, start)
    assert count == len(offsets) - 1


def test_another_stream_ends_the_scan() -> None:
    stereo, mono = header(3, 9, 0, 0, 1, 0), header(3, 9, 0, 0, 3, 0)
    own = file(stereo, [(9, 0)] * 3)
    for other in (mono, header(2, 9, 0, 0, 1, 0), header(3, 9, 1, 0, 1, 0)):
        assert mp3_frames(own + file(other, [(9, 0)]), 0, 1, 1)[1] == 3
    assert mp3_frames(own + file(header(3, 9, 0, 0, 0, 1), [(9, 0)]), 0, 1, 1)[1] == 4  # joint stereo, a checksum


@pytest.mark.parametrize(("start", "first", "step"), [(-1, 1, 1), (3, 1, 1), (0, 0, 1), (0, 1, 0)])
def test_wrong_numbers(start: int, first: int, step: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        mp3_frames(b"ab", start, first, step)
