from __future__ import annotations

import os
import pickle
import random
import sys
import threading
from collections import Counter
from collections.abc import Hashable, Iterable
from pathlib import Path

import numpy as np
import pytest
from tests.storage.block_files import Cut, block_file

from bushel import filters
from bushel.filters import get_filter
from bushel.kernels import ExtentError
from bushel.storage import BlockFile, Extents, open_file, read_many
from bushel.storage.expansion_cache import Claim, ExpansionCache, expansion_cache

THREADS, BLOCKS, SIZE = 8, 10, 50_000
CONTENT = random.Random(3).randbytes(BLOCKS * SIZE)


@pytest.fixture(autouse=True)
def _fresh_cache() -> None:
    expansion_cache().clear()


@pytest.fixture
def blocks(tmp_path: Path) -> BlockFile:
    return block_file(tmp_path, CONTENT, [Cut(SIZE, "zstd", number % 2) for number in range(BLOCKS)], open_file)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Counts how often each block is expanded, by its number of stored bytes and first byte."""
    expanded: Counter[int] = Counter()
    expand = BlockFile.expand

    def count(self: BlockFile, block: int, stored: bytes) -> np.ndarray:
        expanded[block] += 1
        return expand(self, block, stored)

    monkeypatch.setattr(BlockFile, "expand", count)
    return expanded


def whole(file: BlockFile, order: list[int], step: int = 1000) -> None:
    """Read the file in batches of 64 values."""
    for first in range(0, len(order), 64):
        offset = np.array(order[first : first + 64], np.int64) * step
        found = read_many([file], Extents(0, offset, np.full(len(offset), step, np.int64)))
        assert found == [CONTENT[at : at + step] for at in offset.tolist()]


def at_once(count: int, work: object) -> list[BaseException]:
    start, errors = threading.Barrier(count), list[BaseException]()

    def run() -> None:
        start.wait()
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.mark.parametrize("shuffled", [False, True])
def test_eight_threads_expand_each_block_once(blocks: BlockFile, counted: Counter[int], shuffled: bool) -> None:
    order = list(range(len(CONTENT) // 1000))
    if shuffled:
        random.Random(1).shuffle(order)
    assert at_once(THREADS, lambda: whole(blocks, order)) == []
    assert counted == dict.fromkeys(range(BLOCKS), 1)


def test_single_reads_share_the_cache(blocks: BlockFile, counted: Counter[int]) -> None:
    assert at_once(THREADS, lambda: [blocks.read(at, 7) for at in range(0, len(CONTENT) - 7, 999)]) == []
    assert counted == dict.fromkeys(range(BLOCKS), 1)


def test_all_who_wait_for_a_block_that_cannot_be_expanded_get_the_error(tmp_path: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def fail(stored: object, out: memoryview, side: object) -> int:
        entered.set()
        go_on.wait(30)
        raise ValueError("it never works")

    filters.register("never", fail, replace=True)
    try:
        file = block_file(tmp_path, CONTENT[:SIZE], [Cut(SIZE, "zstd", 0)], open_file)
        names = tuple("never" if name == "zstd" else name for name in file.blocks.filters)
        table = file.blocks
        file = BlockFile(
            file.path,
            type(table)(table.start, table.file, table.offset, table.length, table.filter, names),
            file.file,
        )
        found: list[BaseException] = []

        def read() -> None:
            try:
                read_many([file], Extents(0, np.array([3], np.int64), np.array([4], np.int64)))
            except ExtentError as error:
                found.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert entered.wait(30)
        go_on.set()
        for thread in threads:
            thread.join(30)
        assert [error.reason for error in found] == ["filter"] * 4  # type: ignore[attr-defined]
        assert all("it never works" in str(error) for error in found)
    finally:
        filters._registered.pop("never")
        get_filter.cache_clear()


def test_a_file_that_was_replaced_is_expanded_again(tmp_path: Path, blocks: BlockFile) -> None:
    assert blocks.read(0, 9) == CONTENT[:9]
    other = CONTENT[::-1]
    again = block_file(tmp_path, other, [Cut(SIZE, "zstd", number % 2) for number in range(BLOCKS)], open_file)
    os.utime(tmp_path / "0", ns=(1, 1))
    os.utime(tmp_path / "1", ns=(1, 1))
    again = BlockFile(again.path, again.blocks, [open_file(tmp_path / "0"), open_file(tmp_path / "1")].__getitem__)
    assert again.read(0, 9) == other[:9]


def test_a_file_without_a_time_is_known_while_it_is_open(blocks: BlockFile) -> None:
    class Timeless:
        path, mtime_ns = "x", 0

        def __init__(self, number: int) -> None:
            self.size = blocks.file(number).size
            self.read = blocks.file(number).read

    first, second = (BlockFile("b", blocks.blocks, Timeless) for _ in range(2))
    assert first.read(0, 9) == CONTENT[:9]
    assert expansion_cache().kept([first.name_of(0), second.name_of(0)]) == [True, False]


def test_an_interrupt_leaves_no_block_that_nobody_expands(blocks: BlockFile, monkeypatch: pytest.MonkeyPatch) -> None:
    extents = Extents(0, np.array([5], np.int64), np.array([9], np.int64))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for read in (lambda: read_many([blocks], extents), lambda: [blocks.read(5, 9)]):
        with monkeypatch.context() as patch:
            patch.setattr(BlockFile, "expand", interrupt)
            with pytest.raises(KeyboardInterrupt):
                read()
        assert expansion_cache().kept([blocks.name_of(0)]) == [False]
        assert read() == [CONTENT[5:14]]
        expansion_cache().clear()


def claimed(cache: ExpansionCache, names: Iterable[Hashable]) -> Claim:
    claim = Claim()
    cache.claim(names, claim)
    return claim


def block(size: int) -> np.ndarray:
    return np.zeros(size, np.uint8)


def test_bytes_are_bounded_and_the_last_used_stay() -> None:
    cache = ExpansionCache(100)
    for name in "abc":
        claimed(cache, [name])
        cache.give(name, block(40))
    assert cache.kept("abc") == [False, True, True]
    assert claimed(cache, "b").to_expand == []  # used again
    claimed(cache, ["d"])
    cache.give("d", block(40))
    assert cache.kept("abcd") == [False, True, False, True]
    claim = claimed(cache, ["huge"])
    assert claim.to_expand == ["huge"]
    cache.give("huge", block(101))
    assert cache.kept(["huge", "b"]) == [False, True]
    for name in ("b", "d"):
        found = claimed(cache, [name]).results[name].get()
        assert found is not None
        assert found.nbytes == 40


def test_a_block_that_was_given_up_is_anybodys() -> None:
    cache = ExpansionCache(100)
    first = claimed(cache, "ab")
    assert first.to_expand == ["a", "b"]
    waiting = claimed(cache, "ab").results
    cache.give_up("a", first, None)
    assert waiting["a"].get() is None
    assert claimed(cache, "a").to_expand == ["a"]
    cache.give_up("b", first, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        waiting["b"].get()
    cache.give_up("b", first, None)  # again: nothing


def test_a_block_that_was_given_is_not_given_up_for_another_reader() -> None:
    cache = ExpansionCache(100)
    first = claimed(cache, "x")
    cache.give("x", block(101))  # too large to be kept
    second = claimed(cache, "x")
    assert second.to_expand == ["x"]
    cache.give_up("x", first, None)
    assert claimed(cache, "x").to_expand == []
    cache.give("x", block(7))
    expanded = second.results["x"].get()
    assert expanded is not None
    assert len(expanded) == 7


def test_what_is_kept_is_forgotten_and_what_is_expanded_still_comes() -> None:
    cache, own, other = ExpansionCache(100), Claim(), Claim()
    cache.give("kept", np.zeros(10, np.uint8))
    cache.claim(["x"], own)
    cache.claim(["x"], other)
    cache.forget_kept()  # as `verify` does in each of its threads
    assert cache.get("kept") is None
    block = np.ones(10, np.uint8)
    cache.give("x", block)
    assert own.results["x"].get() is block
    assert other.results["x"].get() is block


def test_a_block_that_is_given_twice_is_counted_once() -> None:
    cache = ExpansionCache(100)
    for _ in range(5):
        cache.give("x", np.zeros(40, np.uint8))
    cache.give("y", np.zeros(40, np.uint8))
    assert cache.kept(["x", "y"]) == [True, True]


def test_a_copy_is_empty_and_a_part_is_smaller() -> None:
    cache = ExpansionCache(100)
    claimed(cache, "a")
    cache.give("a", block(10))
    copy = pickle.loads(pickle.dumps(cache))
    assert (copy.limit, copy.kept("a")) == (100, [False])
    copy.share(3)
    assert copy.limit == 33


def test_the_limit_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ExpansionCache().limit == 256_000_000
    monkeypatch.setenv("BUSHEL_BLOCK_CACHE", "1MiB")
    assert ExpansionCache().limit == 1 << 20
    monkeypatch.setenv("BUSHEL_BLOCK_CACHE", "0")
    assert ExpansionCache().limit == 0
    monkeypatch.setenv("BUSHEL_BLOCK_CACHE", "much")
    with pytest.raises(ValueError, match="BUSHEL_BLOCK_CACHE: invalid size 'much'"):
        _ = ExpansionCache().limit


@pytest.mark.skipif(sys.platform != "linux", reason="forks with threads")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_waits_for_nobody(blocks: BlockFile) -> None:
    blocks.read(0, 9)
    name = blocks.name_of(5)
    claim = claimed(expansion_cache(), [name])  # a thread of this process is expanding it
    expansion_cache()._lock.acquire()  # and another one holds the lock
    try:
        child = os.fork()
        if not child:
            os._exit(0 if blocks.read(5 * SIZE, 9) == CONTENT[5 * SIZE : 5 * SIZE + 9] else 1)
    finally:
        expansion_cache()._lock.release()
        expansion_cache().give_up(name, claim, None)
    assert os.waitpid(child, 0)[1] == 0


def test_a_cache_of_nothing_reads_the_same(
    blocks: BlockFile, counted: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion_cache(), "_limit", 0)
    whole(blocks, list(range(len(CONTENT) // 1000)))
    assert max(counted.values()) <= 2  # once in each batch that needs it
