"""Frames of clips in the index: only the packets of the requested frames are read."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests._dataset.views.counted import Counted, counted
from tests.codecs.coded_clips import FRAMES, clip
from tests.storage.objects.range_server import Server, serving

import bushel
from bushel._index.clip_frames import ClipFrames
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index
from bushel._pack import convert

CONTAINERS = ["bag", "tar", "ffrecord", "recordio"]
NAMES = ["h264", "h264 with B-frames", "h264 with open groups", "h264 in fragments"]
each_container = pytest.mark.parametrize("container", CONTAINERS)
MASK: dict[str, Any] = {"video": slice(26, 34), "label": True}


def write(path: Path, container: str = "bag", names: list[str] | None = None, **options: Any) -> list[bytes]:
    clips = [clip(name)[1] for name in names or NAMES]
    with bushel.Writer(path, {"video": "mp4", "label": "int"}, container=container, sync=False, **options) as writer:
        for number, data in enumerate(clips):
            writer.append({"video": data, "label": number}, key=str(len(writer)))
    return clips


def frames_of(path: Path) -> ClipFrames:
    [sidecar] = path.rglob("*.safetensors")
    frames = load_index(sidecar).fields["video"].frames
    assert frames is not None
    return frames


def packets_of(path: Path) -> list[list[Any]]:
    """The packets of each clip of a dataset of one or more shards."""
    found = []
    for sidecar in sorted(path.rglob("*.safetensors")):
        frames = load_index(sidecar).fields["video"].frames
        assert frames is not None
        for row in range(frames.rows):
            packets = frames.of(row, 1 << 40)
            assert packets is not None
            arrays = (packets.offsets, packets.lengths, packets.times, packets.flags)
            found.append([packets.config, *(array.tolist() for array in arrays)])
    return found


def bytes_of_groups(frames: ClipFrames, row: int, chosen: slice) -> int:
    """The size of the groups of pictures that these frames are in."""
    packets = frames.of(row, 1 << 40)
    assert packets is not None
    part = packets.part(chosen)
    assert part is not None
    keys = np.append(np.flatnonzero(packets.flags & 1), FRAMES)
    read = np.flatnonzero(np.isin(packets.offsets, part.offsets))
    first, last = read[0], read[-1] + 1
    return int(packets.lengths[keys[keys <= first].max() : keys[keys >= last].min()].sum())


def forge(path: Path, **arrays: Any) -> None:
    """Change the frames in the index of a dataset."""
    [sidecar] = path.rglob("*.safetensors")
    index = load_index(sidecar)
    column = index.fields["video"]
    assert column.frames is not None
    frames = replace(column.frames, **{name: np.array(array) for name, array in arrays.items()})
    save_index(replace(index, fields={**index.fields, "video": replace(column, frames=frames)}), sidecar)


@each_container
def test_bytes_and_frames(tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = write(tmp_path / "x", container)
    wholes = [clip(name)[0].decode(data) for name, data in zip(NAMES, clips, strict=True)]
    asked = counted(monkeypatch)
    dataset = bushel.open(tmp_path / "x")
    assert [dataset.available(number)["video"] for number in range(4)] == [range(FRAMES)] * 4
    assert asked == []  # frames are counted by the index
    frames = frames_of(tmp_path / "x")
    for number, whole in enumerate(wholes):
        asked.clear()
        np.testing.assert_array_equal(dataset[number, {"video": MASK["video"]}]["video"], whole[26:34])
        assert sum(length for _, length in asked) <= 1.2 * bytes_of_groups(frames, number, MASK["video"])
    found = dataset.read(range(4), MASK)
    for sample, whole in zip(found, wholes, strict=True):
        np.testing.assert_array_equal(sample["video"], whole[26:34])
    assert [bytes(sample["video"]) for sample in dataset.read(range(4), MASK, decode=False)] == clips
    for batch in bushel.Loader(dataset, 4, fields=MASK, threads=1):
        np.testing.assert_array_equal(batch["video"], [whole[26:34] for whole in wholes])


@each_container
def test_batches_of_clips_with_and_without_frames(tmp_path: Path, container: str) -> None:
    write(tmp_path / "a", container, ["h264", "h264 refreshed bit by bit"])
    write(tmp_path / "b", container, ["h264"])
    with bushel.Writer(tmp_path / "c", {"video": "mp4", "label": "int"}, container=container) as writer:
        writer.append({"video": b"no clip", "label": 7}, key="c")
    for sidecar in (tmp_path / "b").rglob("*.safetensors"):
        index = load_index(sidecar)
        columns = {name: replace(column, frames=None) for name, column in index.fields.items()}
        save_index(replace(index, fields=columns), sidecar)
    both = bushel.concat([bushel.open(tmp_path / name) for name in "ab"])
    for sample, name in zip(both.read([2, 1, 0], MASK), ["h264", "h264 refreshed bit by bit", "h264"], strict=True):
        codec, data = clip(name)
        np.testing.assert_array_equal(sample["video"], codec.decode(data)[26:34])
    assert both.available(2)["video"] == range(FRAMES)
    with pytest.raises(IndexError, match="a clip of 60 frames"):
        both.read([0, 1], {"video": [60]})
    with pytest.raises(bushel.errors.CodecError, match="sample 'c', field 'video'"):
        bushel.open(tmp_path / "c")[0, MASK]


def test_two_requests_to_a_store(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    [data] = write(tmp_path / "served" / "x.tar", "tar", ["h264 with B-frames"])
    with serving(tmp_path / "served") as server:
        dataset = bushel.open(f"{server.url}/x.tar")
        assert dataset.available(0)["video"] == range(FRAMES)
        assert _ranges(server) == []
        np.testing.assert_array_equal(
            dataset[0, {"video": MASK["video"]}]["video"], clip(NAMES[1])[0].decode(data)[26:34]
        )
        [got] = _ranges(server)
        frames = frames_of(tmp_path / "served")
        assert got <= 1.2 * int(frames.lengths[24:36].sum())


def _ranges(server: Server) -> list[int]:
    """Sizes of the ranges of data that were asked for."""
    found = []
    for ranged in server.gets("x.tar"):
        assert ranged is not None
        first, last = ranged.removeprefix("bytes=").split("-")
        found.append(int(last) + 1 - int(first))
    server.asked.clear()
    return found


def test_checksums_are_of_whole_clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [data] = write(tmp_path / "x", names=["h264"])
    asked = counted(monkeypatch)
    np.testing.assert_array_equal(
        bushel.open(tmp_path / "x", verify=True)[0, {"video": [30]}]["video"], clip("h264")[0].decode(data)[[30]]
    )
    assert max(length for _, length in asked) == len(data)


FORGED: dict[str, dict[str, Any]] = {
    "beyond the clip": {"offsets": [2**32 - 1] * FRAMES},
    "empty": {"lengths": [0] * FRAMES},
    "much more than the clip": {"offsets": [0] * FRAMES, "lengths": [3000] * FRAMES},
    "another place": {"offsets": range(40, 40 + FRAMES)},
    "no keyframes": {"flags": [2] * FRAMES},
    "only keyframes": {"flags": [3] * FRAMES},
    "no frames": {"flags": [1] + [0] * (FRAMES - 1)},
    "one time": {"times": [5] * FRAMES},
    "starts outside": {"starts": [0, 10**9]},
    "negative starts": {"starts": [-5, FRAMES]},
    "another configuration": {"config": [77]},
    "no configuration": {"config_text": np.zeros(5, np.uint8)},
    "negative configuration": {"config_offsets": np.array([-9, -2])},
}


@pytest.mark.parametrize("what", FORGED)
def test_a_table_that_contradicts_the_clip(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    [data] = write(tmp_path / "x", names=["h264"])
    old = frames_of(tmp_path / "x")
    forge(tmp_path / "x", **{n: np.array(value, getattr(old, n).dtype) for n, value in FORGED[what].items()})
    dataset = bushel.open(tmp_path / "x")
    whole = clip("h264")[0].decode(data)
    with caplog.at_level(logging.WARNING, "bushel"):
        loader = bushel.Loader(dataset, 1, fields={"video": [30, 31]}, threads=1)
        for _ in range(2):
            for batch in loader:
                np.testing.assert_array_equal(batch["video"][0], whole[30:32])
        np.testing.assert_array_equal(dataset[0, {"video": [30, 31]}]["video"], whole[30:32])
    counted = loader.stats().whole_clips
    assert counted in (0, 2)  # 0 if the table itself is impossible
    assert sum("clip is read whole" in record.getMessage() for record in caplog.records) == (1 if counted else 0)
    if counted:
        assert "2 clips read whole" in str(loader.stats())
        pickle.loads(pickle.dumps(dataset))[0, {"video": [30]}]


@pytest.mark.parametrize("what", ["another place", "only keyframes", "another configuration"])
def test_windows_of_a_clip_that_is_read_whole(tmp_path: Path, what: str) -> None:
    [data] = write(tmp_path / "x", names=["h264"])
    old = frames_of(tmp_path / "x")
    forge(tmp_path / "x", **{n: np.array(value, getattr(old, n).dtype) for n, value in FORGED[what].items()})
    windows = bushel.open(tmp_path / "x").windows("video", 2)
    whole = clip("h264")[0].decode(data)
    for window in (windows[15], *windows.read([15])):
        np.testing.assert_array_equal(window["video"], whole[30:32])


def test_arrays_of_other_lengths_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "x", names=["h264"])
    forge(tmp_path / "x", lengths=np.zeros(3, np.uint32))
    with pytest.raises(bushel.errors.FormatError, match="do not belong together"):
        load_index(next((tmp_path / "x").rglob("*.safetensors")))


class TestWriting:
    def test_configurations_are_stored_once(self, tmp_path: Path) -> None:
        write(tmp_path / "x", names=["h264", "h264", "h264 with B-frames", "h264"])
        frames = frames_of(tmp_path / "x")
        assert frames.config.tolist() == [0, 0, 1, 0]
        assert np.diff(frames.starts).tolist() == [FRAMES] * 4

    @each_container
    def test_appended_and_converted(self, tmp_path: Path, container: str) -> None:
        write(tmp_path / "x", container, ["h264"])
        write(tmp_path / "x", container, ["h264 with B-frames", "h264"], mode="append")
        write(tmp_path / "y", container, ["h264", "h264 with B-frames", "h264"])
        for other in CONTAINERS:
            convert(tmp_path / "x", tmp_path / other, container=other)
            assert packets_of(tmp_path / other) == packets_of(tmp_path / "x") == packets_of(tmp_path / "y")

    def test_index_adds_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bushel._writer.shard_writer.has_pyav", lambda: False)
        write(tmp_path / "x.tar", "tar", ["h264"])
        [sidecar] = tmp_path.rglob("*.safetensors")
        assert load_index(sidecar).fields["video"].frames is None
        bushel.index(tmp_path / "x.tar")
        assert load_index(sidecar).fields["video"].frames is None
        bushel.index(tmp_path / "x.tar", frames=True)
        assert frames_of(tmp_path).starts.tolist() == [0, FRAMES]
        before = sidecar.read_bytes()
        bushel.index(tmp_path / "x.tar", frames=True)
        assert sidecar.read_bytes() == before
        bushel.index(tmp_path / "x.tar", force=True)  # and keeps them
        assert frames_of(tmp_path).starts.tolist() == [0, FRAMES]

    def test_repair_keeps_them(self, tmp_path: Path) -> None:
        write(tmp_path / "x", names=["h264", "h264"])
        expected = frames_of(tmp_path / "x")
        bushel.repair(tmp_path / "x", tmp_path / "y")
        np.testing.assert_array_equal(frames_of(tmp_path / "y").offsets, expected.offsets)


def test_counting_files_are_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    asked: list[tuple[int, int]] = []
    assert Counted(tmp_path / "a", asked).read(1, 2) == b"bc"
    assert asked == [(1, 2)]
