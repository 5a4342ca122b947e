from __future__ import annotations

import gc
import operator
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ends_of_threads import check_fork, drop_in_cycle, own_threads, wait_for_none

from bushel._runtime.parallel import for_each, map_all, map_each, parallel_map
from bushel._runtime.threads import SpareThreads, Threads

in_workers = partial(parallel_map, draw_in_workers=True)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 6), st.sampled_from([1, 5000, 1 << 30]))
def test_results_come_in_order(delays: list[int], threads: int, limit: int) -> None:
    def work(item: tuple[int, int]) -> int:
        time.sleep(item[1] / 5000)
        return item[0]

    found = list(in_workers(work, enumerate(delays), threads=threads, limit=limit, size=lambda _: 1000))
    assert found == list(range(len(delays)))
    assert not own_threads()


def test_what_waits_is_bounded_in_bytes() -> None:
    lock, made, most, taken = threading.Lock(), 0, 0, 0
    rng = random.Random(1)
    sizes = [rng.choice((1, 10_000, 300_000)) for _ in range(400)]

    def work(number: int) -> bytes:
        nonlocal made, most
        data = bytes(sizes[number])
        with lock:
            made += len(data)
            most = max(most, made - taken)
        return data

    for number, data in enumerate(in_workers(work, range(400), threads=4, limit=1_000_000, size=len)):
        assert len(data) == sizes[number]
        if number % 10 == 0:
            time.sleep(0.002)
        with lock:
            taken += len(data)
    assert most <= 1_000_000 + 5 * 300_000  # what each thread is at, and what the consumer holds


def test_one_result_larger_than_the_limit_gets_through() -> None:
    found = list(in_workers(lambda n: bytes(n), [10, 1 << 20, 10], threads=3, limit=1, size=len))
    assert list(map(len, found)) == [10, 1 << 20, 10]


def test_an_error_comes_in_its_place() -> None:
    def work(number: int) -> int:
        if number == 5:
            raise ZeroDivisionError
        return number

    results = in_workers(work, range(100), threads=4, limit=1 << 20, size=lambda _: 1)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not own_threads()


def test_an_error_of_the_items_comes_after_their_results() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ConnectionError

    results = in_workers(lambda n: n, items(), threads=2, limit=1 << 20, size=lambda _: 1)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ConnectionError):
        next(results)


def test_closing_stops_the_own_threads() -> None:
    begun = 0

    def work(number: int) -> int:
        nonlocal begun
        begun += 1
        return number

    results = in_workers(work, range(1_000_000), threads=3, limit=10_000, size=lambda _: 1000)
    assert next(results) == 0
    results.close()
    assert not own_threads()
    assert begun < 100


def test_the_consumers_thread_draws_items_as_it_takes_results() -> None:
    drawn, own = [], threading.get_ident()

    def items() -> Iterator[int]:
        for number in range(20):
            assert threading.get_ident() == own
            drawn.append(number)
            yield number

    for number, result in enumerate(parallel_map(lambda n: n, items(), threads=3)):
        assert result == number
        assert len(drawn) <= number + 4
    assert len(drawn) == 20
    assert not own_threads()


def test_results_come_as_they_are_finished() -> None:
    last = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert last.wait(30)
        elif number == 9:
            last.set()
        return number

    for in_worker in (False, True):
        last.clear()
        results = parallel_map(work, range(10), threads=2, limit=10, ordered=False, draw_in_workers=in_worker)
        assert sorted(found := list(results)) == list(range(10))
        assert found[-1] == 0


def test_for_each_stops_at_the_first_error_without_waiting_for_earlier_items() -> None:
    stop, begun = threading.Event(), []

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            assert stop.wait(30)
        elif number == 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        for_each(work, range(1000), threads=2, spare=SpareThreads(1, "spare"), stop=stop)
    assert max(begun) == 5
    assert not own_threads()


def test_for_each_bounds_the_weight_that_is_worked_on() -> None:
    lock, used, most = threading.Lock(), 0, 0
    rng = random.Random(2)
    weights = [rng.choice((1, 30, 60, 250)) for _ in range(200)]

    def work(weight: int) -> None:
        nonlocal used, most
        with lock:
            used += weight
            assert used <= 100 or used == weight
            most = max(most, used)
        time.sleep(0.0005)
        with lock:
            used -= weight

    for_each(work, weights, threads=4, spare=SpareThreads(3, "spare"), weight=lambda weight: weight, limit=100)
    assert most == 250


