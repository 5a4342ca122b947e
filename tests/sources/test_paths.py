"""Patterns, lists of paths, and paths as values of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import fails, run
from tests.sources.folders import image_folder, jpeg

import bushel
from bushel.errors import CodecError, FormatError, SpecError, StateError


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return image_folder(tmp_path / "photos", 6)


def packed(source: Any, **options: Any) -> bushel.Dataset:
    bushel.pack(source, "out", container="tar", mode="overwrite", **options)
    return bushel.open("out")


@pytest.mark.parametrize("pattern", ["photos/*/*.jpg", "photos/class{0,1,2}/*.jpg", "{}/photos/*/*.jpg"])
def test_a_pattern_is_its_folder_with_only_these_files(photos: Path, tmp_path: Path, pattern: str) -> None:
    (photos / "class0/notes.txt").write_text("no photo")
    ds = packed(pattern.replace("{}", str(tmp_path)) if pattern.startswith("{}") else pattern)
    assert list(ds.keys) == list(packed("photos").keys)
    assert ds.labels["label"] == ("class0", "class1", "class2")
    assert list(packed("photos/class1/*.jpg").keys) == ["0001", "0004"]
    assert run("pack", "photos/*/*.jpg", "new", "-c", "tar").startswith("new: 6 samples written")
    assert "no file matches" in fails("pack", "photos/*/*.png", "none", "-c", "tar")


def test_lists_of_paths(photos: Path) -> None:
    named = ["photos/class1/0001.jpg", "photos/class0/0000.jpg"]
    ds = packed(named)
    assert list(ds.keys) == ["class1/0001", "class0/0000"]
    assert ds.labels["label"] == ("class0", "class1")
    assert list(packed([photos / "class1/0001.jpg"]).keys) == ["0001"]
    assert list(packed("photos/class1/0001.jpg").keys) == ["0001"]
    bushel.pack("photos", "a.tar")
    assert len(packed(["a.tar", "a.tar"], keys=lambda key, seen=[]: seen.append(key) or f"{len(seen)}")) == 12
    with pytest.raises(FileNotFoundError, match="gone.jpg"):
        packed(["photos/class1/gone.jpg"])
    Path("a.txt").write_text("a")
    with pytest.raises(FormatError, match=r"must be of one kind, but this one has 1 images, 1 other files.*Path\("):
        packed(["photos/class0/0000.jpg", "a.txt"])


def test_paths_as_values(photos: Path) -> None:
    Path("a.txt").write_text("straw")
    file = photos / "class0/0000.jpg"
    ds = packed([{"image": file, "text": Path("a.txt"), "frames": [file, file]}])
    assert ds.spec == {"image": "jpg", "text": "utf8", "frames": "jpg[]"}
    assert ds.read([0], decode=False)[0]["image"] == jpeg(0)
    assert ds[0]["text"] == "straw"
    assert len(packed({"image": [file, photos / "class1/0001.jpg"], "label": [3, 4]})) == 2
    assert len(packed({"image": file, "label": label} for label in range(3))) == 3
    assert len(packed([{"image": file}], processes=1)) == 1
    with pytest.raises(ValueError, match="the same length"):
        packed({"image": [file], "label": [3, 4]})
    with pytest.raises(bushel.errors.TooManyErrors, match="No such file"):
        packed([{"image": photos / "gone.jpg"}])


def test_a_name_is_no_image(photos: Path) -> None:
    writer = bushel.Writer("some.tar", {"image": "jpg"})
    for value in ("photos/class0/0000.jpg", photos / "class0/0000.jpg"):
        with pytest.raises(CodecError, match=r"give the bytes of the file, as Path\(\.\.\.\)\.read_bytes\(\)"):
            writer.append({"image": value})
    writer.close()


@pytest.mark.parametrize(
    "column",
    [[[1, 2], [3]], [np.arange(2), np.arange(1)], np.array([np.arange(2), np.arange(1)], object), [[1, 2], []]],
    ids=["lists", "arrays", "objects", "empty"],
)
def test_columns_of_different_lengths(photos: Path, column: Any) -> None:
    ds = packed({"tokens": column, "label": [0, 1]})
    assert ds.spec == {"tokens": "array", "label": "int"}
    for sample, wanted in zip(ds, column, strict=True):
        assert sample["tokens"].tolist() == list(wanted)
        assert sample["tokens"].dtype == np.int64


def test_columns_of_objects_are_refused(photos: Path) -> None:
    wrong: Any
    for wrong in ([[1, 2], ["a"]], [[1], None], [[[1], [2, 3]], [[4]]], [{}, {}]):
        with pytest.raises(SpecError, match="lists of numbers, or an iterable of dicts"):
            packed({"tokens": wrong})


def test_appended_samples_have_the_fields_of_the_dataset(photos: Path) -> None:
    packed("photos")
    for source in ([{"label": 3}], [{"text": "a", "image": jpeg(1)}]):
        with pytest.raises(StateError, match=r"the new samples lack .*bushel\.concat"):
            bushel.pack(source, "out", container="tar", mode="append")
    assert len(bushel.open("out")) == 6
    with bushel.Writer("out", mode="append") as writer:  # which names all fields
        writer.append({"image": None, "label": 1}, key="class0/9")
    assert bushel.open("out")[6]["label"] == 1


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".parquet", ".lst", ".npy", ".npz", ".jpg", ".zip"])
def test_a_folder_is_a_folder_whatever_its_name_ends_with(photos: Path, suffix: str) -> None:
    named = Path(f"photos{suffix}")
    photos.rename(named)
    assert list(packed(named).keys) == list(bushel.open(named).keys)
    Path("out").rename(f"dataset{suffix}")
    assert list(packed(f"dataset{suffix}").keys) == list(bushel.open(named).keys)
    bushel.convert(f"dataset{suffix}", "copy", container="bag")
    assert len(bushel.open("copy")) == 6


@pytest.mark.parametrize("mode", ["create", "append", "resume"])
def test_a_file_in_the_place_of_the_new_folder(photos: Path, mode: Any) -> None:
    Path("out").write_text("a")
    with pytest.raises(FileExistsError, match="out is a file, but the new dataset is a folder"):
        bushel.pack("photos", "out", container="tar", mode=mode)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "gulp", "recordio"])
def test_a_refused_first_sample_is_not_in_the_way(tmp_path: Path, container: str) -> None:
    spec = {"image": "jpg"} if container == "gulp" else {"x": "int"}
    good = {"image": jpeg(1)} if container == "gulp" else {"x": 1}
    for mode in ("create", "append"):
        with (
            pytest.raises((CodecError, SpecError, ValueError, TypeError)),
            bushel.Writer(tmp_path / "out", spec, container=container, mode=mode) as writer,
        ):
            writer.append({"image" if container == "gulp" else "x": object()}, key="0")
        with bushel.Writer(tmp_path / "out", spec, container=container, mode=mode) as writer:
            writer.append(good, key=mode)
    assert len(bushel.open(tmp_path / "out")) == 2
