"""Archives of class folders or with metadata have the labels and columns that a folder of the same files has."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.codecs import get_codec

Files = Mapping[str, bytes]
META = b"file_name,text\n"


def photo(level: int) -> bytes:
    return bytes(get_codec("jpg").encode(np.full((4, 4, 3), level, np.uint8)))


def as_folder(path: Path, files: Files) -> Path:
    for name, contents in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(contents)
    return path


def as_zip(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
        for name, contents in sorted(files.items()):
            archive.writestr(name, contents)
    return path.with_suffix(".zip")


def as_tar(path: Path, files: Files) -> Path:
    with tarfile.open(path.with_suffix(".tar"), "w") as archive:
        for name, contents in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
    return path.with_suffix(".tar")


ARCHIVES = pytest.mark.parametrize("archive", [as_zip, as_tar])
Archive = Callable[[Path, Files], Path]

CLASSES = {f"{name}/{number}.jpg": photo(number) for name in ("cat", "dog", "elk") for number in range(3)}
LAYOUTS: dict[str, Files] = {
    "classes": CLASSES,
    "one class": {name: each for name, each in CLASSES.items() if name.startswith("cat")},
    "no classes": {"a.jpg": photo(1), "b.jpg": photo(2)},
    "upper case": {"cat/A.JPG": photo(1), "dog/B.Jpg": photo(2)},
    "deeper folders": {"cat/x/1.jpg": photo(1), "dog/y/2.jpg": photo(2)},
    "a stray text": {**CLASSES, "README.md": b"x", "cat/note.txt": b"x"},
    "a stray photo": {**CLASSES, "x.jpg": photo(9)},
    "a stray clip": {**CLASSES, "dog/x.mp4": b"x"},
    "most outside": {"a.jpg": photo(1), "b.jpg": photo(2), "x/c.jpg": photo(3)},
    "junk of macOS": {**CLASSES, "__MACOSX/cat/._0.jpg": b"x", "cat/._0.jpg": b"x", ".DS_Store": b"x"},
    "splits": {"train/cat/1.jpg": photo(1), "train/dog/1.jpg": photo(2), "val/cat/2.jpg": photo(3)},
    "captions": {"x/a.jpg": photo(1), "x/a.txt": b"1", "y/b.jpg": photo(2), "y/b.txt": b"2"},
    "metadata": {"a.jpg": photo(1), "b.jpg": photo(2), "metadata.csv": META + b"b.jpg,two\na.jpg,one\n"},
    "metadata of JSON": {"a.JPG": photo(1), "metadata.jsonl": b'{"file_name": "a.JPG", "text": "one", "n": 1.5}\n'},
    "metadata in class folders": {**CLASSES, "cat/metadata.csv": META + b"0.jpg,x\n./1.jpg,\n"},
    "several rows for a file": {"a.jpg": photo(1), "b.jpg": photo(2), "metadata.csv": META + b"a.jpg,x\na.jpg,y\n"},
}


def contents(dataset: bushel.Dataset) -> list[dict[str, Any]]:
    """Return keys, stored files, and values of other fields; the name of the only field of files does not matter."""
    found = []
    for position, stored in enumerate(dataset.read(range(len(dataset)), decode=False)):
        values: dict[str, Any] = {"key": stored.pop("__key__")}
        for name, each in stored.items():
            media = name in ("jpg", "image")
            values["file" if media else name] = (
                bytes(each) if media else dataset.decode_sample({name: each}, position)[name]
            )
        found.append(values)
    return found


@ARCHIVES
@pytest.mark.parametrize("title", LAYOUTS)
def test_the_labels_and_metadata_of_a_folder(title: str, archive: Archive, tmp_path: Path) -> None:
    files = LAYOUTS[title]
    folder = bushel.open(as_folder(tmp_path / "folder", files), split="all" if title == "splits" else None)
    for _ in range(2):  # scanned, and by its index
        opened = bushel.open(archive(tmp_path / "packed", files))
        assert contents(opened) == contents(folder)
        assert dict(opened.labels) == dict(folder.labels)
        for name in {"label", "text", "n"} & set(opened.spec):
            assert opened.spec[name] == folder.spec[name]
            assert opened.column(name).tolist() == folder.column(name).tolist()
    again = pickle.loads(pickle.dumps(opened))
    assert contents(again) == contents(folder)
    bushel.pack(opened, tmp_path / "out", container="bag" if title != "metadata in class folders" else "tar")
    assert contents(bushel.open(tmp_path / "out")) == contents(folder)


@ARCHIVES
def test_classes_are_those_of_all_archives(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    archive(tmp_path / "in/a", {"cat/1.jpg": photo(1), "elk/1.jpg": photo(2)})
    archive(tmp_path / "in/b", {"dog/2.jpg": photo(3), "elk/2.jpg": photo(4)})
    opened = bushel.open(tmp_path / "in")
    assert opened.labels["label"] == ("cat", "dog", "elk")
    assert opened.column("label").tolist() == [0, 2, 1, 2]
    assert [opened[at]["label"] for at in range(4)] == [0, 2, 1, 2]
    assert [sample["label"] for sample in opened.where("label == 2")] == [2, 2]


@ARCHIVES
def test_classes_are_those_of_all_splits(archive: Archive, tmp_path: Path) -> None:
    train = archive(tmp_path / "train", {"cat/1.jpg": photo(1), "dog/1.jpg": photo(2), "elk/1.jpg": photo(3)})
    test = archive(tmp_path / "test", {"cat/2.jpg": photo(4), "elk/2.jpg": photo(5)})
    for opened in (bushel.open(test), bushel.open(tmp_path, split="test")):
        assert (opened.labels["label"], opened["elk/2"]["label"]) == (("cat", "dog", "elk"), 2)
    assert bushel.open(train).column("label").tolist() == [0, 1, 2]


@ARCHIVES
@pytest.mark.parametrize("indexed", [True, False])
def test_labels_of_several_archives_are_those_of_their_names(archive: Archive, indexed: bool, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    archive(tmp_path / "in/a", {"cat/1.jpg": photo(1), "elk/1.jpg": photo(2)})
    archive(tmp_path / "in/b", {"dog/2.jpg": photo(3), "elk/2.jpg": photo(4)})
    made = bushel.index(tmp_path / "in") if indexed else bushel.open(tmp_path / "in")
    opened = bushel.open(tmp_path / "in")
    for dataset in (opened, pickle.loads(pickle.dumps(opened))):
        assert contents(dataset) == contents(made)
        assert [dataset[at]["label"] for at in range(4)] == [0, 2, 1, 2]
        assert dataset.column("label").tolist() == [0, 2, 1, 2]
    assert opened.labels == made.labels
    assert opened.fingerprint == made.fingerprint
    assert bushel.verify(tmp_path / "in").ok
    archive(tmp_path / "in/b", {"ant/2.jpg": photo(3), "elk/2.jpg": photo(4)})
    assert bushel.open(tmp_path / "in").column("label").tolist() == [1, 2, 0, 2]
    first = sorted(path for path in (tmp_path / "in").iterdir() if path.is_file())[0]
    assert bushel.open(first).labels["label"] == ("cat", "elk")


@ARCHIVES
def test_labels_are_numbered_with_the_other_splits_as_they_are(archive: Archive, tmp_path: Path) -> None:
    train = archive(tmp_path / "train", {"cat/1.jpg": photo(1), "elk/1.jpg": photo(2)})
    archive(tmp_path / "val", {"dog/1.jpg": photo(3)})
    for _ in range(2):
        assert bushel.open(train).column("label").tolist() == [0, 2]
    archive(tmp_path / "val", {"ant/1.jpg": photo(3), "bee/1.jpg": photo(3)})
    for _ in range(2):
        assert bushel.open(train).column("label").tolist() == [2, 3]


@ARCHIVES
def test_folders_of_one_split_are_no_classes(archive: Archive, tmp_path: Path) -> None:
    splits = {f"{split}/{number}.jpg": photo(number) for split in ("train", "test") for number in range(3)}
    path = archive(tmp_path / "set", splits)
    bushel.pack(path, tmp_path / "test.tar", split="test")
    packed = bushel.open(tmp_path / "test.tar")
    assert (list(packed.keys), packed.spec) == ([f"test/{number}" for number in range(3)], {"jpg": "jpg"})


JPGS, PNG = [photo(level) for level in range(4)], bytes(get_codec("png").encode(np.full((4, 4), 9, np.uint8)))
YOLO = {f"images/{number}.jpg": JPGS[number] for number in range(3)}
YOLO |= {f"labels/{number}.txt": b"%d .5 .5 .1 .1" % number for number in range(3)}
FIELDS: dict[str, Files] = {
    "images and labels": YOLO,
    "in a folder around them": {f"coco.v1/{name}": each for name, each in YOLO.items()},
    "masks of the same suffix": {f"{name}/{at}.jpg": JPGS[at] for name in ("images", "masks") for at in range(3)},
    "three fields": {"JPEGImages/a.jpg": JPGS[0], "Annotations/a.xml": b"<a/>", "SegmentationClass/a.png": PNG},
    "images of two kinds": {"images/a.jpg": JPGS[0], "images/b.png": PNG, "masks/a.png": PNG, "masks/b.png": PNG},
    "upper case": {"Images/A.JPG": JPGS[0], "Labels/A.TXT": b"x"},
    "names with dots": {**YOLO, "images/9.v1.jpg": JPGS[3], "labels/9.v1.txt": b"9"},
    "an image without a label": {**YOLO, "images/9.jpg": JPGS[3]},
    "labels without an image": {**YOLO, "labels/8.txt": b"8", "labels/classes": b"x", "labels/x.json": b"{}"},
    "two labels of an image": {**YOLO, "labels/0.json": b"{}"},
    "files beside the folders": {**YOLO, "data.yaml": b"x", "README.md": b"x"},
    "junk": {**YOLO, "images/._0.jpg": b"x", "labels/.DS_Store": b"x", ".old/x.jpg": JPGS[3], "images/.h.jpg": JPGS[3]},
    "in folders of splits": {
        f"{split}/{name}": each
        for split in ("train", "val")
        for name, each in YOLO.items()
        if split[0] == "t" or "0" in name
    },
    "splits in the folders": {
        name.replace("/", "/val/" if "0" in name else "/train/"): each for name, each in YOLO.items()
    },
    "classes in the folders": {name.replace("/", "/cat/"): each for name, each in YOLO.items()},
    "fields inside of classes": {"cat/images/a.jpg": JPGS[0], "cat/images/b.jpg": JPGS[1], "dog/labels/a.jpg": JPGS[2]},
    "other folders, too": {**YOLO, "notes/a.jpg": JPGS[3]},
}


@ARCHIVES
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("title", FIELDS)
def test_folders_of_fields_are_joined(title: str, archive: Archive, compressed: bool, tmp_path: Path) -> None:
    files, split = FIELDS[title], "all" if "splits" in title else None
    folder = bushel.open(as_folder(tmp_path / "folder", files), split=split)
    path = archive(tmp_path / "set", files)
    if compressed and path.suffix == ".tar":
        path = compressed_tar(path)
        bushel.index(path)
    elif compressed:
        path = deflated(path, files)
    for _ in range(2):  # scanned, and by its index
        opened = bushel.open(path)
        assert repr(contents(opened)) == repr(contents(folder))
        assert dict(opened.labels) == dict(folder.labels)
        if "image" in opened.spec:
            assert opened.spec == folder.spec
    again = pickle.loads(pickle.dumps(opened))
    assert repr(contents(again)) == repr(contents(folder))
    if split is not None:
        for name in ("train", "val"):
            of_folder = bushel.open(tmp_path / "folder", split=name)
            of_archive = [key.removeprefix(f"{name}/") for key in bushel.open(path, split=name).keys]
            assert of_archive == [key.removeprefix(f"{name}/") for key in of_folder.keys]
    indexed = bushel.index(path)
    assert indexed.fingerprint == bushel.open(path).fingerprint
    assert bushel.verify(path).ok
    bushel.convert(path, tmp_path / "out", container="bag" if "dots" in title else "tar")
    assert repr(contents(bushel.open(tmp_path / "out"))) == repr(contents(folder))


def compressed_tar(path: Path) -> Path:
    path.with_suffix(".tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    return path.with_suffix(".tar.gz")


def deflated(path: Path, files: Files) -> Path:
    """Write a zip file again: its texts by deflate, its photos as they are."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, each in files.items():
            archive.writestr(name, each, zipfile.ZIP_STORED if name.endswith("g") else zipfile.ZIP_DEFLATED)
    return path


