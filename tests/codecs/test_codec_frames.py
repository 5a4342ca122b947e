"""Frames of stored clips: equal to a whole decoding, from as few packets as possible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.coded_clips import FRAMES, GROUP, OPTIONS, clip
from tests.codecs.moving_frames import moving

import bushel
from bushel.codecs import Codec, Ranged, get_codec, register_codec, registry, video
from bushel.codecs.base import choose
from bushel.codecs.video import FrameTable
from bushel.errors import CodecError
from bushel.testing import check_codec

ROOT = Path(__file__).parents[2]


def some(codec: Codec, data: bytes, elements: slice | Sequence[int]) -> npt.NDArray[np.uint8]:
    assert codec.ranged is not None
    wanted = elements if isinstance(elements, slice) else np.array(elements, np.int64)
    frames: npt.NDArray[np.uint8] = codec.ranged.decode(data, wanted)
    return frames


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many packets the decoder is given, run by run."""
    fed: list[int] = []
    decoded = video._decoded

    def noted(context: Any, packets: Sequence[Any], wanted: Container[int]) -> Iterator[Any]:
        fed.append(len(packets))
        return decoded(context, packets, wanted)

    monkeypatch.setattr(video, "_decoded", noted)
    return fed


@pytest.mark.parametrize("name", OPTIONS)
def test_frames_are_those_of_the_whole(name: str) -> None:
    codec, data = clip(name)
    whole = codec.decode(data)
    assert codec.ranged is not None
    assert codec.ranged.count(data) == len(whole) == FRAMES
    for number in range(FRAMES):
        np.testing.assert_array_equal(some(codec, data, [number])[0], whole[number])
    for chosen in (slice(None), slice(32, 48), slice(50, 10, -7), slice(-5, None), slice(3, 3), slice(58, 99)):
        found = some(codec, memoryview(data), chosen)  # type: ignore[arg-type]
        assert (str(found.dtype), found.shape) == ("uint8", whole[chosen].shape)
        np.testing.assert_array_equal(found, whole[chosen])
    for numbers in ([0, 59], [-1, 0, -1, 30], [47, 13, 13]):
        np.testing.assert_array_equal(some(codec, data, numbers), whole[numbers])


@pytest.mark.parametrize(
    ("name", "elements", "expected"),
    [
        ("h264", [0], [1]),
        ("h264", [13], [2]),
        ("h264", [59], [12]),
        ("h264", slice(32, 48), [24]),  # from frame 24 on
        ("h264", [1, 59], [2, 12]),
        ("h264", [11, 12], [13]),  # neighbouring groups are one run
        ("vp9", slice(40, 44), [8]),
    ],
)
def test_only_the_needed_part_is_decoded(
    name: str, elements: slice | list[int], expected: list[int], fed: list[int]
) -> None:
    codec, data = clip(name)
    some(codec, data, elements)
    assert fed == expected


@pytest.mark.parametrize("name", ["h264 with B-frames", "h264 with open groups", "h264 in fragments", "hevc"])
def test_reordered_frames_cost_at_most_one_group_more(name: str, fed: list[int]) -> None:
    codec, data = clip(name)
    for number in range(FRAMES):
        fed.clear()
        some(codec, data, [number])
        assert len(fed) == 1
        assert fed[0] <= 2 * GROUP + 1


def test_it_conforms() -> None:
    pytest.importorskip("av")
    check_codec("mp4(10)", [moving(5)], lossless=False)


@pytest.mark.parametrize("elements", [[60], [-61], [0, 99]])
def test_frames_that_are_not_there(elements: list[int]) -> None:
    codec, data = clip("h264")
    with pytest.raises(IndexError, match="a clip of 60 frames"):
        some(codec, data, elements)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"#EXTM3U\n#EXTINF:1,\n/etc/hostname\n"])
def test_bytes_that_are_no_clip(data: bytes) -> None:
    pytest.importorskip("av")
    ranged = get_codec("mp4").ranged
    assert ranged is not None
    with pytest.raises(CodecError, match="expected a mp4 clip"):
        ranged.count(data)
    with pytest.raises(CodecError, match="expected a mp4 clip"):
        ranged.decode(data, slice(3))


