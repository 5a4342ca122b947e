"""Windows of the same clip in a batch: its packets are read and decoded once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.codecs.coded_clips import FRAMES, clip

import bushel
from bushel._index import read_plan
from bushel._index.elements import Ranges
from bushel.codecs import clip_parts, video
from bushel.loader.read.batch_reader import BatchReader

NAMES = ["h264", "h264 with B-frames", "h264 with open groups"]
OF = np.array([1, 0, 1, 2, 1, 0])
WINDOWS = Ranges.regular(np.array([4, 30, 8, 0, 40, 2]), np.arange(0, 12, 3), np.full(6, FRAMES))
MASK: Any = {"video": WINDOWS}


@pytest.mark.parametrize("indexed", [True, False])
def test_windows_share_the_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, indexed: bool) -> None:
    clips = [clip(name) for name in NAMES]
    with bushel.Writer(tmp_path / "x", {"video": "mp4" if indexed else "webm"}, container="bag", sync=False) as writer:
        for number, (codec, data) in enumerate(clips):
            value = data if indexed else codec.decode(data)[:, ::4, ::4]
            writer.append({"video": value}, key=str(number))
    wholes = [sample["video"] for sample in bushel.open(tmp_path / "x")]
    if not indexed:
        for sidecar in (tmp_path / "x").rglob("*.safetensors"):
            sidecar.unlink()
    calls: list[int] = []
    decode_runs = video.decode_runs

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return decode_runs(*arguments)

    for module in (video, clip_parts):
        monkeypatch.setattr(module, "decode_runs", counting)
    ds = bushel.open(tmp_path / "x")
    for encoded in (False, True):
        calls.clear()
        found = (
            ds.decode_samples(BatchReader(ds).read_encoded(OF, MASK), OF, fields=MASK) if encoded else ds.read(OF, MASK)
        )
        assert len(calls) == 3  # one decoding of each clip
        for place, (sample, of) in enumerate(zip(found, OF.tolist(), strict=True)):
            np.testing.assert_array_equal(sample["video"], wholes[of][WINDOWS.of(place)])
    assert not np.shares_memory(found[0]["video"], found[2]["video"])
    assert BatchReader(ds).drain_whole_clips() == 0


def test_a_clip_whose_packets_do_not_give_the_frames(tmp_path: Path) -> None:
    codec, data = clip("h264 refreshed bit by bit")
    with bushel.Writer(tmp_path / "x", {"video": "mp4"}, container="bag", sync=False) as writer:
        writer.append({"video": data})
    whole = codec.decode(data)
    ds = bushel.open(tmp_path / "x")
    late: Any = Ranges.regular(np.array([30, 33]), np.arange(3), np.full(2, len(whole)))
    found = ds.read([0, 0], {"video": late})
    for place in range(2):
        np.testing.assert_array_equal(found[place]["video"], whole[late.of(place)])


def test_parts_are_counted_once(tmp_path: Path) -> None:
    codec, data = clip("h264")
    with bushel.Writer(tmp_path / "x", {"video": "mp4"}, container="bag", sync=False) as writer:
        writer.append({"video": data})
    ds = bushel.open(tmp_path / "x")
    same: Any = Ranges.regular(np.array([3, 3]), np.arange(4), np.full(2, FRAMES))
    first, second = (sample["video"] for sample in BatchReader(ds).read_encoded([0, 0], {"video": same}))
    assert first.part.of_clip
    assert first.nbytes == first.part.nbytes > 0
    assert second.nbytes == 0


def test_decoders_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec, data = clip("h264")
    with bushel.Writer(tmp_path / "x", {"video": "mp4"}, container="bag", sync=False) as writer:
        writer.append({"video": data})
    calls: list[int] = []
    new_decoder = clip_parts.new_decoder

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return new_decoder(*arguments)

    monkeypatch.setattr(clip_parts, "new_decoder", counting)
    monkeypatch.setattr(clip_parts, "_IDLE", threading.local())
    ds, whole = bushel.open(tmp_path / "x"), codec.decode(data)
    for frames in ([4, 5], [30, 8], [0], [FRAMES - 1]):
        np.testing.assert_array_equal(ds.read([0], {"video": np.array(frames)})[0]["video"], whole[frames])
    assert len(calls) == 1


def test_a_batch_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bushel.Writer(tmp_path / "x", {"video": "mp4"}, container="bag", sync=False) as writer:
        for name in NAMES:
            writer.append({"video": clip(name)[1]})
    calls: list[int] = []
    plan_read = read_plan.plan_read

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return plan_read(*arguments, **options)

    monkeypatch.setattr(read_plan, "plan_read", counting)
    windows = bushel.open(tmp_path / "x").windows("video", 4)
    batches = list(bushel.Loader(windows, 8, shuffle=False, threads=2, drop_last=False))
    assert len(calls) == len(batches) == -(-len(windows) // 8)
