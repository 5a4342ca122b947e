"""Errors have the classes of FFRecord, and arguments are those that it accepts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel.compat.ffrecord import FileReader, FileWriter, PackedFolder, pack_folder


def write(path: Path, *records: bytes) -> str:
    with FileWriter(path, len(records)) as writer:
        for record in records:
            writer.write_one(record)
    return str(path)


def test_numbers_of_numpy(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "a.ffr", np.int64(1))  # type: ignore[arg-type]
    writer.write_one(b"abc")
    writer.close()
    assert (writer.n, type(writer.n)) == (1, int)
    assert FileReader(tmp_path / "a.ffr").read({0})[0].tobytes() == b"abc"  # type: ignore[arg-type]
    for number in (1.0, "1", None):
        wrong: Any = number
        with pytest.raises(TypeError):
            FileWriter(tmp_path / "b.ffr", wrong)
    assert not (tmp_path / "b.ffr").exists()


def test_paths_that_are_none(tmp_path: Path) -> None:
    wrong: Any
    for wrong in (None, 5, b"a.ffr"):
        with pytest.raises(AssertionError):
            FileWriter(wrong, 1)
        with pytest.raises(TypeError):
            FileReader(wrong)
    with pytest.raises(AssertionError):
        FileReader([])
    wrong = [None]
    for source in (wrong, str(tmp_path / "no.ffr"), str(tmp_path)):
        with pytest.raises(AssertionError) as error:
            FileReader(source)
        assert isinstance(error.value, FileNotFoundError)
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(AssertionError, match=r"ends in \.ffr"):
        FileReader(tmp_path / "a.bin")
    with pytest.raises(RuntimeError, match="no such folder"):
        FileWriter(tmp_path / "no" / "a.ffr", 1)
    assert not (tmp_path / "no").exists()


def test_paths_of_a_packed_folder(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"abc")
    pack_folder(tmp_path / "tree", tmp_path / "p.ffr")
    wrong: Any = 5
    with pytest.raises(AssertionError):
        PackedFolder(tmp_path / "p.ffr").read(wrong)


def test_a_reader_survives_pickling(tmp_path: Path) -> None:
    reader = FileReader(write(tmp_path / "a.ffr", b"x", b"y"))
    assert pickle.loads(pickle.dumps(reader)).read_one(1).tobytes() == b"y"


def test_datasets(tmp_path: Path) -> None:
    torch = pytest.importorskip("bushel.compat.ffrecord.torch", exc_type=ImportError)
    with pytest.raises(AssertionError):
        torch.ConcatDataset([])
    with pytest.raises(AssertionError):
        torch.ConcatDataset([[1]])


def test_packing_prints_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"abc")
    monkeypatch.chdir(tmp_path)
    pack_folder("tree", "p.ffr", verbose=True)
    assert capsys.readouterr().out == f"0/1 {tmp_path / 'tree' / 'a'}\n"
