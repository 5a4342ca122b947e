"""Headers of AV1: frames that no wanted frame depends on are found, and whatever is unclear counts as needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.coded_clips import FRAMES, clip

from bushel.codecs.av1_headers import needed_parts
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


def refers(used: int, replaced: int = 0) -> str:
    """Return the end of a header: the saved frames that are replaced, and the only one that is used."""
    return f"{sum(1 << each for each in [replaced] if each):08b} 0" + f"{used:03b}" * 7


def inter(used: int, replaced: int = 0, shown: bool = True) -> bytes:
    """Return a frame that is predicted from one saved frame, and replaces one of the saved frames 1 to 7, or none."""
    return unit(6, (INTER if shown else "0 01 0 1 0 0 0 0 0000000 111") + refers(used, replaced))


def needed(packets: list[bytes], *wanted: int) -> list[bool]:
    parts = needed_parts(packets, [number in wanted for number in range(len(packets))])
    return [part is not None for part in parts]


def read(name: str) -> tuple[ClipPackets, list[bytes]]:
    codec, data = clip(name)
    packets = scan_clip(codec.name, data)
    assert packets is not None
    extents = zip(packets.offsets.tolist(), packets.lengths.tolist(), strict=True)
    return packets, [data[offset : offset + length] for offset, length in extents]


@pytest.mark.parametrize("name", NAMES)
def test_some_frames_of_an_encoder_are_not_needed(name: str) -> None:
    _, stored = read(name)
    found = needed(stored, 20)
    assert found[0]
    assert found[20]
    assert not any(found[21:])
    assert found[:21].count(False) > (3 if name == "av1" else 0)
    assert all(needed(stored, *range(len(stored))))


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_those_of_the_whole(name: str) -> None:
    codec, data = clip(name)
    assert codec.ranged is not None
    whole = codec.decode(data)
    for first in range(0, FRAMES - 3, 3):
        np.testing.assert_array_equal(codec.ranged.decode(data, slice(first, first + 3)), whole[first : first + 3])
    far = np.array([FRAMES - 1, 2, FRAMES // 2])
    np.testing.assert_array_equal(codec.ranged.decode(data, far), whole[far])


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


def test_frames_of_a_chain_are_needed() -> None:
    packets = [KEY, inter(0, 1), inter(1, 2), inter(0, 4), inter(4), inter(2)]
    assert needed(packets, 5) == [True, True, True, False, False, True]
    assert needed(packets, 4) == [True, False, False, True, True, False]
    assert needed(packets, 3, 1) == [True, True, False, True, False, False]
    assert needed(packets) == [True, False, False, False, False, False]


def test_a_saved_frame_that_is_replaced_is_not_needed() -> None:
    assert needed([KEY, inter(0, 1), inter(0, 1), inter(1)], 3) == [True, False, True, True]
    assert needed([KEY, inter(0, 1), inter(1, 1), inter(1)], 3) == [True, True, True, True]


def test_frames_of_one_packet_are_chosen() -> None:
    hidden, other, shown = inter(0, 1, shown=False), inter(1, 2, shown=False), inter(2)
    packets = [KEY, unit(2, "") + hidden + other + shown, inter(1), unit(6, "1 010" + "0" * 8)]
    assert needed_parts(packets, [False, False, True, False])[1] == unit(2, "") + hidden
    assert needed_parts(packets, [False, True, False, False])[1] is packets[1]
    assert needed_parts(packets, [False, False, False, True])[1] == unit(2, "") + hidden + other  # which is shown later


def test_tiles_belong_to_the_frame_before_them() -> None:
    hidden, shown = inter(0, 1, shown=False), inter(0)
    header = bytes([3 << 3 | 2]) + hidden[1:]
    packets = [KEY, header + unit(4, "1") + shown, inter(1)]
    assert needed_parts(packets, [False, False, True])[1] == header + unit(4, "1")


@pytest.mark.parametrize(
    "header",
    [
        INTER + refers(1),
        "0 01 1 1 0 0 0 0000000" + "0" * 8 + "0" * 56 + "0" + "001" * 7,  # resilient: with the order of saved frames
        "0 01 1 0 0 1 0 0 0000000 111" + refers(1),  # with tools, and its own choice of vectors
        INTER + "0" * 8 + "1" + "000" * 2,  # the references follow from the order of the saved frames
        "1 001" + "0" * 8,  # a saved frame is shown
    ],
)
def test_one_header(header: str) -> None:
    assert needed([KEY, inter(0, 1), unit(6, header)], 2) == [True, True, True]
    if "1 001" not in header[:5]:
        assert needed([KEY, inter(0, 1), unit(6, header), inter(0)], 3) == [True, False, False, True]


@pytest.mark.parametrize(
    "packet",
    [
        unit(6, "0 11 1" + "0" * 30),  # a frame that switches between streams
        unit(6, "1 000" + "0" * 8),  # a saved keyframe is shown: it replaces all saved frames
        unit(1, SEQUENCE.replace("1111 1111", "1111 1110")) + inter(0),
        unit(2, ""),
        b"",
        unit(6, INTER + refers(0), flags=6),  # of a layer
        unit(7, INTER) + inter(0),  # a repeated header
        b"\x32\xff\xff\xff\xff\xff\xff",
        b"\x32\x7f\x00",  # it ends too early
    ],
)
def test_unclear_packets_need_all_before_them(packet: bytes) -> None:
    assert needed([KEY, inter(0, 1), packet, inter(0)], 3) == [True, True, True, True]
    parts = needed_parts([KEY, packet], [False, False])
    assert parts[1] is packet


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
    assert needed([first, inter(0)]) == [True, True]


def test_no_packets() -> None:
    assert needed_parts([], []) == []


@given(st.lists(st.binary(max_size=90), max_size=4), st.booleans())
def test_any_bytes(packets: list[bytes], real: bool) -> None:
    own = [KEY, *packets] if real else packets
    for wanted in (False, True):
        found = needed_parts(own, [wanted] * len(own))
        assert len(found) == len(own)
        assert found[:1] == own[:1]