def test_for_each_raises_the_errors_of_items_and_weights() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise ZeroDivisionError

    seen: list[int] = []
    with pytest.raises(ZeroDivisionError):
        for_each(seen.append, items(), threads=3, spare=SpareThreads(2, "spare"))
    assert sorted(seen) == [1, 2]
    with pytest.raises(TypeError):
        for_each(
            seen.append, cast("list[int]", ["x"]), threads=3, spare=SpareThreads(2, "spare"), weight=operator.index
        )
    for_each(seen.append, [], threads=3, spare=(spare := SpareThreads(2, "spare")))
    assert sorted(seen) == [1, 2]
    spare.take().close()
    assert not own_threads()


def test_spare_threads_work_again_and_not_after_a_fork() -> None:
    spare, first, second = SpareThreads(3, "bushel-spare"), set[int](), set[int]()

    def note(seen: set[int]) -> None:
        meeting = threading.Barrier(4)

        def work(_: int) -> None:
            meeting.wait(30)  # all four threads work
            seen.add(threading.get_ident())

        for_each(work, range(4), threads=4, spare=spare)

    note(first)
    note(second)
    assert first == second
    child = os.fork()
    if not child:
        note(third := set[int]())
        os._exit(0 if len(third) == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(ZeroDivisionError):
        for_each(lambda number: 1 // number, range(4), threads=4, spare=spare)
    assert not own_threads()  # an error ends them


def test_map_all_works_in_this_thread_too() -> None:
    names, meeting = set(), threading.Barrier(2)

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        if number < 2:
            meeting.wait(60)  # so that both threads work
        return -number

    assert map_all(work, range(20), threads=2) == [-number for number in range(20)]
    assert threading.current_thread().name in names
    assert len(names) == 2
    assert map_all(work, [], threads=2) == []
    assert not own_threads()


def test_map_each_notes_results_in_order_and_works_on_a_single_item_here() -> None:
    finished: list[int] = []
    numbers = range(20)
    assert map_each(operator.neg, numbers, threads=3, finished=finished.append) == [-number for number in numbers]
    assert finished == [-number for number in numbers]
    assert map_each(lambda _: threading.get_ident(), [0], threads=3) == [threading.get_ident()]
    with pytest.raises(ValueError, match="threads"):
        map_each(operator.neg, [0], threads=0)


def test_map_all_raises_the_first_error() -> None:
    def work(number: int) -> int:
        if number >= 5:
            raise ValueError(str(number))
        return number

    with pytest.raises(ValueError, match="^5$"):
        map_all(work, range(100), threads=4)
    assert not own_threads()


def test_a_fork_cannot_continue_and_harms_nobody() -> None:
    results = parallel_map(lambda n: n, range(100), threads=2)
    assert next(results) == 0
    check_fork(results)
    assert list(results) == list(range(1, 100))


def test_the_garbage_collector_ends_the_threads_in_one_of_them() -> None:
    dropped, collected = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number == 2:
            assert dropped.wait(30)
            gc.collect()
            collected.set()
        return number

    held: list[Any] = [parallel_map(work, range(100), threads=2)]
    next(held[0])
    with drop_in_cycle(held):
        dropped.set()
        assert collected.wait(30)
        wait_for_none(own_threads)


def test_work_in_progress_is_finished_at_the_end_of_the_program() -> None:
    program = """
import time
from bushel._runtime.parallel import parallel_map
results = parallel_map(lambda n: (time.sleep(0.2), print("finished", n))[0], range(100), threads=2)
next(results)
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (child.returncode, child.stderr) == (0, "")
    assert 1 <= child.stdout.count("finished") <= 4


def test_closed_threads_drop_what_is_submitted() -> None:
    pool, done = Threads(1, "bushel-test"), []
    pool.submit(lambda: done.append(1))
    pool.close()
    pool.submit(lambda: done.append(2))
    pool.close()
    assert done in ([], [1])
    assert not own_threads()
