from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.descriptors import open_files

from bushel.kernels import map_array


def test_the_whole_file_as_an_array_that_keeps_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)) * 100)
    array = map_array(tmp_path / "x")
    assert open_files(tmp_path) == []
    assert array.tobytes() == bytes(range(256)) * 100
    assert not array.flags.writeable
    part = array[256:260]
    (tmp_path / "x").unlink()
    del array
    assert part.tolist() == [0, 1, 2, 3]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert map_array(str(tmp_path / "x")).tolist() == []


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        map_array(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        map_array(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):
        map_array(tmp_path / "pipe")
