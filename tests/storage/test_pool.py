from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import pickle
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.descriptors import open_files

from bushel.storage import File, FilePool, open_file


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}" for number in range(30)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]))
    return paths


def get(pool: FilePool, path: Path) -> File:
    return pool.get(path, lambda: open_file(path))


def test_a_file_is_opened_once(paths: list[Path]) -> None:
    pool = FilePool()
    assert get(pool, paths[0]) is get(pool, paths[0])
    assert get(pool, paths[1]) is not get(pool, paths[0])
    pool.close()
    assert get(pool, paths[0]).read(0, 1) == b"\0"


def test_the_oldest_are_closed(paths: list[Path], tmp_path: Path) -> None:
    pool = FilePool(5)
    held = get(pool, paths[0])
    for path in paths:
        get(pool, path)
        assert len(open_files(tmp_path)) <= 7
    assert held.read(0, 1) == b"\0", "who holds a file can go on with it"
    del held
    assert len(open_files(tmp_path)) == 5
    pool.close()
    assert open_files(tmp_path) == []


def test_the_limit_is_part_of_what_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert FilePool().__reduce__()[:2] == (FilePool, (100,))
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, hard))
        assert FilePool().__reduce__()[:2] == (FilePool, (16,))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def limit_that_leaves(count: int) -> int:
    """A limit under which so many files can be opened yet; it bounds descriptors, whose numbers may have gaps."""
    taken = set(map(int, os.listdir("/proc/self/fd")))
    free = (number for number in itertools.count() if number not in taken)
    return next(itertools.islice(free, count, None))


def test_where_others_hold_most_of_what_may_be_open(paths: list[Path]) -> None:
    pool = FilePool()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit_that_leaves(5), hard))
    try:
        assert [get(pool, path).read(0, 1)[0] for path in paths] == list(range(30))
        held: list[File] = []
        with pytest.raises(OSError, match="Too many") as caught:
            held.extend(get(pool, path) for path in paths)
        assert caught.value.errno == errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        get(FilePool(), tmp_path / "gone")


def test_threads_share_a_pool(paths: list[Path]) -> None:
    pool = FilePool(3)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda at: get(pool, paths[at % 30]).read(0, 1)[0], range(6000)))
    assert found == [at % 30 for at in range(6000)]


def _child(pool: FilePool, paths: list[Path], results: Any) -> None:
    results.put([get(pool, path).read(0, 1)[0] for path in paths])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_goes_on_with_it(paths: list[Path], method: str) -> None:
    pool = FilePool(4)
    for path in paths[:9]:
        get(pool, path)
    context: Any = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=_child, args=(pool, paths, results))
    process.start()
    assert results.get(timeout=60) == list(range(30))
    process.join(60)
    assert process.exitcode == 0
    results.close()
    results.join_thread()


def test_a_pickled_pool_starts_empty(paths: list[Path], tmp_path: Path) -> None:
    pool = FilePool(7)
    get(pool, paths[0])
    copied = pickle.loads(pickle.dumps(pool))
    assert open_files(tmp_path) == [str(paths[0])]
    assert copied.__reduce__()[:2] == (FilePool, (7,))


def test_files_for_direct_reads(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"0" * 5000)
    pool = pickle.loads(pickle.dumps(FilePool(7, direct=True)))
    assert (pool.limit, pool.direct, pool.files) == (7, True, {})
    assert get(pool, path).read(4999, 1) == b"0"
    assert get(pool, path) is get(pool, path)
    assert not pickle.loads(pickle.dumps(FilePool())).direct