@ARCHIVES
def test_folders_of_fields_are_not_joined(archive: Archive, tmp_path: Path) -> None:
    """Files of other names in one of several archives, and a field that the caller declares."""
    (tmp_path / "in").mkdir()
    archive(tmp_path / "in/a", YOLO)
    archive(tmp_path / "in/b", {"images/8.jpg": JPGS[3], "labels/8.txt": b"8"})
    assert list(bushel.open(tmp_path / "in").keys) == ["0", "1", "2", "8"]
    archive(tmp_path / "in/b", {"images/8.jpg": JPGS[3], "labels/of_8.txt": b"8"})
    assert set(bushel.open(tmp_path / "in").spec) == {"jpg", "txt"}
    declared = bushel.open(archive(tmp_path / "set", YOLO), spec={"txt": "bytes"})
    assert (len(declared), bytes(declared["labels/0"]["txt"])) == (6, YOLO["labels/0.txt"])


@ARCHIVES
def test_a_hidden_folder_is_no_class(archive: Archive, tmp_path: Path) -> None:
    hidden = {f"{folder}/{number}.jpg": photo(number) for folder in (".cache", "cat/.old") for number in range(9)}
    opened = bushel.open(archive(tmp_path / "set", {**CLASSES, **hidden}))
    assert contents(opened) == contents(bushel.open(as_folder(tmp_path / "folder", {**CLASSES, **hidden})))
    assert opened.labels == {"label": ("cat", "dog", "elk")}


