"""Numbered tasks on an engine, in other processes or on other machines: the protocol of engines, and the run of a task.

Tasks are submitted, tried again if their worker died, and their results taken as they finish.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from .public import public

if TYPE_CHECKING:
    from distributed import Client


@public("bushel.engines")
class LostWorkerError(RuntimeError):
    """The process or machine that ran a task has died. The task can be tried again.

    Examples:
        >>> import os
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.submit(os._exit, 1)
        >>> type(engine.wait(seconds=60)[0].error)
        <class 'bushel.engines.LostWorkerError'>
        >>> engine.close()
    """


@public("bushel.engines")
class Task(Protocol):
    """A function of a number. It can be pickled, and may be called twice with the same number.

    Examples:
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.submit(bin, 5)  # any function of a number that can be pickled
        >>> engine.wait(seconds=60)[0].result
        '0b101'
        >>> engine.close()
    """

    def __call__(self, number: int, /) -> Any:
        """Do the work with this number and return a small result, which can be pickled."""


@public("bushel.engines")
class Finished(Struct, frozen=True):
    """The end of a task.

    Attributes:
        number: Number of the task.
        result: The result of the task; None after an error.
        error: The error that it raised; `LostWorkerError` if its worker died.

    Examples:
        >>> from bushel.engines import Finished
        >>> Finished(3, result="part-00003").result
        'part-00003'
    """

    number: int
    result: Any = None
    error: BaseException | None = None


@public("bushel.engines")
@runtime_checkable
class Engine(Protocol):
    """Runs one task with many numbers elsewhere, at most `slots` at a time.

    Examples:
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.submit(hex, 255)
        >>> [finished.result for finished in engine.wait(seconds=60)]
        ['0xff']
        >>> engine.close()
    """

    @property
    def slots(self) -> int:
        """Number of tasks that run at a time. It may change."""

    def submit(self, task: Task, number: int) -> None:
        """Start a task with a number. Until the engine is closed, the task is the same.

        A number that has finished may be submitted again, after an error.

        Raises:
            TypeError: The task cannot be pickled.
        """

    def wait(self, seconds: float) -> Sequence[Finished]:
        """Return the tasks that have finished since the last call; wait this long if none has."""

    def close(self) -> None:
        """End all tasks that run, hung ones too, and free what this engine has started.

        May be called twice. Another task can be submitted after it.
        """


AnyEngine: TypeAlias = "str | Engine | Client"
"""An engine, its name (`local`, `ray`, `dask`), an address such as `tcp://host:8786`, or a `distributed.Client`."""


def format_numbers(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges: `7,19-22`."""
    runs = list[str]()
    # consecutive numbers are as far apart from their places
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = (number for _, number in run)
        runs.append(f"{first}-{rest[-1]}" if rest else f"{first}")
    return ",".join(runs)


RETRIES = 3
"""How often a task is usually tried again."""

_LONGEST_PAUSE = 60.0
T = TypeVar("T")
U = TypeVar("U")
# seconds between two calls of the callback while nothing finishes
_WAIT_SECONDS = 0.25


