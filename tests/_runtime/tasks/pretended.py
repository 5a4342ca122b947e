"""An engine without processes, which loses workers on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bushel._runtime.tasks.engine import Attempt, Finished, LostWorkerError, Task


class Pretended:
    def __init__(self, slots: int, lost: Mapping[int, int] | None = None) -> None:
        self.slots, self.closed = slots, False
        self._lost, self._losses = lost or {}, Counter[int]()
        self._waiting: list[tuple[Task, Attempt]] = []

    def submit(self, task: Task, attempt: Attempt) -> None:
        self._waiting.append((task, attempt))
        assert len(self._waiting) <= self.slots

    def wait(self, seconds: float, unwanted: Sequence[Attempt] = ()) -> list[Finished]:
        if not self._waiting:
            return []
        task, attempt = self._waiting.pop(0)
        if self._losses[attempt.number] < self._lost.get(attempt.number, 0):
            self._losses[attempt.number] += 1
            return [Finished(attempt, error=LostWorkerError("killed"))]
        try:
            return [Finished(attempt, task(attempt.number))]
        except Exception as error:
            return [Finished(attempt, error=error)]

    def close(self) -> None:
        self.closed = True
