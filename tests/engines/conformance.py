"""Checks that every engine must pass: results, errors, lost workers, tasks that hang."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bushel.engines import Engine, Finished, LostWorkerError, Task
from bushel.testing.expect import expect, expect_equal

_TASKS = 7
_PATIENCE_SECONDS = 120.0
_HANG_SECONDS = 600.0


def check_engine(make: Callable[[], Engine], folder: Path, *, kills: bool = True) -> None:
    """Check an engine: results, errors with their types, lost workers, tasks that hang, and its end.

    Args:
        make: Returns a new engine with at least two slots.
        folder: An empty folder that its workers can read and write at the same path.
        kills: Whether workers may be killed: false if they are threads of this process.

    Raises:
        ConformanceError: A check failed.
    """
    with closing(make()) as engine:
        expect(engine.slots >= 2, f"the engine has {engine.slots} slots; these checks need two")
        ends = _run(engine, _Task(folder), range(_TASKS))
        expect_equal(
            {n: end.result for n, end in ends.items()},
            {n: n * n for n in range(_TASKS)},
            "the results",
        )
        expect(all(end.error is None for end in ends.values()), "a task without an error has one")
        engine.close()
        ends = _run(engine, partial(pow, exp=3), range(3))
        expect_equal(
            {n: end.result for n, end in ends.items()},
            {n: n**3 for n in range(3)},
            "another task's results",
        )
    with closing(make()) as engine:
        (folder / "refuse-1").touch()
        ends = _run(engine, _Task(folder), range(3))
        expect(
            isinstance(ends[1].error, ValueError),
            f"the error of a task is {ends[1].error!r}, not its ValueError",
        )
        expect_equal(str(ends[1].error), "number 1", "the text of the error")
        expect_equal(ends[2].result, 4, "the result of another task")
    if kills:
        with closing(make()) as engine:
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
    """Check that a task that hangs does not stop others, and that the engine can be closed."""
    engine = make()
    with closing(engine):
        (folder / "hang-0").touch()
        task = _Task(folder)
        engine.submit(task, 0)
        _until(lambda: not (folder / "hang-0").exists(), "the first task did not start")
        engine.submit(task, 3)
        ended: list[Finished] = []

        def has_ended() -> bool:
            ended.extend(engine.wait(0.1))
            return bool(ended)

        _until(has_ended, "the other task did not finish")
        expect_equal([(end.number, end.result) for end in ended], [(3, 9)], "what has finished")
    engine.close()  # may be called twice


@dataclass(frozen=True)
class _Task:
    """Returns the square of the number; a file in the folder makes one call fail, die or hang."""

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


def _run(engine: Engine, task: Task, numbers: range) -> dict[int, Finished]:
    waiting = list(numbers)
    running: set[int] = set()
    ends: dict[int, Finished] = {}
    end = time.monotonic() + _PATIENCE_SECONDS
    while waiting or running:
        expect(time.monotonic() < end, f"these tasks did not finish: {sorted(running)}")
        while waiting and len(running) < engine.slots:
            running.add(waiting[0])
            engine.submit(task, waiting.pop(0))
        for finished in engine.wait(0.2):
            what = f"task {finished.number} has finished, but does not run"
            expect(finished.number in running, what)
            running.discard(finished.number)
            ends[finished.number] = finished
    return ends


def _until(done: Callable[[], bool], failure: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not done():
        expect(time.monotonic() < end, failure)
        time.sleep(0.02)
