"""MappedFile: opening, single reads, and files that change while they are open."""

import os
from pathlib import Path

import numpy as np
import pytest

from bushel.kernels import ExtentError, MappedFile


def written(path: Path, data: bytes) -> MappedFile:
    path.write_bytes(data)
    return MappedFile(str(path))


def test_says_what_it_opened(tmp_path: Path) -> None:
    file = written(tmp_path / "x", b"0123456789")
    assert file.path == str(tmp_path / "x")
    assert file.size == 10
    assert file.mtime_ns == (tmp_path / "x").stat().st_mtime_ns


def test_reads_extents_to_the_very_end(tmp_path: Path) -> None:
    data = os.urandom(3 * 4096 + 17)
    file = written(tmp_path / "x", data)
    for _ in range(2):  # the second time from the map
        assert file.read(0, len(data)) == data
        assert file.read(4095, 2) == data[4095:4097]
        assert file.read(len(data) - 1, 1) == data[-1:]
        assert file.read(len(data), 0) == b""


def test_empty_file(tmp_path: Path) -> None:
    file = written(tmp_path / "x", b"")
    assert file.size == 0
    assert file.read(0, 0) == b""
    with pytest.raises(ExtentError, match="not inside"):
        file.read(0, 1)


def test_paths_of_any_bytes(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\xc3\xa9"
    Path(os.fsdecode(name)).write_bytes(b"x")
    for path in (name, os.fsdecode(name), Path(os.fsdecode(name))):
        file = MappedFile(path)
        assert file.path == os.fsdecode(name)
        assert file.read(0, 1) == b"x"
    with pytest.raises(ExtentError):
        MappedFile(name).read(0, 2)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        MappedFile(str(tmp_path / "none"))
    assert missing.value.filename == str(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        MappedFile(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="seek"):
        MappedFile(str(tmp_path / "pipe"))
    with pytest.raises(ValueError, match="null"):
        MappedFile("a\0b")
    with pytest.raises(TypeError):
        MappedFile(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offset", "length"), [(-1, 1), (0, 11), (10, 1), (11, 0), (2**63 - 1, 2**63 - 1), (1, 2**63 - 1)]
)
def test_extents_that_are_not_inside(tmp_path: Path, offset: int, length: int) -> None:
    file = written(tmp_path / "x", b"0123456789")
    with pytest.raises(ExtentError) as error:
        file.read(offset, length)
    assert (error.value.row, error.value.reason) == (0, "beyond")
    assert error.value.expected == min(offset + length, 2**63 - 1)
    assert error.value.found == 10


def test_negative_length(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="negative"):
        written(tmp_path / "x", b"0123456789").read(0, -1)


def test_a_file_that_shrinks_is_an_error_and_not_a_dead_process(tmp_path: Path) -> None:
    file = written(tmp_path / "x", os.urandom(100_000))
    file.read(0, 100_000)  # all pages are now read from the map, where a lost page would kill the process
    os.truncate(tmp_path / "x", 5000)
    for extent in ((50_000, 100), (0, 0), (0, 100)):
        with pytest.raises(ExtentError, match="shrunk") as error:
            file.read(*extent)
        assert (error.value.reason, error.value.expected, error.value.found) == ("shrunk", 100_000, 5000)


def test_a_file_that_grows_is_read_up_to_its_old_size(tmp_path: Path) -> None:
    file = written(tmp_path / "x", b"abc")
    with (tmp_path / "x").open("ab") as more:
        more.write(b"def")
    assert file.read(0, 3) == b"abc"
    with pytest.raises(ExtentError):
        file.read(0, 4)


def test_a_deleted_file_stays_readable(tmp_path: Path) -> None:
    file = written(tmp_path / "x", b"abc")
    (tmp_path / "x").unlink()
    assert file.read(0, 3) == b"abc"


def test_reading_into_memory(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    file, out = MappedFile(str(tmp_path / "x")), np.zeros(4, np.uint8)
    file.read_into(3, out)
    assert out.tobytes() == b"3456"
    for offset in (7, -1, (1 << 63) - 1):
        with pytest.raises(ExtentError):
            file.read_into(offset, out)
    os.truncate(tmp_path / "x", 5)
    with pytest.raises(ExtentError, match="shr"):
        file.read_into(3, out)
