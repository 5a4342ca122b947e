from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._runtime.tasks.pretended import Pretended

from bushel._runtime.tasks.drive import Schedule, TaskOptions, can_be_tried_again, drive
from bushel._runtime.tasks.engine import Attempt, LostWorkerError
from bushel.engines import connect


@given(st.integers(0, 40), st.integers(1, 5), st.data())
def test_every_task_is_done_once_whatever_fails(tasks: int, slots: int, data: st.DataObject) -> None:
    schedule = Schedule(range(tasks), slots=slots, retries=2, backoff=1, speculate=2, patience=3)
    running: list[Attempt] = []
    done: Counter[int] = Counter()
    failures: Counter[int] = Counter()
    now = 0.0
    while not schedule.done:
        started = list(schedule.start(now))
        running += started
        assert len(running) <= 2 * slots
        assert len(set(running)) == len(running)
        now += data.draw(st.sampled_from([0.1, 1, 5]))
        if not running:
            continue
        attempt = running.pop(data.draw(st.integers(0, len(running) - 1)))
        if failures[attempt.number] < 2 and data.draw(st.booleans()):
            before = schedule.retried
            assert not schedule.failed(attempt, now, final=False)
            failures[attempt.number] += schedule.retried - before
        else:
            done[attempt.number] += schedule.succeeded(attempt, now)
    assert done == Counter(range(tasks))
    assert all(attempt in running for attempt in schedule.unwanted)


def test_a_task_waits_longer_each_time_and_fails_in_the_end() -> None:
    schedule = Schedule([4], slots=1, retries=2, backoff=1)
    [first] = schedule.start(0)
    assert not schedule.failed(first, 10, final=False)
    assert list(schedule.start(10.9)) == []
    [second] = schedule.start(11)
    assert (second.number, second.attempt) == (4, 1)
    assert not schedule.failed(second, 20, final=False)
    assert list(schedule.start(21.9)) == []
    [third] = schedule.start(22)
    assert schedule.failed(third, 23, final=False)
    assert schedule.retried == 2


def test_slow_tasks_are_started_again_when_no_others_wait() -> None:
    schedule = Schedule(range(3), slots=3, retries=0, speculate=2, patience=1)
    a, b, c = schedule.start(0)
    assert schedule.succeeded(a, 2)
    assert list(schedule.start(3)) == []  # not slow yet: twice the usual time is 4
    [again] = schedule.start(5)
    assert again == Attempt(b.number, 1)
    assert schedule.stragglers == 1
    assert list(schedule.start(6)) == []  # all three slots are taken
    assert [each.number for each in schedule.start(13)] == [c.number]  # so it must be three times slower still
    assert schedule.succeeded(again, 14)
    assert schedule.unwanted == [b]
    assert not schedule.succeeded(b, 15)  # its late result changes nothing
    assert schedule.succeeded(c, 16)
    assert schedule.done


def test_an_error_of_the_slower_attempt_changes_nothing() -> None:
    schedule = Schedule(range(2), slots=2, retries=0, speculate=1, patience=0)
    a, b = schedule.start(0)
    assert schedule.succeeded(a, 1)
    [again] = schedule.start(3)
    assert not schedule.failed(b, 4, final=True)
    assert schedule.succeeded(again, 5)
    assert schedule.done


def test_memory_does_not_grow_with_the_number_of_tasks() -> None:
    schedule = Schedule(range(100_000), slots=4, retries=1)
    now = 0.0
    while not schedule.done:
        for attempt in schedule.start(now):
            schedule.succeeded(attempt, now + 1)
        now += 1
    held = [each for each in vars(schedule).values() if hasattr(each, "__len__")]
    assert max(map(len, held)) <= 101


def test_lost_workers_are_replaced_and_final_errors_are_not() -> None:
    results: dict[int, int] = {}
    engine = Pretended(3, lost={2: 2, 5: 1})
    retries = [0]
    options = TaskOptions(backoff=0)
    drive(_double, range(8), engine, options, finished=results.__setitem__, looking=retries.append)
    assert results == {number: 2 * number for number in range(8)}
    assert retries[-1] == 3
    assert engine.closed
    with pytest.raises(LostWorkerError):
        drive(_double, range(8), Pretended(3, lost={2: 9}), TaskOptions(2, 0), finished=results.__setitem__)
    with pytest.raises(ValueError, match="number 3"):
        drive(_refuse_three, range(8), Pretended(3), TaskOptions(backoff=0), finished=results.__setitem__)
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
    with pytest.raises(ValueError, match="retries=-1"):
        TaskOptions(-1)
    assert connect(pretended := Pretended(1)) is pretended
