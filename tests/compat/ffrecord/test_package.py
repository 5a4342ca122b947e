"""Packed folders."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.containers.ffrecord.by_hand import ffr

from bushel.compat.ffrecord import (
    FileWriter,
    MissingPathError,
    NoFileError,
    NoFolderError,
    PackedFolder,
    pack_folder,
)
from bushel.errors import FormatError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    for name, data in {"a.txt": b"A", "b/z.bin": b"Z" * 9, "b.txt": b"", "c.txt": b"C", "b/d/e": b"E"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "b/emptydir").mkdir()
    return root


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> PackedFolder:
    pack_folder(folder, tmp_path / "packed.ffr")
    return PackedFolder(tmp_path / "packed.ffr")


class TestPacking:
    def test_the_bytes_of_the_original(self, golden: Path, tmp_path: Path) -> None:
        old = golden / "ffrecord-1.4.0/packed-folder/data/packed.ffr"
        files = PackedFolder(old)
        for name in files.list(recursive=True):
            path = tmp_path / "folder" / name
            (path if files.is_dir(name) else path.parent).mkdir(parents=True, exist_ok=True)
            if files.is_file(name):
                path.write_bytes(files.read_one(name).tobytes())
        pack_folder(str(tmp_path / "folder"), str(tmp_path / "new.ffr"))
        assert (tmp_path / "new.ffr").read_bytes() == old.read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "new.ffr"]

    def test_depth_first_over_sorted_names(self, packed: PackedFolder) -> None:
        records = [one.tobytes() for one in packed.reader.read(range(packed.num_files()))]
        assert records == [b"A", b"E", b"Z" * 9, b"", b"C"]

    def test_nothing_and_nothing_but_empty_folders(self, tmp_path: Path) -> None:
        (tmp_path / "none").mkdir()
        pack_folder(tmp_path / "none", tmp_path / "none.ffr")
        assert PackedFolder(tmp_path / "none.ffr").list() == []
        assert PackedFolder(tmp_path / "none.ffr").num_files() == 0
        (tmp_path / "none/a/b").mkdir(parents=True)
        pack_folder(tmp_path / "none", tmp_path / "none.ffr")
        assert PackedFolder(tmp_path / "none.ffr").list(recursive=True) == ["a", "a/b"]

    def test_links_are_followed(self, folder: Path, tmp_path: Path) -> None:
        (folder / "link").symlink_to(folder / "b")
        pack_folder(folder, tmp_path / "packed.ffr")
        assert PackedFolder(tmp_path / "packed.ffr").read_one("link/z.bin").tobytes() == b"Z" * 9

    def test_verbose_names_each_file(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pack_folder(folder, tmp_path / "packed.ffr", verbose=True)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 5
        assert lines[0] == f"0/5 {folder}/a.txt"
        pack_folder(folder, tmp_path / "packed.ffr")
        assert capsys.readouterr().out == ""

    def test_into_the_folder_itself_and_again(self, folder: Path) -> None:
        for _ in range(2):
            pack_folder(folder, folder / "packed.ffr")
            assert PackedFolder(folder / "packed.ffr").num_files() == 5

    def test_a_file_that_cannot_be_read_leaves_nothing(self, folder: Path, tmp_path: Path) -> None:
        (folder / "b/gone").symlink_to("nowhere")
        with pytest.raises(FileNotFoundError, match="gone"):
            pack_folder(folder, tmp_path / "packed.ffr")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]

    def test_not_a_folder(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(NotADirectoryError):
            pack_folder(folder / "a.txt", tmp_path / "packed.ffr")
        with pytest.raises(AssertionError):
            pack_folder(folder / "none", tmp_path / "packed.ffr")
        with pytest.raises(ValueError, match="ends in"):
            pack_folder(folder, tmp_path / "packed")


class TestReading:
    def test_golden(self, golden: Path) -> None:
        manifest = golden / "ffrecord-1.4.0/packed-folder/manifest.json"
        noted = json.loads(manifest.read_text())
        files = PackedFolder(manifest.parent / noted["open"])
        assert files.num_files() == len(noted["samples"])
        for sample in noted["samples"]:
            assert hashlib.sha256(files.read(sample["key"]).tobytes()).hexdigest() == sample["fields"]["data"]["sha256"]
        assert files.list("just_another_folder", list_file=False) == ["another_folder", "empty dir"]

    def test_one_name_and_many(self, packed: PackedFolder) -> None:
        one = packed.read("b/z.bin")
        assert isinstance(one, np.ndarray)
        assert io.BytesIO(one.data).read() == b"Z" * 9
        assert packed.read_one(Path("b/z.bin")).tobytes() == b"Z" * 9
        assert [each.tobytes() for each in packed.read(["c.txt", Path("b.txt"), "c.txt"])] == [b"C", b"", b"C"]
        assert [each.tobytes() for each in packed.read(("a.txt",))] == [b"A"]
        assert packed.read([]) == []

    def test_listing_gives_files_then_folders(self, packed: PackedFolder) -> None:
        assert packed.list() == ["a.txt", "b.txt", "c.txt", "b"]
        assert packed.list("b") == packed.list(Path("b/")) == ["z.bin", "d", "emptydir"]
        assert packed.list("b", list_dir=False) == ["z.bin"]
        assert packed.list("b", list_file=False) == ["d", "emptydir"]
        assert packed.list("b/emptydir") == []
        assert packed.list(recursive=True) == [
            *("a.txt", "b.txt", "c.txt"),
            *("b", "b/z.bin", "b/d", "b/d/e", "b/emptydir"),
        ]
        assert packed.list(recursive=True, list_dir=False) == ["a.txt", "b.txt", "c.txt", "b/z.bin", "b/d/e"]

    def test_what_is_there(self, packed: PackedFolder) -> None:
        found = [(packed.exists(path), packed.is_file(path), packed.is_dir(path)) for path in ("b/d/e", "b/emptydir")]
        assert found == [(True, True, False), (True, False, True)]
        for path in ("none", "a.txt/x", "b/none", "../b", "/b"):
            assert not any((packed.exists(path), packed.is_file(path), packed.is_dir(path)))
        assert packed.is_dir("")

    def test_paths_that_are_something_else(self, packed: PackedFolder) -> None:
        for missing in ("none", "a.txt/x"):
            with pytest.raises(MissingPathError, match="does not exist"):
                packed.read_one(missing)
            with pytest.raises(FileNotFoundError):
                packed.list(missing)
        with pytest.raises(NoFileError, match="is not a file but a directory"):
            packed.read(["a.txt", "b"])
        with pytest.raises(NoFolderError, match="is not a directory but a file"):
            packed.list("a.txt")
        assert all(issubclass(kind, AssertionError) for kind in (MissingPathError, NoFileError, NoFolderError))

    def test_a_copy_in_another_process(self, packed: PackedFolder) -> None:
        assert pickle.loads(pickle.dumps(packed)).read("b/z.bin").tobytes() == b"Z" * 9

    def test_not_a_packed_folder(self, tmp_path: Path) -> None:
        for records in ([], [b"plain"]):
            with FileWriter(tmp_path / "x.ffr", len(records)) as writer:
                for record in records:
                    writer.write_one(record)
            with pytest.raises(ValueError, match="is not a packed folder"):
                PackedFolder(tmp_path / "x.ffr")

    def test_a_table_that_is_a_program(self, tmp_path: Path) -> None:
        (tmp_path / "evil.ffr").write_bytes(ffr([b"A", b"piouhjgbr" + pickle.dumps(print)]))
        with pytest.raises(FormatError, match="was not executed") as caught:
            PackedFolder(tmp_path / "evil.ffr")
        assert caught.value.file == str(tmp_path / "evil.ffr")