def test_damaged_clips_give_an_error_or_what_the_whole_gives() -> None:
    codec, data = clip("h264 with B-frames")
    rng = np.random.default_rng(1)
    for _ in range(60):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            broken[at] = rng.integers(256)
        try:
            found = some(codec, bytes(broken), slice(20, 24))
        except CodecError:
            continue
        assert found.dtype == np.uint8


def test_decoded_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, data = clip("h264")
    monkeypatch.setattr(video, "MAX_DECODED", 3 * 64 * 96 * 3)
    assert len(some(codec, data, slice(57, 60))) == 3
    with pytest.raises(CodecError, match="at most 55296 bytes of frames"):
        some(codec, data, slice(4))


def test_real_clips(videos: Path, fed: list[int]) -> None:
    pytest.importorskip("av")
    codec, data = get_codec("mp4"), (videos / "bikes.mp4").read_bytes()  # six keyframes, and B-frames
    whole = codec.decode(data)
    for chosen in (slice(100, 116), slice(0, 250, 50), slice(240, None)):
        fed.clear()
        np.testing.assert_array_equal(some(codec, data, chosen), whole[chosen])
        assert sum(fed) < len(whole) * (1 if chosen.step else 0.4)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
class TestDatasets:
    def test_a_mask(self, tmp_path: Path, container: str, fed: list[int]) -> None:
        codec, data = clip("h264 with B-frames")
        with bushel.Writer(tmp_path / "x", {"video": "mp4", "label": "int"}, container=container) as writer:
            for number in range(3):
                writer.append({"video": data, "label": number}, key=f"clip-{number}")
        dataset = bushel.open(tmp_path / "x")
        whole = codec.decode(data)
        assert dataset.available(1) == {"video": range(FRAMES), "label": True}
        assert bytes(dataset.read([1], decode=False)[0]["video"]) == data
        sample = dataset[1, {"video": slice(32, 48), "label": True}]
        assert (sample["label"], sample["__key__"]) == (1, "clip-1")
        np.testing.assert_array_equal(sample["video"], whole[32:48])
        assert sum(fed) <= 3 * GROUP
        np.testing.assert_array_equal(dataset["clip-2", {"video": [-1, 5]}]["video"], whole[[-1, 5]])
        np.testing.assert_array_equal(dataset[0, {"video": range(0, 9, 4)}]["video"], whole[[0, 4, 8]])
        for found in dataset.read([2, 0], {"video": slice(0, 6, 2)}):
            np.testing.assert_array_equal(found["video"], whole[0:6:2])
        with pytest.raises(IndexError, match="a clip of 60 frames"):
            dataset[0, {"video": [60]}]
        with pytest.raises(TypeError, match="neither a sequence nor a clip"):
            dataset[0, {"label": slice(2)}]

    def test_the_loader(self, tmp_path: Path, container: str) -> None:
        codec, data = clip("h264")
        with bushel.Writer(tmp_path / "x", {"video": "mp4", "label": "int"}, container=container) as writer:
            for number in range(4):
                writer.append({"video": data, "label": number})
        dataset = bushel.open(tmp_path / "x")
        for batch in bushel.Loader(dataset, 2, fields={"video": slice(8, 12), "label": True}, threads=1):
            assert batch["video"].shape == (2, 4, 64, 96, 3)
            np.testing.assert_array_equal(batch["video"][1], codec.decode(data)[8:12])


def _levels(data: Any, elements: Any = slice(None)) -> npt.NDArray[np.uint8]:
    levels: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)[elements].copy()
    return levels


def test_a_codec_of_ones_own(tmp_path: Path) -> None:
    check_codec(register_codec("wave", bytes, _levels, ranged=Ranged(len, _levels)), [np.arange(9, dtype=np.uint8)])
    try:
        with bushel.Writer(tmp_path / "x", {"sound": "wave"}, container="tar") as writer:
            writer.append({"sound": bytes(range(100))})
        dataset = bushel.open(tmp_path / "x")
        assert dataset.available(0) == {"sound": range(100)}
        assert dataset[0, {"sound": slice(5, 8)}]["sound"].tolist() == [5, 6, 7]
        assert dataset[0, {"sound": [-1, 2]}]["sound"].tolist() == [99, 2]
        with pytest.raises(IndexError):
            dataset[0, {"sound": [100]}]
    finally:
        registry.registered.pop("wave")
        registry.get_codec.cache_clear()


