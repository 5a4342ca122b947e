"""Parts of clips: the frames of the whole clip, from the packets that they need and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace
from tests.codecs.coded_clips import FRAMES, OPTIONS, clip, uneven_clip

from bushel.codecs import get_codec
from bushel.codecs.clip_parts import KEYFRAME, SHOWN, ClipPackets, scan_clip

CHOSEN = (slice(0, 16), slice(22, 38), slice(-16, None), slice(50, 10, -7), slice(3, 3), slice(5, None, 9))


def decoded(packets: ClipPackets, data: bytes, chosen: slice | npt.NDArray[np.int64]) -> npt.NDArray[np.uint8] | None:
    part = packets.part(chosen)
    assert part is not None
    extents = zip(part.offsets.tolist(), part.lengths.tolist(), strict=True)
    return part.read([data[offset : offset + length] for offset, length in extents]).decode("mp4")


@pytest.mark.parametrize("name", [name for name in OPTIONS if "refreshed" not in name])
def test_frames_are_those_of_the_whole_clip(name: str) -> None:
    codec, data = clip(name)
    packets = scan_clip(codec.name, data)
    assert packets is not None
    whole = codec.decode(data)
    assert np.count_nonzero(packets.flags & SHOWN) == len(whole) == FRAMES
    assert packets.flags[0] & KEYFRAME
    for number in range(FRAMES):
        np.testing.assert_array_equal(decoded(packets, data, np.array([number])), whole[[number]])
    for chosen in CHOSEN:
        np.testing.assert_array_equal(decoded(packets, data, chosen), whole[chosen])
    numbers = np.array([-1, 0, -1, 30])
    np.testing.assert_array_equal(decoded(packets, data, numbers), whole[numbers])


def test_a_stream_without_true_keyframes_is_not_decoded_in_part() -> None:
    codec, data = clip("h264 refreshed bit by bit")
    packets = scan_clip(codec.name, data)
    assert packets is not None
    assert decoded(packets, data, slice(30, 46)) is None


@pytest.mark.parametrize("begin", [0, 250])
def test_uneven_times_and_an_edit_list(begin: int) -> None:
    times = np.cumsum([0, *np.random.default_rng(0).integers(10, 90, 39).tolist()]).tolist()
    data = uneven_clip(times, begin)
    packets, whole = scan_clip("mp4", data), get_codec("mp4").decode(data)
    assert packets is not None
    for number in range(len(whole)):
        np.testing.assert_array_equal(decoded(packets, data, np.array([number])), whole[[number]])


def test_a_clip_that_lost_its_end() -> None:
    codec, data = clip("h264 in fragments")
    for size in (len(data) // 2, len(data) - 700):
        packets = scan_clip("mp4", data[:size])
        if packets is None:
            continue
        ranged = codec.ranged
        assert ranged is not None
        assert np.count_nonzero(packets.flags & SHOWN) == ranged.count(data[:size])
        found = decoded(packets, data[:size], slice(0, 8))
        np.testing.assert_array_equal(found, ranged.decode(data[:size], slice(0, 8)))


def test_real_clips(videos: Path) -> None:
    pytest.importorskip("av")
    for path in sorted(videos.glob("*.mp4")):
        data = path.read_bytes()
        packets, whole = scan_clip("mp4", data), get_codec("mp4").decode(data)
        assert packets is not None
        middle = len(whole) // 2
        for chosen in (slice(middle, middle + 16), slice(-16, None), slice(0, None, 50)):
            np.testing.assert_array_equal(decoded(packets, data, chosen), whole[chosen])


@pytest.mark.parametrize("data", [b"", b"nonsense", b"#EXTM3U\n#EXTINF:1,\n/etc/hostname\n"])
def test_other_bytes_than_a_clip_have_no_packets(data: bytes) -> None:
    pytest.importorskip("av")
    assert scan_clip("mp4", data) is None
    assert scan_clip("webm", data) is None


def test_packets_that_are_wrong_give_no_frames() -> None:
    _, data = clip("h264 with B-frames")
    packets = scan_clip("mp4", data)
    assert packets is not None
    wrong = [
        replace(packets, offsets=packets.offsets + 5),
        replace(packets, config=b"{}"),
        replace(packets, config=b"\xff"),
        replace(packets, config=packets.config.replace(b'"width":96', b'"width":999999')),
        replace(packets, config=packets.config.replace(b'"codec":"h264"', b'"codec":"png"')),
        replace(packets, lengths=np.minimum(packets.lengths, 3)),
    ]
    for each in wrong:
        assert decoded(each, data, slice(20, 36)) is None
    none = np.zeros_like(packets.flags)
    assert replace(packets, flags=none).part(slice(0, 1)) is None
    with pytest.raises(IndexError, match="a clip of 60 frames"):
        packets.part(np.array([60]))
