"""The block cache: the same bytes as without it, fewer requests, and nothing that damage or death could spoil."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.objects.range_server import Server

from bushel.storage import Extents, File, as_path, gather, open_file, read_many
from bushel.storage.objects.blockcache import BLOCK, BlockCache, cache_of_environment
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.ranges import plan_blocks

SIZE = 10 * BLOCK + 12345
DATA = np.random.default_rng(8).bytes(SIZE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSHEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BUSHEL_CACHE_SIZE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def file(server: Server) -> File:
    (server.folder / "x").write_bytes(DATA)
    return open_file(as_path(f"{server.url}/x"))


def extents(count: int = 20, seed: int = 0) -> Extents:
    rng = np.random.default_rng(seed)
    offset = rng.integers(0, SIZE, count)
    return Extents(0, offset, np.minimum(rng.integers(0, 2_500_000, count), SIZE - offset))


def wanted(batch: Extents) -> list[bytes]:
    ends = batch.offset + batch.length
    return [DATA[first:last] for first, last in zip(batch.offset.tolist(), ends.tolist(), strict=True)]


def blocks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*-*") if path.suffix != ".partial")


def test_same_bytes_and_then_no_requests(server: Server, folder: Path, file: File) -> None:
    assert file.read(SIZE - 10, 10) == DATA[-10:]
    assert file.read(5, 0) == b""
    assert len(blocks(folder)) == 1
    assert read_many([file], extents()) == wanted(extents())
    assert gather([file], extents())[0].tobytes() == b"".join(wanted(extents()))
    assert read_many([file], Extents(0, np.array([0]), np.array([SIZE]))) == [DATA]
    assert len(blocks(folder)) == 11
    server.asked.clear()
    again = open_file(as_path(f"{server.url}/x"))
    for seed in range(3):
        assert read_many([again], extents(seed=seed)) == wanted(extents(seed=seed))
    assert [method for method, _, _ in server.asked] == ["HEAD"]


def test_whole_objects_are_kept_too(server: Server, folder: Path) -> None:
    (server.folder / "x").write_bytes(DATA)
    path = as_path(f"{server.url}/x")
    assert isinstance(path, ObjectPath)
    assert path.read_bytes() == DATA
    server.asked.clear()
    assert path.read_bytes() == DATA
    assert server.gets("x") == []


def test_blocks_that_are_missing_are_fetched_together(server: Server, folder: Path, file: File) -> None:
    file.read(3 * BLOCK, 1)
    server.asked.clear()
    assert file.read(0, SIZE) == DATA
    assert sorted(server.gets("x"), key=str) == [
        f"bytes=0-{3 * BLOCK - 1}",
        f"bytes={4 * BLOCK}-{SIZE - 1}",
    ]


def test_damaged_block_is_fetched_again(
    server: Server, folder: Path, file: File, caplog: pytest.LogCaptureFixture
) -> None:
    file.read(0, SIZE)
    for number, path in enumerate(blocks(folder)):
        data = bytearray(path.read_bytes())
        if number % 3 == 0:
            data[len(data) // 2] ^= 1
        elif number % 3 == 1:
            del data[-7:]
        else:
            data[:] = b""
        path.write_bytes(data)
    server.asked.clear()
    assert file.read(0, SIZE) == DATA
    assert len(server.gets("x")) > 0
    assert "is damaged and is fetched again" in caplog.text
    server.asked.clear()
    assert file.read(0, SIZE) == DATA
    assert server.gets("x") == []


def test_replaced_object_is_not_taken_from_the_cache(server: Server, folder: Path, file: File) -> None:
    file.read(0, 100)
    (server.folder / "x").write_bytes(DATA[::-1])
    assert open_file(as_path(f"{server.url}/x")).read(0, 100) == DATA[::-1][:100]
    assert file.read(0, 100) == DATA[:100], "this dataset was opened before"


def test_limit_and_oldest_first(folder: Path) -> None:
    cache, payload = BlockCache(folder, 20 * 1000), bytes(1000 - 20)
    for number in range(19):
        cache.put("a" * 40, number, memoryview(payload))
    used = [cache.folder / "aa" / f"{'a' * 38}-{number}" for number in range(19)]
    for number, path in enumerate(used):
        os.utime(path, (1000 + number, 1000 + number))
    assert bytes(cache.get("a" * 40, 0) or b"") == payload, "which makes it the youngest"
    assert used[0].stat().st_mtime > time.time() - 100
    for number in range(19, 22):
        cache.put("a" * 40, number, memoryview(payload))
    cache.trim()
    left = {int(path.name.rpartition("-")[2]) for path in blocks(folder)}
    assert len(left) <= 20
    assert left >= {0, 19, 20, 21}
    assert 1 not in left
    for number in range(100, 400):
        cache.put("b" * 40, number, memoryview(payload))
    assert sum(path.stat().st_size for path in blocks(folder)) <= 20 * 1000 * 33 // 32 + 1000


def test_what_the_killed_left_is_cleared(folder: Path) -> None:
    cache = BlockCache(folder, 1000)
    cache.put("a" * 40, 0, memoryview(b"x"))
    old, young = folder / "aa" / "x-1.7.7.partial", folder / "aa" / "x-2.7.7.partial"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.trim()
    assert not old.exists()
    assert young.exists()
    assert bytes(cache.get("a" * 40, 0) or b"") == b"x"


def test_a_block_in_pieces_is_not_joined_in_memory(tmp_path: Path) -> None:
    cache, piece = BlockCache(tmp_path / "cache", 64 << 20), memoryview(bytes(4 << 20))
    tracemalloc.start()
    cache.put("a" * 40, 0, b"head", *[piece] * 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bytes(cache.get("a" * 40, 0) or b"") == b"head" + bytes(16 << 20)
    assert peak < 1 << 20


def test_a_disk_that_refuses(server: Server, file: File, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("not a folder")
    with caplog.at_level(logging.WARNING, "bushel"):
        assert file.read(0, 1000) == DATA[:1000]
        assert file.read(BLOCK, 1000) == DATA[BLOCK : BLOCK + 1000]
    assert caplog.text.count("the block cache is disabled") == 1


def test_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_of_environment()
    assert cache is not None
    assert (cache.folder, cache.limit) == (folder, 10**10)
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "50GiB")
    cache = cache_of_environment()
    assert cache is not None
    assert cache.limit == 50 << 30
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="BUSHEL_CACHE_SIZE: invalid size 'much'"):
        cache_of_environment()
    monkeypatch.delenv("BUSHEL_CACHE_DIR")
    assert cache_of_environment() is None


@given(st.lists(st.tuples(st.integers(0, 5 * BLOCK), st.integers(-1, 2 * BLOCK))))
def test_plan_of_blocks(rows: list[tuple[int, int]]) -> None:
    offset, length = (np.array(part, np.int64) for part in (zip(*rows, strict=True) if rows else ([], [])))
    plan = plan_blocks(offset, length)
    assert list(plan) == sorted(plan)
    expected = {
        (block, row)
        for row, (start, size) in enumerate(rows)
        for block in range(8)
        if size > 0 and start < (block + 1) * BLOCK and start + size > block * BLOCK
    }
    assert {(block, row) for block, own in plan.items() for row in own} == expected


READ = """
import sys, numpy as np
from bushel.storage import Extents, as_path, open_file, read_many
file = open_file(as_path(sys.argv[1]))
rng = np.random.default_rng(int(sys.argv[2]))
print("open", flush=True)
for turn in range(int(sys.argv[3])):
    offset = rng.integers(0, file.size - 2000, 30)
    parts = read_many([file], Extents(0, offset, np.full(30, 2000)))
    with open(sys.argv[4], "rb") as plain:
        for start, part in zip(offset.tolist(), parts):
            plain.seek(start)
            assert plain.read(2000) == part