@ARCHIVES
def test_a_removed_sample_stays_out(archive: Archive, tmp_path: Path) -> None:
    path = archive(tmp_path / "set", CLASSES)
    before = bushel.open(path)
    bushel.remove(path, keys=["dog/1"], reason="asked")
    after = bushel.open(path)
    assert (len(before), len(after), "dog/1" in after) == (9, 8, False)
    assert after["elk/2"]["label"] == 2


@ARCHIVES
def test_indexed_and_verified_it_is_the_same(archive: Archive, tmp_path: Path) -> None:
    path = archive(tmp_path / "set", CLASSES)
    indexed = bushel.index(path)
    opened = bushel.open(path)
    assert contents(opened) == contents(indexed)
    assert opened.fingerprint == indexed.fingerprint
    assert bushel.verify(path).ok


@ARCHIVES
def test_a_declared_field_is_read(archive: Archive, tmp_path: Path) -> None:
    path = archive(tmp_path / "set", {**CLASSES, "cat/0.txt": b"a cat"})
    assert bushel.open(path, spec={"txt": "utf8"})["cat/0"]["txt"] == "a cat"


@ARCHIVES
def test_it_is_said(archive: Archive, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bushel.open(archive(tmp_path / "set", LAYOUTS["a stray photo"]))
    assert "3 classes, 9 images; left out: 1 file (1 outside class folders)" in caplog.text


@ARCHIVES
def test_a_named_container_is_read_by_its_members(archive: Archive, tmp_path: Path) -> None:
    path = archive(tmp_path / "set", LAYOUTS["metadata"])
    opened = bushel.open(path, container=path.suffix[1:])
    assert (list(opened.keys), list(opened.spec)) == (["a", "b", "metadata"], ["jpg", "csv"])


@pytest.mark.parametrize("codec", ["jpg", "image"])
def test_a_field_that_a_writer_names_is_no_suffix(codec: str, tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "set.tar", {"image": codec}) as writer:
        for name, contents_of_file in CLASSES.items():
            writer.append({"image": contents_of_file}, key=name[:-4])
    assert list(bushel.open(tmp_path / "set.tar").spec) == ["image"]


TABLE = META + b"train/1.jpg,one\n./test/2.jpg,two\ntest\\3.jpg,three\n"
WITH_TABLE = {"train/1.jpg": photo(1), "test/2.jpg": photo(2), "test/3.jpg": photo(3), "metadata.csv": TABLE}
TEXTS = {"train": [["1", "one"]], "testing": [["2", "two"], ["3", "three"]]}


@pytest.mark.parametrize("made", [as_folder, as_zip, as_tar])
def test_a_table_above_splits_is_of_each_of_them(made: Archive, tmp_path: Path) -> None:
    path = made(tmp_path / "set", WITH_TABLE)
    for number, (split, rows) in enumerate({**TEXTS, "all": sum(TEXTS.values(), [])}.items()):
        bushel.pack(path, tmp_path / f"{number}.tar", split=split)
        for opened in (bushel.open(path, split=split), bushel.open(tmp_path / f"{number}.tar")):
            assert [[sample["__key__"].rpartition("/")[2], sample["text"]] for sample in opened] == rows
    with pytest.raises(bushel.SpecError, match=r"has no split 'val' .* train"):
        bushel.open(path, split="val")
    assert len(bushel.index(path)) == 3
    assert bushel.verify(path).ok


def test_a_table_above_a_split_may_name_none_of_its_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = as_folder(tmp_path / "set", {**WITH_TABLE, "metadata.csv": META + b"train/1.jpg,one\n"})
    assert set(bushel.open(path, split="test").spec) == {"image"}
    assert "0 of 1 rows of metadata.csv name its files" in caplog.text
    (path / "metadata.csv").write_bytes(META + b"test/9.jpg,one\n")
    with pytest.raises(bushel.FormatError, match="name 'test/9.jpg', which does not exist"):
        bushel.open(path / "test")
    (path / "metadata.csv").write_bytes(META + b"val/9.jpg,one\n")
    with pytest.raises(bushel.FormatError, match="name 'val/9.jpg', which does not exist"):
        bushel.open(path, split="train")
