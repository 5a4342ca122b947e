"""Headers of AV1: frames that replace no saved frame are found, and whatever is unclear counts as needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.coded_clips import FRAMES, clip

from bushel.codecs.av1_headers import needed_by_others
from bushel.codecs.clip_parts import ClipPackets, clip_config, new_decoder
from bushel.codecs.clip_scan import scan_clip
from bushel.codecs.video import decode_last

NAMES = ("av1", "av1 in one direction")
# profile 0, no timing, one operating point at level 8 with a tier, 16 x 16 bits of size, 7 bits of order hints
SEQUENCE = "000 0 0 0 0 00000 000000000000 01000 1 1111 1111" + "0" * 32 + "0 000 0000 1 00 1 1 110 0000"
INTER = "0 01 1 0 0 0 0 0000000 111"  # shown, not resilient, without screen content tools


def unit(kind: int, bits: str, flags: int = 2) -> bytes:
    """Return a unit with its size, padded with zeros."""
    digits = bits.replace(" ", "")
    length = -(-len(digits) // 8)
    data = int("0" + digits.ljust(8 * length, "0"), 2).to_bytes(length, "big")
    return bytes([kind << 3 | flags, len(data)]) + data


KEY = unit(2, "") + unit(1, SEQUENCE) + unit(6, "0 00 1")


def read(name: str) -> tuple[ClipPackets, list[bytes]]:
    codec, data = clip(name)
    packets = scan_clip(codec.name, data)
    assert packets is not None
    extents = zip(packets.offsets.tolist(), packets.lengths.tolist(), strict=True)
    return packets, [data[offset : offset + length] for offset, length in extents]


@pytest.mark.parametrize("name", NAMES)
def test_some_frames_of_an_encoder_are_not_needed(name: str) -> None:
    packets, stored = read(name)
    needed = needed_by_others(stored)
    assert 0.1 < needed.count(False) / FRAMES < 0.7
    assert all(own for own, flags in zip(needed, packets.flags.tolist(), strict=True) if flags & 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_last_frame_of_some_packets(name: str) -> None:
    av = pytest.importorskip("av")
    codec, data = clip(name)
    whole = codec.decode(data)
    packets, stored = read(name)
    config = clip_config(packets.config)
    assert config is not None
    times = packets.times.tolist()
    for last in range(20):
        found = decode_last("frame", new_decoder(av, config), stored[: last + 1], times[: last + 1])
        assert found is not None
        assert (found == whole[sorted(times).index(times[last])]).all()


@pytest.mark.parametrize(
    ("packet", "needed"),
    [
        (unit(2, "") + unit(6, INTER + "0" * 8), False),
        (unit(3, INTER + "0" * 8) + unit(4, "1"), False),
        (unit(6, INTER + "00000001"), True),
        (unit(6, INTER + "0" * 8) + unit(6, INTER + "1" * 8), True),
        (unit(6, "1" + "0" * 30), True),  # a saved frame is shown
        (unit(6, "0 00 1" + "0" * 30), True),  # a keyframe
        (unit(6, "0 01 0" + "0" * 30), True),  # not shown
        (unit(6, "0 01 1 1 0 0 0 0000000" + "0" * 8), False),  # resilient: without the frame that it starts with
        (unit(6, "0 01 1 0 0 1 0 0 0000000 111" + "0" * 8), False),  # with tools, and its own choice of vectors
        (unit(1, SEQUENCE) + unit(6, INTER + "0" * 8), True),
        (unit(2, ""), True),
        (b"", True),
        (unit(6, INTER + "0" * 8, flags=6), True),  # of a layer
        (b"\x32\xff\xff\xff\xff\xff\xff", True),
        (b"\x32\x7f\x00", True),  # it ends too early
    ],
)
def test_one_packet(packet: bytes, needed: bool) -> None:
    assert needed_by_others([KEY, packet]) == [True, needed]


@pytest.mark.parametrize(
    "first",
    [
        unit(6, "0 00 1"),
        unit(1, SEQUENCE) * 2,
        unit(1, "000 1 1" + "0" * 90),  # a still picture
        unit(1, "000 0 0 1" + "0" * 90),  # timing
        unit(1, SEQUENCE.replace("0" * 32 + "0 ", "0" * 32 + "1 ")),  # numbers of frames
    ],
)
def test_without_a_sequence_header_that_is_understood_all_are_needed(first: bytes) -> None:
    assert needed_by_others([first, unit(6, INTER + "0" * 8)]) == [True, True]


def test_no_packets() -> None:
    assert needed_by_others([]) == []


@given(st.lists(st.binary(max_size=90), max_size=4), st.booleans())
def test_any_bytes(packets: list[bytes], real: bool) -> None:
    found = needed_by_others([KEY, *packets] if real else packets)
    assert len(found) == len(packets) + real
    assert all(found[:1])
