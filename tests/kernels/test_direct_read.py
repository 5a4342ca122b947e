"""Direct reads of MappedFile: the same bytes as ordinary reads, past the page cache, if the file system offers them."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.paths import folder_in_memory, folder_on_disk

from bushel import kernels
from bushel.kernels import ExtentError, MappedFile

_SIZE = 20_000_003  # more than one room of 8 MiB, and no multiple of a page


@pytest.fixture(scope="module")
def data() -> bytes:
    return np.random.default_rng(0).bytes(_SIZE)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_on_disk() as folder:
        yield folder


@pytest.fixture
def path(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "x"
    path.write_bytes(data)
    return path


def opened(path: Path) -> MappedFile:
    file = MappedFile(path).direct()
    if file is None:
        pytest.skip("the file system of temporary files does not offer direct reads")
    return file


def read_many(file: MappedFile, extents: list[tuple[int, int]]) -> list[bytes | None]:
    offset, length = (np.array(column, np.int64) for column in zip(*extents, strict=True))
    return kernels.read_many([file], np.zeros(len(offset), np.int32), offset, length)


def expected(data: bytes, extents: list[tuple[int, int]]) -> list[bytes | None]:
    return [None if length == -1 else data[offset : offset + length] for offset, length in extents]


def in_memory(path: Path, offset: int) -> bool:
    """Return whether the page cache has a byte of a file. A read with RWF_NOWAIT would begin to load it."""
    mapped, resident = np.memmap(path, np.uint8, "r"), np.zeros(1, np.uint8)
    page = mapped.ctypes.data + offset // mmap.PAGESIZE * mmap.PAGESIZE
    library = ctypes.CDLL(None, use_errno=True)
    if library.mincore(ctypes.c_void_p(page), ctypes.c_size_t(1), ctypes.c_void_p(resident.ctypes.data)):
        raise OSError(ctypes.get_errno(), "mincore", str(path))
    return bool(resident[0] & 1)


def forget(path: Path) -> None:
    """Remove a file from the page cache."""
    number = os.open(path, os.O_RDONLY)
    os.fdatasync(number)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(number)


@pytest.mark.parametrize(
    "extents",
    [
        [(0, 1)],
        [(4095, 2), (511, 2), (_SIZE - 1, 1), (_SIZE, 0), (0, -1), (_SIZE - 5000, 5000)],
        [(100 * at, 100) for at in range(50)],  # adjacent
        [(5, 100_000), (50_000, 10), (99_000, 2000), (5, 100_000)],  # overlapping, and twice the same
        [(at * 60_000 + 7, 5) for at in range(300)],  # more requests than run at a time
        [(17, 9_000_000), (3, 10), (9_500_000, 9_000_000)],  # larger than the room
        [(at * 1_000_000 + 3, 900_000) for at in range(19)],  # together larger than the room
        [(0, 8 << 20), (0, (8 << 20) - 1), (1, 8 << 20)],
    ],
)
def test_reads_the_same_bytes(path: Path, data: bytes, extents: list[tuple[int, int]]) -> None:
    file = opened(path)
    assert (file.size, file.mtime_ns, file.path) == (_SIZE, path.stat().st_mtime_ns, str(path))
    assert read_many(file, extents) == expected(data, extents)
    wanted = b"".join(value for value in expected(data, extents) if value is not None)
    offset, length = (np.array(column, np.int64) for column in zip(*extents, strict=True))
    assert kernels.gather([file], 0, offset, length)[0].tobytes() == wanted


def test_random_extents_of_two_files(tmp_path: Path, data: bytes) -> None:
    rng, files = np.random.default_rng(1), []
    for number in range(2):
        (tmp_path / str(number)).write_bytes(data[number * 1000 :])
        files += [opened(tmp_path / str(number)), MappedFile(tmp_path / str(number))]  # both kinds in one batch
    for _ in range(50):
        rows = int(rng.integers(1, 200))
        file, length = rng.integers(0, 4, rows).astype(np.int32), rng.integers(0, 30_000, rows)
        offset = rng.integers(0, _SIZE - 40_000, rows)
        start = offset + (file // 2) * 1000
        values = kernels.read_many(files, file, offset, length)
        assert values == [data[at : at + size] for at, size in zip(start.tolist(), length.tolist(), strict=True)]


def test_single_reads(path: Path, data: bytes) -> None:
    file, out = opened(path), np.empty(9_000_001, np.uint8)
    assert file.read(_SIZE - 10, 10) == data[-10:]
    file.read_into(13, out)
    assert out.tobytes() == data[13 : 13 + len(out)]
    sums = kernels.crc32_many([file], 0, np.array([5, 70_000], np.int64), np.array([9, 1000], np.int64))
    assert sums.tolist() == [kernels.crc32(data[5:14]), kernels.crc32(data[70_000:71_000])]


def test_checksums_are_compared(path: Path, data: bytes) -> None:
    file, ends = opened(path), np.array([0, 3000], np.int64)
    sums = np.array([kernels.crc32(data[:100]), 1], np.uint32)
    with pytest.raises(ExtentError) as caught:
        kernels.read_many([file], np.zeros(2, np.int32), ends, np.array([100, 100], np.int64), sums)
    assert (caught.value.reason, caught.value.row) == ("checksum", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mincore of Linux")
def test_nothing_is_added_to_the_page_cache(path: Path, data: bytes) -> None:
    file = opened(path)
    forget(path)
    where = np.arange(0, _SIZE - 5000, 1_000_000)
    kernels.prefetch([file], 0, where, np.full(len(where), 5000))
    assert read_many(file, [(int(at), 5000) for at in where]) == [data[at : at + 5000] for at in where]
    assert not any(in_memory(path, int(at)) for at in where)


def test_bytes_that_were_just_written_are_read(path: Path, data: bytes) -> None:
    file = opened(path)
    assert file.read(70_000, 4) == data[70_000:70_004]
    with path.open("r+b") as written:
        written.seek(70_001)
        written.write(b"new")
        written.flush()
        assert file.read(70_000, 5) == data[70_000:70_001] + b"new" + data[70_004:70_005]
    with path.open("ab") as longer:
        longer.write(b"more")
    assert read_many(file, [(_SIZE - 3, 3)]) == [data[-3:]]


def test_another_file_of_the_name_is_not_read(path: Path, data: bytes) -> None:
    file = MappedFile(path)
    path.rename(path.with_name("old"))
    path.write_bytes(bytes(_SIZE))
    direct = file.direct()
    if direct is None:
        pytest.skip("the file system of temporary files does not offer direct reads")
    assert direct.read(0, 100) == data[:100]


def test_a_file_that_shrinks(path: Path) -> None:
    file = opened(path)
    os.truncate(path, 10_000)
    for extents in ([(0, 10)], [(9000, 3000)], [(0, 9_000_000)]):
        with pytest.raises(ExtentError) as caught:
            read_many(file, extents)
        assert (caught.value.reason, caught.value.expected, caught.value.found) == ("shrunk", _SIZE, 10_000)
    with pytest.raises(ExtentError, match="shrunk"):
        file.read_into(9000, np.empty(3000, np.uint8))
    file = MappedFile(path)
    os.truncate(path, 10)
    assert file.direct() is None


def test_extents_outside_the_file(path: Path) -> None:
    file = opened(path)
    for extent in ((_SIZE, 1), (-1, 3), (2**62, 2**62), (0, _SIZE + 1)):
        with pytest.raises(ExtentError, match="not inside"):
            read_many(file, [extent])


def test_file_systems_without_direct_reads(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert MappedFile(tmp_path / "empty").direct() is None
    with folder_in_memory() as folder:
        (folder / "x").write_bytes(bytes(10_000))
        assert MappedFile(folder / "x").direct() is None


def _reads(file: MappedFile, data: bytes, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    extents = [(int(at), 20_000) for at in rng.integers(0, _SIZE - 20_000, 100)]
    return read_many(file, extents) == expected(data, extents)


def test_threads_share_a_file(path: Path, data: bytes) -> None:
    file = opened(path)
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda seed: _reads(file, data, seed), range(40)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_reads_by_itself(path: Path, data: bytes) -> None:
    file = opened(path)
    assert _reads(file, data, 0)  # in the thread that forks
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_child, args=(file, data, seed)) for seed in (1, 2)]
    for child in children:
        child.start()
    assert _reads(file, data, 3)
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert _reads(file, data, 4)


def _child(file: MappedFile, data: bytes, seed: int) -> None:
    os._exit(0 if _reads(file, data, seed) and _reads(file, data, seed + 9) else 1)


@pytest.mark.skipif(sys.platform != "linux", reason="asynchronous I/O of Linux")
def test_without_asynchronous_reads(path: Path, data: bytes) -> None:
    """A system that refuses more of them is read with ordinary calls."""
    file, library, most = opened(path), ctypes.CDLL(None, use_errno=True), 20_000
    numbers = {"x86_64": (206, 207), "aarch64": (0, 1)}.get(os.uname().machine)
    if numbers is None:
        pytest.skip("the numbers of the system calls are not known")
    taken: list[ctypes.c_ulong] = []
    try:
        while len(taken) < 1000:  # all that the system has
            context = ctypes.c_ulong(0)
            if library.syscall(numbers[0], most, ctypes.byref(context)):
                most //= 2
                if not most:
                    break
                continue
            taken.append(context)
        with ThreadPoolExecutor(2) as threads:
            assert all(threads.map(lambda seed: _reads(file, data, seed), range(4)))
    finally:
        for context in taken:
            library.syscall(numbers[1], context)
