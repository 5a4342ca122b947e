"""Plain files of a folder, where they lie."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, check_expected, expected

import bushel
from bushel.codecs import get_codec
from bushel.testing import READABLE_CHECKS, Golden, Readable

PHOTOS = FOREIGN / "folder" / "photos"


def photo(path: Path, level: int) -> bytes:
    """Write a small photo, and return its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytes(get_codec("jpg").encode(np.full((8, 8, 3), level, np.uint8)))
    path.write_bytes(data)
    return data


def test_a_tree_of_classes(tmp_path: Path) -> None:
    shutil.copytree(FOREIGN / "folder", tmp_path / "folder")
    check_expected("folder", tmp_path / "folder")


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(check: str, tmp_path: Path) -> None:
    wanted, decode = expected("folder")["samples"], get_codec("jpg").decode
    samples = [
        {"image": decode((PHOTOS / f"{each['key']}.jpg").read_bytes()), "label": each["values"]["label"]}
        for each in wanted
    ]
    READABLE_CHECKS[check](Readable("folder", Golden(PHOTOS, samples, [each["key"] for each in wanted]), tmp_path))


def test_files_that_share_a_name(tmp_path: Path) -> None:
    data = photo(tmp_path / "a" / "1.jpg", 10)
    photo(tmp_path / "a" / "2.jpg", 20)
    (tmp_path / "a" / "1.txt").write_text("one")
    (tmp_path / "a" / "1.seg.json").write_text('{"x": 1}')
    ds = bushel.open(tmp_path)
    assert ds.spec == {"jpg": "jpg", "seg.json": "json", "txt": "utf8"}
    assert list(ds.keys) == ["a/1", "a/2"]
    assert (ds["a/1"]["txt"], ds[0]["seg.json"]) == ("one", {"x": 1})
    assert ds.read([0], ["jpg"], decode=False)[0]["jpg"] == data
    assert set(ds[1]) == {"__key__", "jpg"}


def test_photos_of_several_kinds_and_hidden_files(tmp_path: Path) -> None:
    photo(tmp_path / "b.jpg", 1)
    (tmp_path / "a.png").write_bytes(bytes(get_codec("png").encode(np.zeros((4, 5, 3), np.uint8))))
    (tmp_path / ".DS_Store").write_bytes(b"\0")
    (tmp_path / ".cache").mkdir()
    photo(tmp_path / ".cache" / "c.jpg", 1)
    (tmp_path / "classes.txt").write_text("x")
    ds = bushel.open(tmp_path)
    assert (ds.spec, list(ds.keys), ds[0]["image"].shape) == ({"image": "image"}, ["a", "b"], (4, 5, 3))


def test_a_folder_without_media_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(bushel.FormatError, match="does not belong to any container"):
        bushel.open(tmp_path)


def test_other_containers_come_first(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "out", {"x": "int"}, container="tar") as writer:
        writer.append({"x": 1})
    photo(tmp_path / "out" / "preview.jpg", 1)
    assert bushel.open(tmp_path / "out").info.container == "tar"


def test_a_photo_that_changes_is_an_error(tmp_path: Path) -> None:
    photo(tmp_path / "a" / "1.jpg", 1)
    photo(tmp_path / "b" / "2.jpg", 2)
    ds = bushel.open(tmp_path)
    (tmp_path / "b" / "2.jpg").write_bytes(b"short")
    assert ds[0]["label"] == 0
    with pytest.raises(bushel.FormatError, match="has changed since"):
        ds[1]


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    wanted = [photo(tmp_path / "a" / f"{number:04d}.jpg", number % 200) for number in range(300)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        read = bushel.open(tmp_path).read(range(300), ["image"], decode=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each["image"] for each in read] == wanted
