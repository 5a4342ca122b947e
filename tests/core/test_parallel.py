from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel.ingest.parallel import in_order


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("bushel-pack")}


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 6), st.sampled_from([1, 5000, 1 << 30]))
def test_results_come_in_order(delays: list[int], workers: int, limit: int) -> None:
    def work(item: tuple[int, int]) -> int:
        time.sleep(item[1] / 5000)
        return item[0]

    found = list(in_order(work, enumerate(delays), workers=workers, limit=limit, size=lambda _: 1000))
    assert found == list(range(len(delays)))
    assert not threads()


def test_what_waits_is_bounded_in_bytes() -> None:
    lock, made, most, taken = threading.Lock(), 0, 0, 0
    sizes = [random.Random(1).choice((1, 10_000, 300_000)) for _ in range(400)]

    def work(number: int) -> bytes:
        nonlocal made, most
        data = bytes(sizes[number])
        with lock:
            made += len(data)
            most = max(most, made - taken)
        return data

    for number, data in enumerate(in_order(work, range(400), workers=4, limit=1_000_000, size=len)):
        assert len(data) == sizes[number]
        if number % 10 == 0:
            time.sleep(0.002)
        with lock:
            taken += len(data)
    assert most <= 1_000_000 + 5 * 300_000  # what each thread is at, and what the consumer holds


def test_one_result_larger_than_the_limit_gets_through() -> None:
    found = list(in_order(lambda n: bytes(n), [10, 1 << 20, 10], workers=3, limit=1, size=len))
    assert list(map(len, found)) == [10, 1 << 20, 10]


def test_an_error_comes_in_its_place() -> None:
    def work(number: int) -> int:
        if number == 5:
            raise ZeroDivisionError
        return number

    results = in_order(work, range(100), workers=4, limit=1 << 20, size=lambda _: 1)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not threads()


def test_an_error_of_the_items_comes_behind_what_they_gave() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ConnectionError

    results = in_order(lambda n: n, items(), workers=2, limit=1 << 20, size=lambda _: 1)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ConnectionError):
        next(results)


def test_closing_stops_the_threads() -> None:
    begun = 0

    def work(number: int) -> int:
        nonlocal begun
        begun += 1
        return number

    results = in_order(work, range(1_000_000), workers=3, limit=10_000, size=lambda _: 1000)
    assert next(results) == 0
    results.close()
    assert not threads()
    assert begun < 100
