"""Decide which attempts of numbered tasks to start. Nothing here does I/O or looks at a clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bushel._runtime.tasks.engine import Attempt

_RECENT = 101  # number of durations from which the usual duration is estimated
_LONGEST_PAUSE = 60.0
_FULL = 3  # additional factor by which a task must be slower to get a second attempt while all slots are taken


@dataclass(slots=True)
class Running:
    """A task with at least one attempt that runs."""

    started: float
    attempts: list[Attempt] = field(default_factory=list)


class Schedule:
    """Tasks that wait, run, or wait to be tried again. Its memory is bounded by the tasks that run or failed.

    Args:
        numbers: Numbers of the tasks, in order. They are drawn as needed.
        slots: Number of attempts that may run at a time, besides second attempts of tasks that hang.
        retries: How often a task that failed is tried again.
        backoff: Seconds before the first retry; each further one waits twice as long.
        speculate: A task that runs this many times longer than usual is started a second time, when no others wait.
            0 for never.
        patience: Seconds that a task may take at any rate before it is started a second time.

    Attributes:
        slots: Number of attempts that may run at a time, which may be changed.
        retried: Number of attempts that were tried again.
        speculated: Number of tasks that were started a second time because they were slow.
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
        self._live: set[Attempt] = set()  # also second attempts of tasks that have finished, until they have ended
        self._again: list[tuple[float, int]] = []  # when, and which
        self._failures: dict[int, int] = {}
        self._starts: dict[int, int] = {}  # only of tasks that were started more than once
        self._durations: deque[float] = deque(maxlen=_RECENT)
        self.retried = self.speculated = 0

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
            self.speculated += 1
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
        return min(slow)[1] if slow else None

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
            Whether the run has failed: no other attempt of the task runs, and it is not tried again.
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
