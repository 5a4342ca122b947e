"""Run numbered tasks on an engine until all have finished, or call a function with every item of a list there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from bushel._runtime.structs import Struct
from bushel._runtime.tasks.engine import Attempt, Engine, LostWorkerError, Task

_RECENT = 101  # number of durations from which the usual duration is estimated
_LONGEST_PAUSE = 60.0
# additional factor by which a task must be slower to get a second attempt while all slots are taken
_FULL = 3
T = TypeVar("T")
U = TypeVar("U")
# seconds between two looks for slow tasks, and two calls of the callback, while nothing finishes
_WAIT_SECONDS = 0.25


@dataclass(slots=True)
class Running:
    """A task with at least one attempt that runs."""

    started: float
    attempts: list[Attempt] = field(default_factory=list)


class Schedule:
    """Tasks that wait, run, or wait to be tried again. Its memory is bounded by the tasks that run or failed.

    Args:
        numbers: Numbers of the tasks, in order. They are drawn as needed.
        slots: Number of attempts that may run at a time, apart from second attempts of tasks that
            hang.
        retries: How often a task that failed is tried again.
        backoff: Seconds before the first retry; each further one waits twice as long.
        speculate: A task that runs this many times longer than usual is started a second time, when
            no others wait. 0 for never.
        patience: Seconds that a task may take at any rate before it is started a second time.

    Attributes:
        slots: Number of attempts that may run at a time, which may be changed.
        retried: Number of attempts that were tried again.
    """

    def __init__(
        self,
        numbers: Iterable[int],
        *,
        slots: int,
        retries: int,
        backoff: float = 1.0,
        speculate: float = 3.0,
        patience: float = 10.0,
    ) -> None:
        self._numbers: Iterator[int] = iter(numbers)
        self._next: int | None = next(self._numbers, None)
        self.slots, self._retries, self._backoff = slots, retries, backoff
        self._speculate, self._patience = speculate, patience
        self._running: dict[int, Running] = {}
        # also second attempts of tasks that have finished, until they have ended
        self._live: set[Attempt] = set()
        self._again: list[tuple[float, int]] = []  # when, and which
        self._failures: dict[int, int] = {}
        self._starts: dict[int, int] = {}  # only of tasks that were started more than once
        self._durations: deque[float] = deque(maxlen=_RECENT)
        self.retried = 0

    @property
    def done(self) -> bool:
        """Whether every task has finished."""
        return self._next is None and not self._again and not self._running

    @property
    def stragglers(self) -> int:
        """Number of tasks with two running attempts."""
        return sum(len(run.attempts) > 1 for run in self._running.values())

    def start(self, now: float) -> Iterator[Attempt]:
        """Yield the attempts to start now."""
        while (attempt := self._choose(now)) is not None:
            self._running.setdefault(attempt.number, Running(now)).attempts.append(attempt)
            self._live.add(attempt)
            yield attempt

    @property
    def unwanted(self) -> list[Attempt]:
        """Attempts that still run although their task has finished."""
        return [attempt for attempt in self._live if attempt.number not in self._running]

    def _choose(self, now: float) -> Attempt | None:
        due = min(self._again, default=None)
        free = len(self._live) < self.slots
        if free and due is not None and due[0] <= now:
            self._again.remove(due)
            return self._attempt(due[1])
        if free and self._next is not None:
            number, self._next = self._next, next(self._numbers, None)
            return self._attempt(number)
        # workers that hang may have taken all slots: second attempts then start beside them
        if len(self._live) >= 2 * self.slots:
            return None
        slow = self._slowest(now, 1 if free else _FULL)
        if slow is not None:
            return self._attempt(slow)
        return None

    def _attempt(self, number: int) -> Attempt:
        started = self._starts.get(number, 0)
        self._starts[number] = started + 1
        return Attempt(number, started)

    def _slowest(self, now: float, times: float) -> int | None:
        if not self._speculate or not self._durations:
            return None
        from statistics import median  # which imports random numbers and fractions

        limit = times * max(self._patience, self._speculate * median(self._durations))
        slow = [
            (run.started, number)
            for number, run in self._running.items()
            if len(run.attempts) == 1 and now - run.started > limit
        ]
        if slow:
            return min(slow)[1]
        return None

    def succeeded(self, attempt: Attempt, now: float) -> bool:
        """Note that an attempt has finished. Return whether it is the first one of its task that has."""
        self._live.discard(attempt)
        running = self._running.pop(attempt.number, None)
        if running is None:  # another attempt was faster
            return False
        self._durations.append(now - running.started)
        self._failures.pop(attempt.number, None)
        self._starts.pop(attempt.number, None)
        return True

    def failed(self, attempt: Attempt, now: float, *, final: bool) -> bool:
        """Note that an attempt has failed.

        Args:
            attempt: The attempt.
            now: The time.
            final: Whether the same error would come again.

        Returns:
            Whether the run has failed: no other attempt of the task runs, and it is not tried
            again.
        """
        self._live.discard(attempt)
        running = self._running.get(attempt.number)
        if running is None or attempt not in running.attempts:
            return False
        running.attempts.remove(attempt)
        if running.attempts:
            return False
        del self._running[attempt.number]
        failures = self._failures[attempt.number] = self._failures.get(attempt.number, 0) + 1
        if final or failures > self._retries:
            return True
        self.retried += 1
        pause = min(self._backoff * 2 ** (failures - 1), _LONGEST_PAUSE)
        self._again.append((now + pause, attempt.number))
        return False


class TaskOptions(Struct, frozen=True):
    """Options for trying tasks again."""

    # how often a task whose worker died, or that the system failed, is tried again
    retries: int = 3
    # seconds before the first retry; each further one waits twice as long, up to a minute
    backoff: float = 1.0
    # when no other tasks wait, a task that runs this many times longer than usual is started a
    # second time, and the first result counts. 0 for never
    speculate: float = 3.0
    # seconds that a task may take at any rate before it is started a second time
    patience: float = 10.0

    def __post_init__(self) -> None:
        if self.retries < 0 or self.backoff < 0 or self.speculate < 0:
            raise ValueError(
                f"retries={self.retries} and speculate={self.speculate:g} must be 0 or more"
            )


def drive(
    task: Task,
    numbers: Iterable[int],
    engine: Engine,
    options: TaskOptions,
    *,
    finished: Callable[[int, Any], None],
    looking: Callable[[int], None] | None = None,
) -> None:
    """Run a task with every number. On an error or Ctrl-C, all running attempts are ended.

    The error of a task that would come again is raised at once; a lost worker and an error of the
    system (`OSError`) are tried again.

    Args:
        task: The task.
        numbers: The numbers; they are drawn as needed.
        engine: The engine, which is closed at the end.
        options: How tasks are tried again.
        finished: Called in this thread with the number and the result of each task, in the order in
            which they finish.
        looking: Called in this thread some times per second, with the number of attempts that were
            tried again.

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
                looking(schedule.retried)
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
    work: Callable[[T], U],
    items: Sequence[T],
    engine: Engine,
    *,
    finished: Callable[[T, U], None] | None = None,
) -> list[U]:
    """Call a function with every item on an engine, and return the results in order.

    Args:
        work: The function, which can be pickled, as can its results. An item may be given to it
            twice.
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
