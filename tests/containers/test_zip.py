"""Zip archives, read in place."""

from __future__ import annotations

import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from tests.containers.read_in_place import FOREIGN, check_damaged, check_expected
from tests.containers.zip_archives import written
from tests.sources.folders import jpeg

import bushel
from bushel.errors import BushelError, FormatError
from bushel.testing import READABLE_CHECKS, Golden, Readable

each_dataset = pytest.mark.parametrize("name", ["zip-stored", "zip-deflated"])


@each_dataset
def test_what_is_in_the_archive_comes_out(name: str) -> None:
    check_expected(name, FOREIGN / name / "set.zip", index="memory", verify=True)
    dataset = bushel.open(FOREIGN / name / "set.zip", index="memory")
    assert dataset.info.container == "zip"
    assert dataset.info.checksums


@each_dataset
@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_conformance(name: str, check: str, tmp_path: Path) -> None:
    path = FOREIGN / name / "set.zip"
    dataset = bushel.open(path, index="memory")
    samples = [{name: value for name, value in sample.items() if name != "__key__"} for sample in dataset]
    READABLE_CHECKS[check](Readable("zip", Golden(path, samples, list(dataset.keys)), tmp_path))


def test_members_of_a_sample_need_not_be_adjacent(tmp_path: Path) -> None:
    members = {"b.txt": b"two", "a.txt": b"one", "note": b"no sample", "a.cls": b"1", "b.cls": b"2", "e.txt": b""}
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        dataset = bushel.open(written(tmp_path / f"{compression}.zip", members, compression), verify=True)
        assert list(dataset) == [
            {"__key__": "b", "txt": "two", "cls": 2},
            {"__key__": "a", "txt": "one", "cls": 1},
            {"__key__": "e", "txt": ""},
        ]


def test_stored_and_compressed_members_in_one_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(20):
            method = zipfile.ZIP_DEFLATED if number % 3 else zipfile.ZIP_STORED
            archive.writestr(f"{number}.txt", str(number) * 1000, method)
    dataset = bushel.open(tmp_path / "x.zip", verify=True)
    assert [sample["txt"] for sample in dataset] == [str(number) * 1000 for number in range(20)]


def test_an_archive_after_other_bytes_and_an_empty_one(tmp_path: Path) -> None:
    whole = written(tmp_path / "x.zip", {"a.txt": b"one"}).read_bytes()
    (tmp_path / "behind.zip").write_bytes(bytes(1000) + whole)
    assert bushel.open(tmp_path / "behind.zip")[0]["txt"] == "one"
    assert len(bushel.open(written(tmp_path / "empty.zip", {}))) == 0


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no archive at all")
    with pytest.raises(FormatError, match="not a zip archive"):
        bushel.open(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "y.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.txt", b"one" * 100)
    with pytest.raises(FormatError, match=r"'a\.txt' has compression 14.*extract"):
        bushel.open(tmp_path / "y.zip")
    data = bytearray(written(tmp_path / "z.zip", {"a.txt": b"one"}).read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "z.zip").write_bytes(data)
    with pytest.raises(FormatError, match="is encrypted"):
        bushel.open(tmp_path / "z.zip")


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path / "x.zip", {"a.bin": bytes(1 << 20)}, zipfile.ZIP_DEFLATED).read_bytes())
    at = data.index(b"PK\1\2") + 24
    data[at : at + 4] = (0xFFFF0000).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(BushelError):
        bushel.open(tmp_path / "x.zip")[0]


@each_dataset
def test_damage_gives_an_error_that_names_the_file_or_other_values(name: str, tmp_path: Path) -> None:
    data = (FOREIGN / name / "set.zip").read_bytes()
    check_damaged(data, tmp_path / "x.zip", data.index(b"PK\1\2"), name)


def test_a_member_without_a_name_belongs_to_no_sample(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path / "x.zip", {"a.txt": b"one", "b.txt": b"two"}).read_bytes())
    at = data.rindex(b"PK\1\2")
    data[at + 46 : at + 51] = b"\0.txt"  # Python's zipfile cuts names at a zero byte
    (tmp_path / "x.zip").write_bytes(data)
    assert [sample["txt"] for sample in bushel.open(tmp_path / "x.zip", index="memory")] == ["one"]


def test_hidden_files_and_those_of_macos_are_not_samples(tmp_path: Path) -> None:
    members = {
        "__MACOSX/x/._a.txt": b"no",
        "x/._a.txt": b"no",
        "x/a.txt": b"one",
        "x/.hidden": b"no",
        ".git/b.txt": b"no",
    }
    dataset = bushel.open(written(tmp_path / "x.zip", members), index="memory")
    assert list(dataset) == [{"__key__": "x/a", "txt": "one"}]
    assert list(bushel.open(written(tmp_path / "y.zip", {"../up/b.txt": b"two"}), index="memory").keys) == ["../up/b"]


def test_folders_of_classes_and_metadata_are_read_as_in_a_tar(tmp_path: Path) -> None:
    members = {f"{name}/{number}.jpg": jpeg(number) for number in range(3) for name in ("dog", "cat")}
    members["metadata.csv"] = b"file_name,caption\n" + b"".join(b"%s,text\n" % name.encode() for name in members)
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, BytesIO(data))
    found = bushel.open(written(tmp_path / "x.zip", members), index="memory")
    expected = bushel.open(tmp_path / "x.tar", index="memory")
    assert (found.spec, list(found.keys), found.labels) == (expected.spec, list(expected.keys), expected.labels)
    every = range(len(expected))
    assert found.read(every, decode=False) == expected.read(every, decode=False)


def test_several_archives_of_one_dataset(tmp_path: Path) -> None:
    for number in range(3):
        written(tmp_path / f"photos-{number:03}.zip", {f"cat/{number}.jpg": jpeg(number), f"dog/{number}.txt": b"one"})
    dataset = bushel.open(tmp_path, index="memory", verify=True)
    assert list(dataset.keys) == ["cat/0", "dog/0", "cat/1", "dog/1", "cat/2", "dog/2"]
    assert list(dataset.spec) == ["jpg", "txt"]


def test_folders_divided_by_backslashes_are_folders(tmp_path: Path) -> None:
    path = tmp_path / "windows.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("cat\\", "cat\\0.jpg", "dog\\1.jpg", "dog\\Thumbs.db"):
            archive.writestr(zipfile.ZipInfo(name), b"" if name.endswith("\\") else jpeg(0))
    dataset = bushel.open(path, index="memory")
    assert list(dataset.keys) == ["cat/0", "dog/1"]
    assert dataset.labels == {"label": ("cat", "dog")}
    assert bushel.verify(path).ok
