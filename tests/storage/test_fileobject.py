from __future__ import annotations

import io
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.storage.paths import Elsewhere

from bushel.kernels import ExtentError
from bushel.storage import File, as_path, is_local, open_file
from bushel.storage.fileobject import FileObject

DATA = bytes(range(256)) * 40


@pytest.fixture(params=[False, True], ids=["buffered", "trickling"])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> FileObject:
    (tmp_path / "x").write_bytes(DATA)
    return FileObject(Elsewhere(tmp_path / "x", trickle=request.param))


def test_it_is_a_file(file: FileObject, tmp_path: Path) -> None:
    assert isinstance(file, File)
    assert (file.path, file.size) == ("elsewhere:x", len(DATA))
    assert file.mtime_ns == (tmp_path / "x").stat().st_mtime_ns
    opened = open_file(Elsewhere(tmp_path / "x"))
    assert isinstance(opened, FileObject)
    assert not is_local(as_path(Elsewhere(tmp_path / "x")))


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (0, 1), (5, 1000), (len(DATA), 0), (0, len(DATA)), (10_239, 1)])
def test_extents(file: FileObject, offset: int, length: int) -> None:
    assert file.read(offset, length) == DATA[offset : offset + length]


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, 1), (0, -1), (0, len(DATA) + 1), (len(DATA), 1), (len(DATA) + 1, 0), (0, 2**63), (2**63, 1)],
)
def test_extents_that_are_not_there(file: FileObject, offset: int, length: int) -> None:
    with pytest.raises(ExtentError) as caught:
        file.read(offset, length)
    assert (caught.value.reason, caught.value.expected, caught.value.found) == ("beyond", offset + length, len(DATA))


def test_a_file_that_shrinks(file: FileObject, tmp_path: Path) -> None:
    os.truncate(tmp_path / "x", 100)
    assert file.read(0, 100) == DATA[:100]
    with pytest.raises(ExtentError) as caught:
        file.read(90, 20)
    assert (caught.value.reason, caught.value.expected, caught.value.found) == ("shrunk", len(DATA), 100)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(Elsewhere(tmp_path / "gone"))


def test_threads_have_handles_of_their_own(file: FileObject) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: file.read(at, 50), range(0, 10_000, 7)))
    assert found == [DATA[at : at + 50] for at in range(0, 10_000, 7)]


class Dated:
    """What `stat` gives on a storage that knows seconds only."""

    st_size = 3
    st_mtime = 1.5


class DatedPath(Elsewhere):
    def stat(self) -> Any:
        return Dated()


def test_a_time_in_seconds_will_do(tmp_path: Path) -> None:
    assert FileObject(DatedPath(tmp_path / "x")).mtime_ns == 1_500_000_000


def test_paths() -> None:
    assert as_path("a/b") == Path("a/b")
    assert as_path("file:///a/b") == Path("/a/b")
    assert pickle.loads(pickle.dumps(as_path("a"))) == Path("a")
    for wrong in (3, None, io.BytesIO(b"")):
        with pytest.raises(TypeError, match="path"):
            as_path(wrong)