def test_gulp_keeps_frames_and_the_mask_is_the_same(tmp_path: Path) -> None:
    pictures = [get_codec("jpg").encode(picture) for picture in moving(6)]
    with bushel.Writer(tmp_path / "x", {"video": "jpg[]"}, container="gulp") as writer:
        writer.append({"video": pictures}, key="a")
    dataset = bushel.open(tmp_path / "x")
    assert dataset.available("a")["video"] == range(6)
    found = dataset["a", {"video": slice(-2, None)}]["video"]
    np.testing.assert_array_equal(found, [get_codec("jpg").decode(data) for data in pictures[-2:]])
    with pytest.raises(bushel.errors.SpecError, match="use bag, tar, ffrecord or recordio"):
        bushel.Writer(tmp_path / "y", {"video": "mp4"}, container="gulp").append({"video": b""}, key="a")


def test_views_of_several_datasets_and_damage(tmp_path: Path) -> None:
    codec, data = clip("h264")
    for name, stored in (("a", data), ("b", b"no clip")):
        with bushel.Writer(tmp_path / name, {"video": "mp4"}, container="bag") as writer:
            writer.append({"video": stored}, key=name)
    opened = [bushel.open(tmp_path / name) for name in "ab"]
    both = bushel.concat(opened)[::-1]
    np.testing.assert_array_equal(both["a", {"video": [7]}]["video"], codec.decode(data)[[7]])
    for ask in (lambda: both[0, {"video": [7]}], lambda: both.available(0)):
        with pytest.raises(CodecError, match="sample 'b', field 'video'"):
            ask()


@given(st.data())
def test_the_plan_reaches_every_frame_and_begins_at_keyframes(data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    keys = np.array([at == 0 for size in groups for at in range(size)])
    times = np.arange(len(keys))
    for first in np.flatnonzero(keys).tolist():  # an open group: what is stored behind a keyframe is shown before it
        if data.draw(st.booleans()) and 0 < first < len(keys) - 1 and not keys[first + 1]:
            times[[first, first + 1]] = times[[first + 1, first]]
    table = FrameTable.of(times, np.ones(len(keys), np.bool_), keys)
    assert table is not None
    assert table.times.tolist() == sorted(times.tolist())
    numbers = np.array(data.draw(st.lists(st.integers(0, len(keys) - 1), min_size=1)))
    runs = table.runs(numbers)
    fed = [packet for run in runs for packet in run]
    assert len(fed) == len(set(fed))
    assert {int(np.flatnonzero(times == number)[0]) for number in numbers} <= set(fed)
    for run in runs:
        assert keys[run.start]
    for number in numbers:
        [run] = [run for run in runs if int(table.packets[number]) in run]
        assert times[run.start] <= number


@pytest.mark.parametrize(
    ("times", "shown", "keys"),
    [
        ([0, 1, 1], [1, 1, 1], [1, 0, 0]),
        ([0, 1], [1, 1], [0, 1]),
        ([1, 0], [1, 1], [1, 0]),
        ([0], [0], [1]),
    ],
)
def test_packets_that_do_not_imply_the_frames(times: list[int], shown: list[int], keys: list[int]) -> None:
    assert FrameTable.of(np.array(times), np.array(shown, np.bool_), np.array(keys, np.bool_)) is None


@given(st.integers(0, 9), st.slices(9))
def test_slices_as_in_lists(count: int, chosen: slice) -> None:
    assert choose(chosen, count).tolist() == list(range(count))[chosen]


ENCODING = """
import sys
from bushel.codecs import get_codec
from tests.codecs.moving_frames import moving
sys.stdout.buffer.write(get_codec(sys.argv[1]).encode(moving(5)))
"""


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_a_clip_has_the_same_bytes_every_time(kind: str) -> None:
    pytest.importorskip("av")
    encode = get_codec(kind).encode
    stored = {bytes(encode(moving(5))) for _ in range(5)}
    for filling in ("1", "170"):  # of fresh memory, where the C library is glibc
        environment = {**os.environ, "MALLOC_PERTURB_": filling}
        command = [sys.executable, "-c", ENCODING, kind]
        stored.add(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout)
    assert len(stored) == 1
