"""read_many, gather, prefetch and crc32_many against slices of the same bytes."""

import ctypes
import multiprocessing
import os
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.paths import folder_on_disk

from bushel import kernels
from bushel.kernels import ExtentError, MappedFile

SIZES = (300_000, 0, 4096, 70_001)


@pytest.fixture(scope="module")
def contents() -> list[bytes]:
    rng = np.random.default_rng(0)
    return [rng.bytes(size) for size in SIZES]


@pytest.fixture(scope="module")
def paths(contents: list[bytes]) -> Iterator[list[Path]]:
    with folder_on_disk() as folder:
        for number, data in enumerate(contents):
            (folder / str(number)).write_bytes(data)
        yield [folder / str(number) for number in range(len(contents))]


@pytest.fixture
def files(paths: list[Path]) -> list[MappedFile]:
    return [MappedFile(path) for path in paths]


Columns = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]


def columns(rows: list[tuple[int, int, int]]) -> Columns:
    file, offset, length = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return file.astype(np.int32), offset, length


def expected(contents: list[bytes], rows: list[tuple[int, int, int]]) -> list[bytes | None]:
    return [None if length == -1 else contents[file][offset : offset + length] for file, offset, length in rows]


def sums(records: list[bytes | None]) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(record or b"") for record in records], np.uint32)


@st.composite
def valid_rows(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    rows = []
    for _ in range(draw(st.integers(0, 40))):
        file = draw(st.integers(0, len(SIZES) - 1))
        offset = draw(st.integers(0, SIZES[file]))
        length = draw(st.integers(0, min(SIZES[file] - offset, draw(st.sampled_from([3, 500, 10_000, 300_000])))))
        rows.append((file, offset, draw(st.sampled_from([length, length, length, -1]))))
    return rows


@given(rows=valid_rows(), checked=st.booleans())
def test_all_forms_agree_with_slices(
    rows: list[tuple[int, int, int]], checked: bool, contents: list[bytes], paths: list[Path]
) -> None:
    files = [MappedFile(path) for path in paths]
    records = expected(contents, rows)
    batch = columns(rows)
    crc = sums(records) if checked else None
    kernels.prefetch(files, *batch)
    for _ in range(2):  # through pread, then through the map
        assert kernels.read_many(files, *batch, crc) == records
        data, offsets = kernels.gather(files, *batch, crc)
        assert data.tobytes() == b"".join(record or b"" for record in records)
        assert offsets.tolist() == np.cumsum([0] + [len(record or b"") for record in records]).tolist()
        assert (data.dtype, offsets.dtype) == (np.dtype(np.uint8), np.dtype(np.int64))
        out = np.full(len(data) + 3, 7, np.uint8)
        assert kernels.gather_into(files, *batch, crc, out).tolist() == offsets.tolist()
        assert out.tobytes() == data.tobytes() + b"\7\7\7"
        assert kernels.crc32_many(files, *batch).tolist() == [zlib.crc32(r) if r is not None else 0 for r in records]


def test_one_file_for_all_rows(files: list[MappedFile], contents: list[bytes]) -> None:
    offset, length = np.array([5, 0, 9]), np.array([100, -1, 0])
    records = [contents[3][5:105], None, b""]
    assert kernels.read_many(files, 3, offset, length) == records
    assert kernels.gather(files, 3, offset, length)[0].tobytes() == records[0]
    assert kernels.crc32_many(tuple(files), 3, offset, length).tolist() == [zlib.crc32(contents[3][5:105]), 0, 0]


def test_pages_that_left_memory_are_read_again(contents: list[bytes], paths: list[Path]) -> None:
    file = MappedFile(paths[0])
    offset = np.arange(0, 300_000, 1000)
    length = np.full(300, 1000)
    records: list[bytes | None] = [contents[0][at : at + 1000] for at in offset]
    for _ in range(3):
        with paths[0].open("rb") as handle:
            os.fdatasync(handle.fileno())
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert kernels.read_many([file], 0, offset, length, sums(records)) == records
    warm = kernels.cold_reads()
    assert kernels.read_many([file], 0, offset, length) == records
    assert kernels.cold_reads() == warm  # only batches of which something had left memory count


@pytest.mark.parametrize("left", [1, 5, 75])
def test_mapped_pages_that_left_memory(left: int, contents: list[bytes], paths: list[Path]) -> None:
    pageout = 21  # MADV_PAGEOUT of Linux 5.4
    if sys.platform != "linux":
        pytest.skip("needs madvise of Linux")
    offset = np.random.default_rng(left).permutation(np.arange(0, 299_000, 500))
    length = np.full(len(offset), 900)
    records: list[bytes | None] = [contents[0][at : at + 900] for at in offset]
    with paths[0].open("rb") as handle:
        os.fdatasync(handle.fileno())
    file = MappedFile(paths[0])
    kernels.read_many([file], 0, offset, length, sums(records))
    for _ in range(3):  # a few pages, of which the rest stays known, and most
        assert kernels.read_many([file], 0, offset, length, sums(records)) == records
        [mapped] = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(paths[0]) in line]
        start = int(mapped.split("-")[0], 16)
        if ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(left * 4096), pageout):
            pytest.skip("this Linux does not know MADV_PAGEOUT")


