"""One line of the log says how a folder was understood, the same for everything that reads it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests._recognise.photos import stored

import bushel

READERS: dict[str, Callable[[Path, str | None], object]] = {
    "open": lambda path, split: bushel.open(path, split=split),
    "pack": lambda path, split: bushel.pack(path, path.parent / "packed", container="tar", split=split),
    "convert": lambda path, split: bushel.convert(path, path.parent / "out", container="tar", split=split),
    "index": lambda path, _: bushel.index(path),
    "verify": lambda path, _: bushel.verify(path),
    "a source": lambda path, _: bushel.sources.open_source(path),
}
ADVICE = "; spec={'txt': TYPE} reads such files as a field"
LAYOUTS = {
    "classes": (["cat/0.jpg", "cat/1.jpg", "dog/0.jpg"], "2 classes, 3 images"),
    "splits": (
        ["train/cat/0.jpg", "train/dog/0.jpg", "val/cat/0.jpg"],
        "2 splits, 2 classes, 3 images",
    ),
    "strays": (
        ["cat/0.jpg", "cat/1.jpg", "dog/0.jpg", "cat/._0.jpg", "cat/.DS_Store", "cat/notes.txt"],
        f"2 classes, 3 images; left out: 3 files (1 .DS_Store, 1 ._*, 1 .txt){ADVICE}",
    ),
    "a table": (
        ["cat/0.jpg", "dog/0.jpg", "labels.csv"],
        "2 classes, 2 images; left out: 1 file (1 .csv); spec={'csv': TYPE} reads such files as a field, "
        "and bushel.open(FILE) the rows of one (docs/references.md)",
    ),
    "masks beside photos": (
        ["0.jpg", "0_mask.png", "1.jpg", "1_mask.png"],
        "4 images; '0_mask' is named after another file and a field, but each of them is a sample of its own: "
        "name both in the rows of a table (docs/references.md)",
    ),
    "words that name no field": (["0.jpg", "0_left.jpg", "mask_0.jpg", "1_mask.jpg"], "4 images"),
    "splits with strays": (
        ["train/cat/0.jpg", "val/cat/0.jpg", "val/cat/._0.jpg", "val/cat/a.txt"],
        f"2 splits, 1 class, 2 images; left out: 2 files (1 ._*, 1 .txt){ADVICE}",
    ),
    "junk alone": (
        ["a.jpg", "b.jpg", ".ipynb_checkpoints/b.jpg", "b.jpg~"],
        "2 images; left out: 2 files (1 *~, 1 .ipynb_checkpoints)",
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_line_says_what_was_understood(
    layout: str, reader: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names, line = LAYOUTS[layout]
    if reader == "a source" and "split" in layout:
        pytest.skip("a source is one split")
    for name in names:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored(name))
    caplog.set_level("INFO", "bushel")
    READERS[reader](tmp_path / "photos", "all" if "split" in layout else None)
    said = [record.getMessage() for record in caplog.records if " image" in record.getMessage()]
    assert said == [f"{tmp_path / 'photos'}: {line}"]


def test_zip_files_count_what_is_left_out_as_folders_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = ["cat/0.jpg", "dog/0.jpg", ".x.jpg", "cat/.DS_Store", "cat/._0.jpg", "cat/0.jpg~", "dog/nothing"]
    names += [".git/a.jpg", ".git/b.jpg", "cat/.cache/c.jpg", "__MACOSX/cat/._0.jpg", ".ipynb_checkpoints/0.jpg"]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            path = tmp_path / "photos" / name
            if not path.parent.exists():
                path.parent.mkdir(parents=True)
                archive.writestr(f"{path.parent.relative_to(tmp_path / 'photos')}/", b"")
            path.write_bytes(stored(name))
            archive.write(path, name)
    kinds = "2 ._*, 2 hidden folder, 1 *~, 1 .DS_Store, 1 .ipynb_checkpoints, …"
    for path in (tmp_path / "photos", tmp_path / "x.zip"):
        caplog.clear()
        assert list(bushel.open(path, index="memory").keys) == ["cat/0", "dog/0"]
        assert f"left out: 9 files ({kinds})" in caplog.text


def test_folders_of_fields_whose_files_have_other_names_are_not_joined_in_archives_as_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(3):
            archive.writestr(f"coco/images/{number}.jpg", stored("0.jpg"))
            archive.writestr(f"coco/labels/of_{number}.txt", "0 .5 .5 .1 .1")
    assert len(bushel.open(tmp_path / "x.zip", index="memory")) == 6
    assert "but only 0 of 3 have the name of an image" in caplog.text
    assert "each file is a sample" in caplog.text
