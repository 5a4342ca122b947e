"""Where the directory of a zip archive is."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.containers.zip_archives import check, written

import bushel
from bushel.containers.zip import data_of, directory_of
from bushel.errors import FormatError
from bushel.storage import open_file

MEMBERS = {"a.txt": b"one", "a.cls": b"1", "b.txt": b"two"}


class _Counted:
    """A file that is not mapped, and counts its reads."""

    def __init__(self, data: bytes) -> None:
        self.path, self.data, self.size, self.mtime_ns = "memory", data, len(data), 0
        self.reads = list[tuple[int, int]]()

    def read(self, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return self.data[offset : offset + length]


def large(entries: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(entries):
            archive.writestr(f"{number:090d}.txt", b"x")
    return out.getvalue()


def names(file: object) -> Iterator[str]:
    for _, part in directory_of(file).entries():  # type: ignore[arg-type]
        yield from part.names.tolist()


def test_a_directory_is_read_with_few_requests() -> None:
    for entries, reads in ((100, 1), (1000, 2), (70_000, 3)):
        file = _Counted(large(entries))
        assert list(names(file)) == [f"{number:090d}.txt" for number in range(entries)]
        assert len(file.reads) == reads
        assert sum(length for _, length in file.reads) < 2 * 65_700 + 140 * entries


def test_comments_other_bytes_and_zip64(tmp_path: Path) -> None:
    path = written(tmp_path / "x.zip", MEMBERS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"PK\1\2 " * 10_000
    assert check(path) == 2
    path.write_bytes(b"#!/bin/sh\n" * 100 + path.read_bytes())
    assert check(path) == 2
    for before, after in ((b"", b""), (b"before" * 99, b"\0\0\0")):
        path.write_bytes(before + zip64(written(tmp_path / "y.zip", MEMBERS).read_bytes()) + after)
        assert check(path) == 2


def test_a_comment_with_the_mark_of_the_end_is_no_end(tmp_path: Path) -> None:
    path = written(tmp_path / "x.zip", MEMBERS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"PK\5\6" + b"a comment PK\5\6 " * 1000
    before = bushel.open(written(tmp_path / "y.zip", MEMBERS), index="memory")
    assert list(bushel.open(path, index="memory")) == list(before)


def zip64(data: bytes) -> bytes:
    """Return an archive whose end is described by the records of zip64."""
    at = data.rindex(b"PK\5\6")
    count, size, offset = struct.unpack_from("<HLL", data, at + 10)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    ones = struct.pack("<4s4H2LH", b"PK\5\6", 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:at] + record + locator + ones


def test_parts_of_archives_are_refused(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path / "x.zip", MEMBERS).read_bytes())
    data[data.rindex(b"PK\5\6") + 4] = 2
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(FormatError, match=r"last of several files.*zip -s 0"):
        bushel.open(tmp_path / "x.zip")
    data = bytearray(zip64(written(tmp_path / "x.zip", MEMBERS).read_bytes()))
    data[data.rindex(b"PK\6\7") + 16] = 3
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(FormatError, match="last of several files"):
        bushel.open(tmp_path / "x.zip")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-1], "does not end with a directory"),
        (lambda data: data[:-22], "does not end with a directory"),
        (lambda _: b"", "does not end with a directory"),
        (lambda data: data[-22:-10] + b"\xff\xff\0\0" + data[-6:], "would begin before the file"),
        (
            lambda data: data[: data.index(b"PK\1\2")] + b"!" + data[data.index(b"PK\1\2") + 1 :],
            "no entry of the directory",
        ),
    ],
)
def test_damaged_ends(tmp_path: Path, change: Callable[[bytes], bytes], said: str) -> None:
    path = written(tmp_path / "x.zip", MEMBERS)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=rf"x\.zip.*not a zip archive that can be read: .*{said}"):
        bushel.open(path)


def test_where_data_begin_in_files_of_both_kinds(tmp_path: Path) -> None:
    path = written(tmp_path / "x.zip", MEMBERS)
    header = np.array([-1, 0, 1, 38, path.stat().st_size - 29], np.int64)
    expected = [-1, 35, -1, 73, -1]
    assert data_of(open_file(path), header).tolist() == expected
    assert data_of(_Counted(path.read_bytes()), header).tolist() == expected
