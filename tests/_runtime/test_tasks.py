from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._runtime.pretended import Pretended

from bushel._runtime.tasks import LostWorkerError, Schedule, can_be_tried_again, drive
from bushel.engines import connect


@given(st.integers(0, 40), st.integers(1, 5), st.data())
def test_every_task_is_done_once_whatever_fails(tasks: int, slots: int, data: st.DataObject) -> None:
    schedule = Schedule(range(tasks), slots=slots, retries=2, backoff=1)
    running: list[int] = []
    done: Counter[int] = Counter()
    failures: Counter[int] = Counter()
    now = 0.0
    while not schedule.done:
        running += schedule.start(now)
        assert len(running) <= slots
        assert len(set(running)) == len(running)
        now += data.draw(st.sampled_from([0.1, 1, 5]))
        if not running:
            continue
        number = running.pop(data.draw(st.integers(0, len(running) - 1)))
        if failures[number] < 2 and data.draw(st.booleans()):
            assert not schedule.failed(number, now, final=False)
            failures[number] += 1
        else:
            schedule.succeeded(number)
            done[number] += 1
    assert done == Counter(range(tasks))
    assert schedule.retried == failures.total()


def test_a_task_waits_longer_each_time_and_fails_in_the_end() -> None:
    schedule = Schedule([4], slots=1, retries=2, backoff=1)
    assert list(schedule.start(0)) == [4]
    assert not schedule.failed(4, 10, final=False)
    assert list(schedule.start(10.9)) == []
    assert list(schedule.start(11)) == [4]
    assert not schedule.failed(4, 20, final=False)
    assert list(schedule.start(21.9)) == []
    assert list(schedule.start(22)) == [4]
    assert schedule.failed(4, 23, final=False)
    assert schedule.retried == 2


def test_memory_does_not_grow_with_the_number_of_tasks() -> None:
    schedule = Schedule(range(100_000), slots=4, retries=1)
    now = 0.0
    while not schedule.done:
        for number in schedule.start(now):
            schedule.succeeded(number)
        now += 1
    held = [each for each in vars(schedule).values() if hasattr(each, "__len__")]
    assert max(map(len, held)) <= 101


def test_lost_workers_are_replaced_and_final_errors_are_not() -> None:
    results: dict[int, int] = {}
    engine = Pretended(3, lost={2: 2, 5: 1})
    retries = [0]
    note = results.__setitem__
    drive(_double, range(8), engine, finished=note, looking=retries.append, backoff=0)
    assert results == {number: 2 * number for number in range(8)}
    assert retries[-1] == 3
    assert engine.closed
    with pytest.raises(LostWorkerError):
        drive(_double, range(8), Pretended(3, lost={2: 9}), finished=note, retries=2, backoff=0)
    with pytest.raises(ValueError, match="number 3"):
        drive(_refuse_three, range(8), Pretended(3), finished=note, backoff=0)
    assert can_be_tried_again(OSError())
    assert not can_be_tried_again(KeyError())


def _double(number: int) -> int:
    return 2 * number


def _refuse_three(number: int) -> int:
    if number == 3:
        raise ValueError("number 3")
    return number


def test_not_an_engine() -> None:
    with pytest.raises(ValueError, match="unknown engine 'spark': use one of local, ray, dask"):
        connect("spark")
    with pytest.raises(ValueError, match="--engine slurm"):
        connect("slurm")
    with pytest.raises(TypeError, match="int is not an engine"):
        connect(3)
    assert connect(pretended := Pretended(1)) is pretended