class Schedule:
    """Tasks that wait, run, or wait to be tried again. Its memory is bounded by the tasks that run or failed.

    Args:
        numbers: Numbers of the tasks, in order. They are drawn as needed.
        slots: Number of tasks that may run at a time.
        retries: How often a task that failed is tried again.
        backoff: Seconds before the first retry; each further one waits twice as long, up to a
            minute.

    Attributes:
        slots: Number of tasks that may run at a time, which may be changed.
        retried: Number of tasks that were tried again.
    """

    def __init__(
        self, numbers: Iterable[int], *, slots: int, retries: int, backoff: float = 1.0
    ) -> None:
        self._numbers: Iterator[int] = iter(numbers)
        self._next: int | None = next(self._numbers, None)
        self.slots, self._retries, self._backoff = slots, retries, backoff
        self._running: set[int] = set()
        self._again: list[tuple[float, int]] = []  # when, and which
        self._failures = Counter[int]()
        self.retried = 0

    @property
    def done(self) -> bool:
        """Whether every task has finished."""
        return self._next is None and not self._again and not self._running

    def start(self, now: float) -> Iterator[int]:
        """Yield the numbers of the tasks to start now."""
        while len(self._running) < self.slots:
            due = min(self._again, default=None)
            if due is not None and due[0] <= now:
                self._again.remove(due)
                number = due[1]
            elif self._next is not None:
                number, self._next = self._next, next(self._numbers, None)
            else:
                return
            self._running.add(number)
            yield number

    def succeeded(self, number: int) -> None:
        """Note that a task has finished."""
        self._running.remove(number)
        self._failures.pop(number, None)

    def failed(self, number: int, now: float, *, final: bool) -> bool:
        """Note that a task has failed.

        Args:
            number: The task.
            now: The time.
            final: Whether the same error would come again.

        Returns:
            Whether the run has failed, since the task is not tried again.
        """
        self._running.remove(number)
        self._failures[number] += 1
        failures = self._failures[number]
        if final or failures > self._retries:
            return True
        self.retried += 1
        pause = min(self._backoff * 2 ** (failures - 1), _LONGEST_PAUSE)
        self._again.append((now + pause, number))
        return False


def drive(
    task: Task,
    numbers: Iterable[int],
    engine: Engine,
    *,
    finished: Callable[[int, Any], None],
    looking: Callable[[int], None] | None = None,
    retries: int = RETRIES,
    backoff: float = 1.0,
) -> None:
    """Run a task with every number. On an error or Ctrl-C, all running tasks are ended.

    The error of a task that would come again is raised at once; a lost worker and an error of the
    system (`OSError`) are tried again.

    Args:
        task: The task.
        numbers: The numbers; they are drawn as needed.
        engine: The engine, which is closed at the end.
        finished: Called in this thread with the number and the result of each task, in the order in
            which they finish.
        looking: Called in this thread some times per second, with the number of tasks that were
            tried again.
        retries: How often a task whose worker died, or that the system failed, is tried again.
        backoff: Seconds before the first retry; each further one waits twice as long, up to a
            minute.

    Raises:
        LostWorkerError: A worker died more often than `retries` allows.
        BaseException: The first final error of a task.
    """
    try:
        schedule = Schedule(numbers, slots=engine.slots, retries=retries, backoff=backoff)
        while not schedule.done:
            schedule.slots = engine.slots
            for number in schedule.start(time.monotonic()):
                engine.submit(task, number)
            for end in engine.wait(_WAIT_SECONDS):
                if end.error is None:
                    schedule.succeeded(end.number)
                    finished(end.number, end.result)
                elif schedule.failed(
                    end.number, time.monotonic(), final=not can_be_tried_again(end.error)
                ):
                    raise end.error
            if looking is not None:
                looking(schedule.retried)
    finally:
        engine.close()


def can_be_tried_again(error: BaseException) -> bool:
    """Return whether an error may be temporary: a worker was lost, or the system or the network failed."""
    return isinstance(error, LostWorkerError | OSError | MemoryError)


class _ItemTask(Struct, Generic[T, U], frozen=True):
    work: Callable[[T], U]
    items: Sequence[T]

    def __call__(self, number: int) -> U:
        return self.work(self.items[number])


def map_on_engine(
    work: Callable[[T], U],
    items: Sequence[T],
    engine: Engine,
    *,
    finished: Callable[[U], None] | None = None,
) -> list[U]:
    """Call a function with every item on an engine, and return the results in order.

    Args:
        work: The function, which can be pickled, as can its results. An item may be given to it
            twice.
        items: The items, which can be pickled.
        engine: The engine, which is closed at the end.
        finished: Called in this thread with each result.

    Raises:
        BaseException: The first error of `work`.
    """
    results: dict[int, U] = {}

    def take(number: int, result: U) -> None:
        results[number] = result
        if finished is not None:
            finished(result)

    drive(_ItemTask(work, items), range(len(items)), engine, finished=take)
    return [results[number] for number in range(len(items))]
