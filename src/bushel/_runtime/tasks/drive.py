"""Run numbered tasks on an engine until all have finished, or call a function with every item of a list there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bushel._runtime.structs import Struct
from bushel._runtime.tasks.engine import Engine, LostWorkerError, Task
from bushel._runtime.tasks.schedule import Schedule

T = TypeVar("T")
U = TypeVar("U")

_WAIT_SECONDS = 0.25  # seconds between two looks for slow tasks, and two calls of the callback, while nothing finishes


class TaskOptions(Struct, frozen=True):
    """Options for trying tasks again."""

    retries: int = 3  # how often a task whose worker died, or that the system failed, is tried again
    backoff: float = 1.0  # seconds before the first retry; each further one waits twice as long, up to a minute
    # when no other tasks wait, a task that runs this many times longer than usual is started a second time, and the
    # first result counts. 0 for never
    speculate: float = 3.0
    patience: float = 10.0  # seconds that a task may take at any rate before it is started a second time

    def __post_init__(self) -> None:
        if self.retries < 0 or self.backoff < 0 or self.speculate < 0:
            raise ValueError(f"retries={self.retries} and speculate={self.speculate:g} must be 0 or more")


class Counts(Struct, frozen=True):
    """The numbers of additional attempts of a run."""

    retries: int  # attempts that were tried again
    stragglers: int  # tasks that were started a second time because they were slow


def drive(
    task: Task,
    numbers: Iterable[int],
    engine: Engine,
    options: TaskOptions,
    *,
    finished: Callable[[int, Any], None],
    looking: Callable[[Counts], None] | None = None,
) -> Counts:
    """Run a task with every number. On an error or Ctrl-C, all running attempts are ended.

    The error of a task that would come again is raised at once; a lost worker and an error of the system (`OSError`)
    are tried again.

    Args:
        task: The task.
        numbers: The numbers; they are drawn as needed.
        engine: The engine, which is closed at the end.
        options: How tasks are tried again.
        finished: Called in this thread with the number and the result of each task, in the order in which they finish.
        looking: Called in this thread some times per second.

    Raises:
        LostWorkerError: A worker died more often than `retries` allows.
        BaseException: The first final error of a task.
    """
    try:
        schedule = Schedule(
            numbers,
            slots=engine.slots,
            retries=options.retries,
            backoff=options.backoff,
            speculate=options.speculate,
            patience=options.patience,
        )
        while not schedule.done:
            schedule.slots = engine.slots
            for attempt in schedule.start(time.monotonic()):
                engine.submit(task, attempt)
            for end in engine.wait(_WAIT_SECONDS, schedule.unwanted):
                now = time.monotonic()
                if end.error is None:
                    if schedule.succeeded(end.attempt, now):
                        finished(end.attempt.number, end.result)
                elif schedule.failed(end.attempt, now, final=not can_be_tried_again(end.error)):
                    raise end.error
            if looking is not None:
                looking(Counts(schedule.retried, schedule.speculated))
        return Counts(schedule.retried, schedule.speculated)
    finally:
        engine.close()


def can_be_tried_again(error: BaseException) -> bool:
    """Return whether an error may be temporary: a worker was lost, or the system or the network failed."""
    return isinstance(error, LostWorkerError | OSError | MemoryError)


@dataclass(frozen=True, slots=True)
class _ItemTask(Generic[T, U]):
    work: Callable[[T], U]
    items: Sequence[T]

    def __call__(self, number: int) -> U:
        return self.work(self.items[number])


def map_on_engine(
    work: Callable[[T], U], items: Sequence[T], engine: Engine, *, finished: Callable[[T, U], None] | None = None
) -> list[U]:
    """Call a function with every item on an engine, and return the results in order.

    Args:
        work: The function, which can be pickled, as can its results. An item may be given to it twice.
        items: The items, which can be pickled.
        engine: The engine, which is closed at the end.
        finished: Called in this thread with each item whose result is there, and the result.

    Raises:
        BaseException: The first error of `work`.
    """
    results: dict[int, U] = {}

    def take(number: int, result: U) -> None:
        results[number] = result
        if finished is not None:
            finished(items[number], result)

    drive(_ItemTask(work, items), range(len(items)), engine, TaskOptions(), finished=take)
    return [results[number] for number in range(len(items))]