@pytest.mark.parametrize("kept", [0, 150_000, 300_000])
def test_rows_in_memory_and_rows_on_disk_in_one_batch(kept: int, contents: list[bytes], paths: list[Path]) -> None:
    offset = np.random.default_rng(kept).permutation(np.arange(0, 299_000, 500))  # several on a page, and across pages
    length = np.full(len(offset), 900)
    records: list[bytes | None] = [contents[0][at : at + 900] for at in offset]
    with paths[0].open("rb") as handle:
        os.fdatasync(handle.fileno())
        assert handle.read() == contents[0]
        os.posix_fadvise(handle.fileno(), kept, 0, os.POSIX_FADV_DONTNEED)
    file = MappedFile(paths[0])
    for _ in range(2):
        assert kernels.read_many([file], 0, offset, length, sums(records)) == records


def _system_reads(file: MappedFile, offset: list[int], length: list[int], wanted: list[bytes | None]) -> int:
    """Return how many system calls read, in this thread, while rows of a file are read."""

    def count() -> int:
        [line] = [line for line in Path("/proc/thread-self/io").read_text().splitlines() if line.startswith("syscr")]
        return int(line.split()[1])

    first = count()
    counting = count() - first
    assert kernels.read_many([file], 0, np.array(offset), np.array(length)) == wanted
    return count() - first - 2 * counting


@pytest.mark.skipif(sys.platform != "linux", reason="needs mincore and /proc of Linux")
def test_rows_in_memory_are_read_without_system_calls(contents: list[bytes], paths: list[Path]) -> None:
    offset = np.random.default_rng(0).permutation(np.arange(0, 299_000, 500)).tolist()
    records: list[bytes | None] = [contents[0][at : at + 900] for at in offset]
    with paths[0].open("rb") as handle:
        os.fdatasync(handle.fileno())
        assert handle.read() == contents[0]  # which loads all pages
    assert _system_reads(MappedFile(paths[0]), offset, [900] * len(offset), records) == 0
    # a row of many pages
    assert _system_reads(MappedFile(paths[0]), [0], [len(contents[0])], [contents[0]]) == 1


def test_gathered_arrays_are_the_callers(files: list[MappedFile]) -> None:
    data, offsets = kernels.gather(files, 0, np.array([0]), np.array([10]))
    del files
    data[:] = 1
    offsets[:] = 2
    assert data.tolist() == [1] * 10


def test_only_the_files_in_use_are_looked_at(files: list[MappedFile], contents: list[bytes]) -> None:
    some: list[Any] = [None, None, None, files[3]]
    batch = columns([(3, 0, 10), (0, 0, -1)])
    assert kernels.read_many(some, *batch) == [contents[3][:10], None]
    with pytest.raises(TypeError, match=r"files\[0\] is not a MappedFile"):
        kernels.read_many(some, *columns([(0, 0, 10)]))


Form = Callable[[list[MappedFile], Columns], object]
FORMS: list[Form] = [
    lambda files, batch: kernels.read_many(files, *batch),
    lambda files, batch: kernels.gather(files, *batch),
    lambda files, batch: kernels.gather_into(files, *batch, None, np.empty(1000, np.uint8)),
    lambda files, batch: kernels.prefetch(files, *batch),
    lambda files, batch: kernels.crc32_many(files, *batch),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("row", "end"),
    [
        ((0, -1, 5), 4),
        ((0, 0, -2), None),
        ((0, 299_999, 2), 300_001),
        ((1, 0, 1), 1),
        ((2, 4097, 0), 4097),
        ((0, 0, 2**63 - 1), 2**63 - 1),
        ((0, 2**62, 2**62 + 2**61), 2**63 - 1),
        ((0, -(2**63), 2**63 - 1), None),
        ((0, -(2**62), -(2**63)), -(2**62)),
    ],
)
def test_rows_that_are_not_inside(
    form: Form, row: tuple[int, int, int], end: int | None, files: list[MappedFile]
) -> None:
    with pytest.raises(ExtentError) as error:
        form(files, columns([(0, 0, 10), (0, 0, -1), row, (0, -1, 1)]))
    assert (error.value.row, error.value.reason, error.value.found) == (2, "beyond", SIZES[row[0]])
    assert end is None or error.value.expected == end
    assert files[row[0]].path in str(error.value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [-1, 4, 2**31 - 1, -(2**31)])
