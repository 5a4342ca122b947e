"""The eight adapters: ids, metadata, frames, label numbers; and bugs of GulpIO2 that Bushel does not have."""

import gzip
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.compat.gulpio2.frames import Numbers, frame, make_video

from bushel.compat.gulpio2 import GulpDirectory, GulpIngestor
from bushel.compat.gulpio2.adapters import (
    AbstractDatasetAdapter,
    ActivitynetAdapter,
    Custom20BNCsvJpegAdapter,
    Custom20BNCsvWebmAdapter,
    Custom20BNJsonVideoAdapter,
    ImageFolderAdapter,
    ImageListAdapter,
    KineticsAdapter,
    VideoFolderAdapter,
)
from bushel.compat.gulpio2.errors import DuplicateIdException, VideoNotFoundError


def save(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(frame(seed)).save(path)


def video(path: Path, frames: int = 10) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    make_video(path, frames)


def ids(adapter: AbstractDatasetAdapter, part: slice | None = None) -> list[Any]:
    return [item["id"] for item in adapter.iter_data(part)]


def test_the_abstract_class() -> None:
    with pytest.raises(TypeError):
        AbstractDatasetAdapter()  # type: ignore[abstract]
    assert len(list(Numbers(3).iter_data(slice(1, 3)))) == 2


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number, name in enumerate(["cat/a.jpg", "cat/b.png", "dog/a.jpg", "dog/deep/c.jpg"]):
        save(tmp_path / "images" / name, number)
    (tmp_path / "images" / "cat" / "notes.txt").touch()
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.mark.parametrize("slash", ["", "/"])
def test_image_folder(images: Path, slash: str) -> None:
    adapter = ImageFolderAdapter(str(images / "images") + slash, str(images / "out"), img_size=12)
    assert len(adapter) == 4
    items = list(adapter.iter_data())
    assert [item["id"] for item in items] == ["cat-a.jpg", "cat-b.png", "dog-a.jpg", "deep-c.jpg"]
    path = str(images / "images" / "cat")
    assert items[1]["meta"] == {"id": "cat-b.png", "label": "cat", "path": path, "idx": 0}
    assert [item["frames"][0].shape for item in items] == [(12, 18, 3)] * 4
    assert json.loads((images / "out" / "label2idx.json").read_text()) == {"cat": 0, "deep": 1, "dog": 2}


def test_image_folder_with_the_same_name_twice(images: Path) -> None:
    save(images / "images" / "other" / "cat" / "a.jpg", 9)
    adapter = ImageFolderAdapter(str(images / "images"), str(images / "out"))
    items = {item["id"]: item["frames"][0] for item in adapter.iter_data()}
    assert len(items) == 5
    assert {"cat-cat/a.jpg", "cat-other/cat/a.jpg"} < items.keys()


def test_image_list(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = images / "list.txt"
    listed.write_text("cat/a.jpg,cat\n\ndog/a.jpg, dog\ncat/none.jpg,cat\ncat/b.png,cat\n")
    adapter = ImageListAdapter(str(listed), str(images / "out"), root_folder=str(images / "images"))
    assert len(adapter) == 4
    items = list(adapter.iter_data())
    assert [item["meta"] for item in items] == [
        {"id": "cat-cat/a.jpg", "label": "cat", "idx": 0},
        {"id": "dog-dog/a.jpg", "label": "dog", "idx": 1},
        {"id": "b.png", "label": "cat", "idx": 0},
    ]
    assert "none.jpg is left out" in capsys.readouterr().err
    assert ids(adapter, slice(1, 2)) == ["dog-dog/a.jpg"]
    assert ids(adapter, slice(3, 4)) == ["b.png"]
    listed.write_text("no comma\n")
    with pytest.raises(ValueError, match="line 1: expected `path,label`"):
        ImageListAdapter(str(listed), str(images / "out"))


def test_labels_of_an_extended_folder_keep_their_numbers(images: Path) -> None:
    first = ImageFolderAdapter(str(images / "images" / "dog"), str(images / "out"))
    GulpIngestor(first, images / "out", 10, 1)()
    assert first.label2idx == {"deep": 0, "dog": 1}
    second = ImageFolderAdapter(str(images / "images" / "cat"), str(images / "out"))
    GulpIngestor(second, images / "out", 10, 2)()
    assert json.loads((images / "out" / "label2idx.json").read_text()) == {"deep": 0, "dog": 1, "cat": 2}
    assert GulpDirectory(images / "out")["cat-a.jpg"][1]["idx"] == 2


def test_shuffle_is_that_of_the_global_generator(images: Path) -> None:
    expected = ["cat-a.jpg", "cat-b.png", "dog-a.jpg", "deep-c.jpg"]
    random.seed(4)
    random.shuffle(expected)
    random.seed(4)
    assert ids(ImageFolderAdapter(str(images / "images"), str(images / "out"), shuffle=True)) == expected


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    for id_ in (1, 2, 3):
        video(tmp_path / "mp4" / str(id_) / "any.mp4", 10 + id_)
        video(tmp_path / "webm" / f"{id_}.webm", 10 + id_)
    labels = ["b", "é", "b"]
    entries = [{"id": n + 1, "template": label} for n, label in enumerate(labels)]
    (tmp_path / "list.json").write_text(json.dumps(entries))
    with gzip.open(tmp_path / "list.json.gz", "wt") as file:
        json.dump(entries, file)
    (tmp_path / "list.csv").write_text("1;b\n2;é\n\n3;b\n", "utf-8")
    (tmp_path / "test.csv").write_text("1\n3\n")
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", ["list.json", "list.json.gz"])
def test_json_videos(listed: Path, name: str) -> None:
    adapter = Custom20BNJsonVideoAdapter(
        str(listed / name), str(listed / "mp4"), str(listed / "out"), frame_size=24, frame_rate=25
    )
    items = list(adapter.iter_data())
    assert [item["meta"] for item in items] == [
        {"id": 1, "label": "b", "idx": 0},
        {"id": 2, "label": "é", "idx": 1},
        {"id": 3, "label": "b", "idx": 0},
    ]
    assert [[image.shape for image in item["frames"]] for item in items] == [[(24, 32, 3)] * (11 + n) for n in range(3)]
    assert (listed / "out" / "label2idx.json").read_bytes() == b'{"b": 0, "\\u00e9": 1}'
    assert [len(item["frames"]) for item in pickle.loads(pickle.dumps(adapter)).iter_data(slice(2, 3))] == [13]


def test_json_videos_that_are_missing_or_damaged(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="Wrong data file format"):
        Custom20BNJsonVideoAdapter("list.txt", "", "")
    (listed / "mp4" / "2" / "any.mp4").write_bytes(b"no video")
    (listed / "mp4" / "3" / "any.mp4").unlink()
    adapter = Custom20BNJsonVideoAdapter(str(listed / "list.json"), str(listed / "mp4"), str(listed / "out"))
    with pytest.raises(VideoNotFoundError):
        GulpIngestor(adapter, listed / "out", 10, 1)()
    printed = capsys.readouterr()
    assert "Failed to write video with id: 2; no frames" in printed.out
    assert "2/any.mp4" in printed.err
    assert list(GulpDirectory(listed / "out").merged_meta_dict) == ["1"]


def test_json_videos_that_are_there_already(listed: Path) -> None:
    def adapter() -> Custom20BNJsonVideoAdapter:
        return Custom20BNJsonVideoAdapter(
            str(listed / "list.json"), str(listed / "mp4"), str(listed / "out"), remove_duplicate_ids=True
        )

    GulpIngestor(adapter(), listed / "out", 2, 2)()
    assert list(GulpDirectory(listed / "out").merged_meta_dict) == ["1", "2", "3"]
    with pytest.raises(DuplicateIdException):
        adapter()


def test_csv_webm(listed: Path) -> None:
    adapter = Custom20BNCsvWebmAdapter(str(listed / "list.csv"), str(listed / "webm"), str(listed / "out"))
    items = list(adapter.iter_data(slice(1, 3)))
    assert [item["meta"] for item in items] == [
        {"id": "2", "label": "é", "idx": 1},
        {"id": "3", "label": "b", "idx": 0},
    ]
    assert all(image.shape == (48, 64, 3) for item in items for image in item["frames"])
    dummy = Custom20BNCsvWebmAdapter(
        str(listed / "test.csv"), str(listed / "webm"), str(listed / "new"), label_name="template"
    )
    assert [meta["label"] for meta in dummy.all_meta] == ["dummy", "dummy"]


def test_csv_jpeg(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        save(tmp_path / "frames" / "a" / f"{number:03}.jpg", number)
    (tmp_path / "list.csv").write_text("a;x\n")
    (tmp_path / "out").mkdir()
    adapter = Custom20BNCsvJpegAdapter(str(tmp_path / "list.csv"), str(tmp_path / "frames"), str(tmp_path / "out"))
    [item] = adapter.iter_data()
    assert (item["id"], item["meta"]) == ("a", {"id": "a", "label": "x", "idx": 0})
    for image, number in zip(item["frames"], (1, 2, 10), strict=True):
        np.testing.assert_array_equal(image, np.asarray(Image.open(tmp_path / "frames" / "a" / f"{number:03}.jpg")))


@pytest.mark.parametrize("slash", ["", "/"])
def test_video_folder(tmp_path: Path, slash: str) -> None:
    video(tmp_path / "videos" / "x" / "1.mp4", 5)
    video(tmp_path / "videos" / "y" / "2.webm", 6)
    (tmp_path / "out").mkdir()
    adapter = VideoFolderAdapter(str(tmp_path / "videos") + slash, str(tmp_path / "out"))
    items = list(adapter.iter_data())
    assert [(item["id"], item["meta"]["label"], len(item["frames"])) for item in items] == [
        ("x-1.mp4", "x", 5),
        ("y-2.webm", "y", 6),
    ]


def test_activitynet(tmp_path: Path) -> None:
    for name in ("abc.mp4", "def.mp4", "ghi.mp4", "unknown.mp4"):
        video(tmp_path / "videos" / name, 4)
    (tmp_path / "videos" / "abc.mp4.part").touch()
    entry = {"subset": "training", "annotations": [{"label": "x"}]}
    database = {"abc": entry, "def": {"subset": "validation"}, "ghi": entry, "gone": entry}
    (tmp_path / "list.json").write_text(json.dumps({"database": database}))
    adapter = ActivitynetAdapter(str(tmp_path / "list.json"), str(tmp_path / "videos"), frame_size=24)
    items = list(adapter.iter_data())
    assert [(item["id"], item["meta"], len(item["frames"])) for item in items] == [("abc", entry, 4), ("ghi", entry, 4)]
    other = ActivitynetAdapter(str(tmp_path / "list.json"), str(tmp_path / "videos"), phase="validation")
    assert ids(other) == ["def"]


def test_kinetics(tmp_path: Path) -> None:
    for name in ("a/id1_000010_000020.mp4", "b/x_00y_000000_000010.mp4"):
        video(tmp_path / "videos" / name, 4)
    (tmp_path / "list.json").write_text(json.dumps({"id1": {"n": 1}, "x_00y": {"n": 2}}))
    adapter = KineticsAdapter(str(tmp_path / "list.json"), str(tmp_path / "videos"))
    items = [(item["id"], item["meta"], len(item["frames"])) for item in adapter.iter_data()]
    assert items == [("id1", {"n": 1}, 4), ("x_00y", {"n": 2}, 4)]
    (tmp_path / "list.json").write_text("{}")
    with pytest.raises(KeyError, match="no entry 'id1'"):
        ids(KineticsAdapter(str(tmp_path / "list.json"), str(tmp_path / "videos")))


@pytest.mark.parametrize("make", [ImageFolderAdapter, VideoFolderAdapter])
def test_a_folder_without_files(tmp_path: Path, make: Callable[..., AbstractDatasetAdapter]) -> None:
    with pytest.raises(AssertionError, match="nothing was found"):
        GulpIngestor(make(str(tmp_path), str(tmp_path / "out")), tmp_path / "out", 1, 1)()
