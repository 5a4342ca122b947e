from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bushel.kernels import ExtentError, MappedFile, crc32
from bushel.storage import Extents, File, checksums_of, gather, open_file, prefetch, read_many
from bushel.storage.fileobject import FileObject

SIZES = (0, 1, 5000, 70_000)
CONTENTS = [bytes((number * 31 + size) % 251 for number in range(size)) for size in SIZES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reading")
    for number, content in enumerate(CONTENTS):
        (folder / str(number)).write_bytes(content)
    return folder


def files_of(folder: Path, local: list[bool]) -> list[File]:
    paths = [folder / str(number) for number in range(len(CONTENTS))]
    return [open_file(path) if here else FileObject(path) for path, here in zip(paths, local, strict=True)]


ROW = st.integers(0, 3).flatmap(
    lambda file: st.tuples(
        st.just(file), st.integers(0, SIZES[file]), st.one_of(st.integers(-1, 3), st.integers(-1, SIZES[file]))
    )
)
ROWS = st.lists(ROW, max_size=30).map(
    lambda rows: [(file, offset, min(length, SIZES[file] - offset)) for file, offset, length in rows]
)
LOCAL = st.lists(st.booleans(), min_size=4, max_size=4)


def extents_of(rows: list[tuple[int, int, int]], crc: list[int] | None = None) -> Extents:
    file, offset, length = (list(part) for part in (zip(*rows, strict=True) if rows else ([], [], [])))
    checks = None if crc is None else np.array(crc, np.uint32)
    return Extents(np.array(file, np.int32), np.array(offset, np.int64), np.array(length, np.int64), checks)


def naive(rows: list[tuple[int, int, int]]) -> list[bytes | None]:
    return [None if length < 0 else CONTENTS[file][offset : offset + length] for file, offset, length in rows]


@given(ROWS, LOCAL, st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_local_and_other_files_give_the_same(
    folder: Path, rows: list[tuple[int, int, int]], local: list[bool], checked: bool
) -> None:
    expected = naive(rows)
    crc = [crc32(value or b"") for value in expected] if checked else None
    files, extents = files_of(folder, local), extents_of(rows, crc)
    assert read_many(files, extents) == expected
    buffer, offsets = gather(files, extents)
    assert buffer.dtype == np.uint8
    assert offsets.dtype == np.int64
    assert [buffer[a:b].tobytes() for a, b in zip(offsets[:-1], offsets[1:], strict=True)] == [
        e or b"" for e in expected
    ]
    assert checksums_of(files, extents_of(rows)).tolist() == [crc32(value or b"") for value in expected]
    prefetch(files, extents)


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 5001), (5000, 1), (5001, 0), (-1, 1), (2**62, 2**62), (0, 2**63 - 1), (3, -2), (2**63 - 1, 1)],
)
def test_extents_that_do_not_lie_in_their_file(folder: Path, here: bool, offset: int, length: int) -> None:
    files = files_of(folder, [here] * 4)
    extents = extents_of([(1, 0, 1), (3, 5, 5), (2, offset, length)])
    for read in (read_many, gather, checksums_of):
        with pytest.raises(ExtentError) as caught:
            read(files, extents)
        assert (caught.value.row, caught.value.reason, caught.value.found) == (2, "beyond", 5000)


@pytest.mark.parametrize("here", [True, False])
def test_bytes_that_do_not_match_their_checksum(folder: Path, here: bool) -> None:
    files = files_of(folder, [here] * 4)
    extents = extents_of([(2, 0, 10), (2, 5, 0), (2, 7, -1), (3, 9, 9)], [crc32(CONTENTS[2][:10]), 0, 77, 5])
    for read in (read_many, gather):
        with pytest.raises(ExtentError) as caught:
            read(files, extents)
        found = crc32(CONTENTS[3][9:18])
        assert (caught.value.row, caught.value.reason) == (3, "checksum")
        assert (caught.value.expected, caught.value.found) == (5, found)


@pytest.mark.parametrize("here", [True, False])
def test_one_number_for_all_files(folder: Path, here: bool) -> None:
    files = files_of(folder, [here] * 4)
    extents = Extents(3, np.array([9, 0], np.int64), np.array([2, 3], np.int64))
    assert read_many(files, extents) == [CONTENTS[3][9:11], CONTENTS[3][:3]]
    assert gather(files, extents)[0].tobytes() == CONTENTS[3][9:11] + CONTENTS[3][:3]
    assert [extents.file_of(0), extents_of([(2, 0, 0)]).file_of(0), len(extents)] == [3, 2, 2]


@pytest.mark.parametrize("here", [True, False])
def test_a_file_that_shrinks(tmp_path: Path, here: bool) -> None:
    (tmp_path / "x").write_bytes(bytes(100_000))
    file = open_file(tmp_path / "x") if here else FileObject(tmp_path / "x")
    extents = Extents(0, np.array([0, 90_000], np.int64), np.array([1, 5], np.int64))
    assert read_many([file], extents) == [b"\0", bytes(5)]
    with open(tmp_path / "x", "r+b") as handle:
        handle.truncate(50_000)
    for read in (read_many, gather, checksums_of):
        with pytest.raises(ExtentError) as caught:
            read([file], extents)
        assert caught.value.reason == "shrunk"


def test_local_files_are_mapped(folder: Path) -> None:
    assert isinstance(open_file(folder / "2"), MappedFile)
    with pytest.raises(IsADirectoryError):
        open_file(folder)
    with pytest.raises(FileNotFoundError):
        open_file(folder / "gone")