def test_file_numbers_out_of_range(form: Form, number: int, files: list[MappedFile]) -> None:
    with pytest.raises(ValueError, match=f"is {number}, but there are 4 files"):
        form(files, columns([(0, 0, 1), (number, 0, 1)]))


@pytest.mark.parametrize("number", [-1, 4, 2**70])
def test_one_file_number_out_of_range(number: int, files: list[MappedFile]) -> None:
    with pytest.raises(ValueError, match="there are 4 files"):
        kernels.read_many(files, number, np.array([0]), np.array([0]))


def test_a_sum_of_lengths_that_overflows(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 2**42)  # a hole: it takes no space
    file = MappedFile(path)
    length = np.full(2**21 + 1, 2**42)
    with pytest.raises(ExtentError) as error:
        kernels.gather([file], 0, np.zeros_like(length), length)
    assert error.value.reason == "beyond"


def test_checksums_that_differ(files: list[MappedFile], contents: list[bytes]) -> None:
    rows = [(0, i * 1000, 900) for i in range(50)]
    batch = columns(rows)
    crc = sums(expected(contents, rows))
    crc[[30, 20, 40]] ^= 1
    for _ in range(2):
        for call in (kernels.read_many, kernels.gather):
            with pytest.raises(ExtentError) as error:
                call(files, *batch, crc)
            assert (error.value.row, error.value.reason) == (20, "checksum")
            assert (error.value.expected, error.value.found) == (crc[20], crc[20] ^ 1)


def test_the_error_travels_between_processes(files: list[MappedFile]) -> None:
    with pytest.raises(ExtentError) as error:
        files[0].read(0, 2**40)
    copy = pickle.loads(pickle.dumps(error.value))
    assert (type(copy), str(copy), vars(copy)) == (ExtentError, str(error.value), vars(error.value))


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_shrinks(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(50_000))
    file = MappedFile(path)
    batch = columns([(0, 40_000, 100)])
    kernels.read_many([file], *batch)
    os.truncate(path, 30_000)
    with pytest.raises(ExtentError) as error:
        form([file], batch)
    assert (error.value.reason, error.value.expected, error.value.found) == ("shrunk", 50_000, 30_000)


def test_wrong_arrays(files: list[MappedFile]) -> None:
    file, offset, length = columns([(0, 0, 1), (0, 1, 1)])
    with pytest.raises(TypeError, match="offset: expected a contiguous one-dimensional int64 array"):
        kernels.read_many(files, file, offset.astype(np.int32), length)
    with pytest.raises(TypeError, match="length"):
        kernels.read_many(files, file, offset, np.zeros(4, np.int64)[::2])
    with pytest.raises(TypeError, match="file: expected a contiguous one-dimensional int32 array"):
        kernels.read_many(files, offset, offset, length)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="crc32"):
        kernels.read_many(files, file, offset, length, np.zeros((2, 1), np.uint32))
    for short in ((file[:1], offset, length), (file, offset[:1], length), (file, offset, length[:1])):
        with pytest.raises(ValueError, match="same number of rows"):
            kernels.read_many(files, *short)
    with pytest.raises(ValueError, match="same number of rows"):
        kernels.read_many(files, file, offset, length, np.zeros(3, np.uint32))
    with pytest.raises(TypeError, match="files"):
        kernels.read_many(5, file, offset, length)  # type: ignore[arg-type]


def test_where_to_gather_into(files: list[MappedFile]) -> None:
    batch = columns([(0, 0, 10)])
    with pytest.raises(ValueError, match="out holds 9 bytes, but the rows have 10"):
        kernels.gather_into(files, *batch, None, np.zeros(9, np.uint8))
    fixed = np.zeros(10, np.uint8)
    fixed.flags.writeable = False
    with pytest.raises(TypeError, match="out: expected a contiguous one-dimensional writable uint8"):
        kernels.gather_into(files, *batch, None, fixed)


def test_read_only_columns_are_taken_as_they_are(files: list[MappedFile], contents: list[bytes]) -> None:
    batch = columns([(0, 3, 10)])
    for column in batch:
        column.flags.writeable = False
    assert kernels.read_many(files, *batch) == [contents[0][3:13]]


def check_random_reads(files: list[MappedFile], contents: list[bytes], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        rows = [(0, int(offset), int(rng.integers(0, 3000))) for offset in rng.integers(0, 290_000, 64)]
        records = expected(contents, rows)
        assert kernels.read_many(files, *columns(rows), sums(records)) == records


def test_eight_threads_share_the_files(files: list[MappedFile], contents: list[bytes]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: check_random_reads(files, contents, seed), range(8)))


def test_files_opened_before_a_fork(files: list[MappedFile], contents: list[bytes]) -> None:
    check_random_reads(files, contents, 0)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=check_random_reads, args=(files, contents, seed)) for seed in (1, 2)]
    for child in children:
        child.start()
    check_random_reads(files, contents, 3)
    for child in children:
        child.join()
        assert child.exitcode == 0
