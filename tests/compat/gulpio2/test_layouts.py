from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.sources.clips import clip, levels
from tests.sources.folders import jpeg

import bushel
from bushel.compat.gulpio2.layouts import (
    activitynet,
    kinetics,
    twentybn_csv_jpeg,
    twentybn_csv_webm,
    twentybn_json,
)
from bushel.errors import FormatError
from bushel.sources import Clip, Frames
from bushel.testing import check_source

pytest.importorskip("av")


def test_twentybn_json(tmp_path: Path) -> None:
    rows = [{"id": "7", "template": "Pushing"}, {"id": "8", "template": "Holding"}]
    (tmp_path / "list.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    clip(tmp_path / "videos/7/any.mp4", rate=24)
    clip(tmp_path / "videos/8/other.mp4", rate=24)
    source = twentybn_json(tmp_path / "list.json.gz", tmp_path / "videos")
    check_source(source)
    assert source.spec == {"frames": "jpg[]", "template": "utf8", "idx": "int"}
    assert source.label2idx == {"Holding": 0, "Pushing": 1}
    assert (source[0]["__key__"], source[0]["template"], source[0]["idx"]) == ("7", "Pushing", 1)
    assert levels(source[0]["frames"]) == [20, 140]  # 8 of 24 frames a second


def test_twentybn_csv_webm_with_missing_videos_and_known_labels(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("7;Pushing\n8;Holding\n")
    clip(tmp_path / "videos/8.webm")
    out = tmp_path / "out"
    out.mkdir()
    source = twentybn_csv_webm(tmp_path / "list.csv", tmp_path / "videos", Frames(stride=5))
    done = bushel.pack(source, out, container="gulp", max_errors=1)
    assert (done.samples, done.errors) == (1, 1)
    assert json.loads(Path(done.error_logs[0]).read_text())["path"] == str(tmp_path / "videos/7.webm")
    assert json.loads((out / "label2idx.json").read_text()) == {"Holding": 0, "Pushing": 1}
    (tmp_path / "more.csv").write_text("9;Holding\n10;Asking\n")
    for number in (9, 10):
        clip(tmp_path / f"videos/{number}.webm")
    more = twentybn_csv_webm(tmp_path / "more.csv", tmp_path / "videos", Frames(stride=5))
    bushel.pack(more, out, container="gulp", mode="append")
    assert json.loads((out / "label2idx.json").read_text()) == {"Holding": 0, "Pushing": 1, "Asking": 2}
    dataset = bushel.open(out)
    assert {sample["__key__"]: (sample["label"], sample["idx"]) for sample in dataset} == {
        "8": ("Holding", 0),
        "9": ("Holding", 0),
        "10": ("Asking", 2),
    }


def test_twentybn_csv_jpeg_without_labels(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("7\n")
    (tmp_path / "frames/7").mkdir(parents=True)
    for number in (10, 9):
        (tmp_path / f"frames/7/{number:05d}.jpg").write_bytes(jpeg(number))
    source = twentybn_csv_jpeg(tmp_path / "list.csv", tmp_path / "frames")
    check_source(source)
    assert source.spec == {"frames": "jpg[]"}
    assert source[0] == {"__key__": "7", "frames": [jpeg(9), jpeg(10)]}


def test_kinetics(tmp_path: Path) -> None:
    listed = {
        "ab_00cd": {"annotations": {"label": "juggling", "segment": [3, 13]}, "subset": "train"},
        "gone": {"annotations": {"label": "yoga"}},
    }
    (tmp_path / "list.json").write_text(json.dumps(listed))
    path = clip(tmp_path / "videos/juggling/ab_00cd_000003_000013.mp4")
    clip(tmp_path / "videos/juggling/unlisted_000003_000013.mp4")
    source = kinetics(tmp_path / "list.json", tmp_path / "videos", Clip())
    check_source(source)
    assert source.spec == {"clip": "mp4", "label": "utf8", "idx": "int"}
    assert [dict(source[at]) for at in range(len(source))] == [
        {"__key__": "ab_00cd", "clip": path.read_bytes(), "label": "juggling", "idx": 0}
    ]
    (tmp_path / "list.json").write_text('{"ab_00cd": {"annotations": {}}}')
    with pytest.raises(FormatError, match="video 'ab_00cd' has no annotation with a label"):
        kinetics(tmp_path / "list.json", tmp_path / "videos")


def test_activitynet(tmp_path: Path) -> None:
    annotations = [{"label": "Bowling", "segment": [0.5, 9.0]}, {"label": "Running", "segment": [10, 11]}]
    database = {
        "x1": {"subset": "training", "annotations": annotations},
        "x2": {"subset": "validation", "annotations": annotations},
        "x3": {"subset": "testing", "annotations": []},
    }
    (tmp_path / "list.json").write_text(json.dumps({"database": database}))
    clip(tmp_path / "videos/v_x1.mp4")
    clip(tmp_path / "videos/x3.mp4")
    source = activitynet(tmp_path / "list.json", tmp_path / "videos", Frames(stride=6))
    check_source(source)
    assert source.spec == {"frames": "jpg[]", "label": "utf8", "annotations": "json", "idx": "int"}
    assert (source[0]["__key__"], source[0]["annotations"]) == ("x1", annotations)
    testing = activitynet(tmp_path / "list.json", tmp_path / "videos", subset="testing")
    assert (testing.spec, testing[0]["__key__"]) == ({"frames": "jpg[]"}, "x3")
    missing = activitynet(tmp_path / "list.json", tmp_path / "videos", subset="validation")
    with pytest.raises(FileNotFoundError):
        missing[0]
    (tmp_path / "list.json").write_text("{}")
    with pytest.raises(FormatError, match="expected an object with a 'database'"):
        activitynet(tmp_path / "list.json", tmp_path / "videos")
