"""The samples that were removed from an opened folder stay out, whichever source reads its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sources.folders import image_folder

import bushel
from bushel.sources import Files, LabelledFolder, ListFile, Table, open_source


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six photos in three classes; two of them, all of class 1, are removed."""
    folder = image_folder(tmp_path / "photos", 6)
    keys = bushel.open(folder).keys
    assert len(keys) == 6
    (folder / "list.lst").write_text("".join(f"{n}\t{n % 3}\t{key}.jpg\n" for n, key in enumerate(keys)) + "9\tbad\n")
    (folder / "table.csv").write_text("path,y\n" + "".join(f"{key}.jpg,{n}\n" for n, key in enumerate(keys)))
    bushel.remove(folder, keys=[key for key in keys if bushel.open(folder)[key]["label"] == 1], reason="opt-out")
    return folder


SOURCES: dict[str, Callable[[Path], Any]] = {
    "pattern": lambda folder: open_source(f"{folder}/*/*.jpg"),
    "images": lambda folder: open_source(folder, "images"),
    "files": lambda folder: open_source(folder, "files"),
    "class": LabelledFolder,
    "class of files": Files,
    "list": lambda folder: ListFile(folder / "list.lst"),
    "table": lambda folder: Table(folder / "table.csv"),
    "rows": lambda folder: Table([{"path": f"{path}"} for path in sorted(folder.glob("*/*.jpg"))], root=folder),
}


@pytest.mark.parametrize("name", SOURCES)
def test_removed_samples_stay_out(photos: Path, name: str) -> None:
    remaining = {key.encode() for key in bushel.open(photos).keys}
    assert len(remaining) == 4
    source = SOURCES[name](photos)
    read = [source.origin(position) for position in range(len(source))]
    pictures = {path.removeprefix(f"{photos}/")[:-4].encode() for path in read if path.endswith(".jpg")}
    assert pictures == remaining
    assert sum(path.endswith((".lst", ".csv")) for path in read) == {"files": 2, "class of files": 2, "list": 1}.get(
        name, 0
    )


def test_classes_keep_their_numbers(photos: Path) -> None:
    """Also in another process, which makes the source from its listing."""
    source = LabelledFolder(photos)
    again = LabelledFolder(photos, listing=source.listing)
    opened = bushel.open(photos)
    for folder in (source, again):
        assert list(folder.labels["label"]) == list(opened.labels["label"])
        assert [folder[n]["label"] for n in range(4)] == [sample["label"] for sample in opened]
    assert source.fingerprint == again.fingerprint


def test_shards_in_a_folder_are_packed_as_files(tmp_path: Path) -> None:
    """A removed sample of a tar is a part of a file."""
    with bushel.Writer(tmp_path / "set", {"x": "int"}, container="tar", sync=False) as writer:
        writer.extend({"x": [1, 2]}, keys=["a", "b"])
    bushel.remove(tmp_path / "set", keys=["a"], reason="opt-out")
    assert len(Files(tmp_path / "set")) == 1