"""


def test_several_processes_and_a_kill(server: Server, folder: Path, file: File) -> None:
    def start(seed: int, turns: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", READ, f"{server.url}/x", str(seed), str(turns), str(server.folder / "x")]
        # a limit below the data, so that they evict each other's blocks all the time
        environment = {**os.environ, "BUSHEL_CACHE_SIZE": str(4 * BLOCK)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    victim, others = start(0, 10**9), [start(seed, 15) for seed in (1, 2)]
    assert victim.stdout is not None
    assert victim.stdout.readline() == "open\n"
    while not blocks(folder):
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    for process in others:
        process.communicate(timeout=120)
        assert process.returncode == 0
    BlockCache(folder, 4 * BLOCK).trim()
    # what the killed process left half written is not a block: it goes after an hour, as above
    assert sum(path.stat().st_size for path in blocks(folder)) <= 4 * BLOCK
    assert file.read(0, SIZE) == DATA


def test_the_folder_is_deleted_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, rename = BlockCache(folder, 1 << 30), os.rename

    def too_late(source: Path, target: Path) -> None:
        shutil.rmtree(folder)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", too_late)
        cache.put("a" * 40, 0, memoryview(b"x"))
    assert cache.get("a" * 40, 0) is None
    cache.put("a" * 40, 0, memoryview(b"x"))
    assert bytes(cache.get("a" * 40, 0) or b"") == b"x"
