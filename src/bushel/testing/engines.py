"""Conformance checks of engines."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bushel.engines import Attempt, Engine, Finished, LostWorkerError, Task
from bushel.testing.expect import expect, expect_equal

_TASKS = 7
_PATIENCE_SECONDS = 120.0
_HANG_SECONDS = 600.0


def check_engine(make: Callable[[], Engine], folder: Path, *, kills: bool = True) -> None:
    """Check an engine: results, errors with their types, lost workers, unwanted attempts, and its end.

    Args:
        make: Returns a new engine with at least two slots.
        folder: An empty folder that its workers can read and write at the same path.
        kills: Whether workers may be killed: false if they are threads of this process.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> from bushel.engines import connect
        >>> from bushel.testing import check_engine
        >>> Path("empty").mkdir()
        >>> check_engine(lambda: connect("local"), Path("empty"))
    """
    with _closing(make()) as engine:
        expect(engine.slots >= 2, f"the engine has {engine.slots} slots; these checks need two")
        ends = _run(engine, _Task(folder), range(_TASKS))
        expect_equal(
            {n: end.result for n, end in ends.items()},
            {n: n * n for n in range(_TASKS)},
            "the results",
        )
        expect(all(end.error is None for end in ends.values()), "a task without an error has one")
        engine.close()
        ends = _run(engine, _Cube(), range(3))
        expect_equal(
            {n: end.result for n, end in ends.items()},
            {n: n**3 for n in range(3)},
            "another task's results",
        )
    with _closing(make()) as engine:
        (folder / "refuse-1").touch()
        ends = _run(engine, _Task(folder), range(3))
        expect(
            isinstance(ends[1].error, ValueError),
            f"the error of a task is {ends[1].error!r}, not its ValueError",
        )
        expect_equal(str(ends[1].error), "number 1", "the text of the error")
        expect_equal(ends[2].result, 4, "the result of another task")
    if kills:
        with _closing(make()) as engine:
            (folder / "kill-0").touch()
            ends = _run(engine, _Task(folder), range(3))
            lost = ends[0].error
            expect(
                lost is None or isinstance(lost, LostWorkerError),  # an engine may try again itself
                f"the error of a killed worker is {lost!r}, not a LostWorkerError",
            )
            expect_equal([ends[1].result, ends[2].result], [1, 4], "the results of other workers")
    _check_hung(make, folder)


def _check_hung(make: Callable[[], Engine], folder: Path) -> None:
    """Check that an attempt that hangs does not stop others, and that the engine can be closed."""
    engine = make()
    with _closing(engine):
        (folder / "hang-0").touch()
        first, second = Attempt(0, 0), Attempt(0, 1)
        task = _Task(folder)
        engine.submit(task, first)
        _until(lambda: not (folder / "hang-0").exists(), "the first attempt did not start")
        engine.submit(task, second)
        ended: list[Finished] = []
        _until(lambda: bool(_take(engine, ended)), "the second attempt did not finish")
        expect_equal(
            [(end.attempt, end.result) for end in ended], [(second, 0)], "what has finished"
        )
        engine.submit(task, Attempt(3, 0))
        ended.clear()
        _until(
            lambda: any(end.result == 9 for end in _take(engine, ended, first)),
            "a task after an unwanted attempt did not finish",
        )
    engine.close()  # may be called twice


@dataclass(frozen=True)
class _Task:
    """Returns the square of the number; a file in the folder makes one attempt fail, die or hang."""

    folder: Path

    def __call__(self, number: int) -> int:
        for way in ("refuse", "kill", "hang"):
            try:
                (self.folder / f"{way}-{number}").unlink()
            except FileNotFoundError:
                continue
            if way == "refuse":
                raise ValueError(f"number {number}")
            if way == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(_HANG_SECONDS)
        return number * number


@dataclass(frozen=True)
class _Cube:
    """Returns the cube of the number."""

    def __call__(self, number: int) -> int:
        return number**3


def _run(engine: Engine, task: Task, numbers: range) -> dict[int, Finished]:
    waiting = [Attempt(number, 0) for number in numbers]
    running: set[Attempt] = set()
    ends: dict[int, Finished] = {}
    end = time.monotonic() + _PATIENCE_SECONDS
    while waiting or running:
        expect(
            time.monotonic() < end,
            f"these attempts did not finish: {sorted(attempt.number for attempt in running)}",
        )
        while waiting and len(running) < engine.slots:
            running.add(waiting[0])
            engine.submit(task, waiting.pop(0))
        for finished in engine.wait(0.2):
            expect(
                finished.attempt in running, f"{finished.attempt} has finished, but does not run"
            )
            running.discard(finished.attempt)
            ends[finished.attempt.number] = finished
    return ends


def _take(engine: Engine, ends: list[Finished], *unwanted: Attempt) -> list[Finished]:
    ends += engine.wait(0.1, unwanted)
    return ends


def _until(done: Callable[[], bool], failure: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not done():
        expect(time.monotonic() < end, failure)
        time.sleep(0.02)


@contextmanager
def _closing(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.close()
