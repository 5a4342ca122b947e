"""An engine without processes, which loses workers on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bushel._runtime.tasks import Finished, LostWorkerError, Task


class Pretended:
    def __init__(self, slots: int, lost: Mapping[int, int] | None = None) -> None:
        self.slots, self.closed = slots, False
        self._lost, self._losses = lost or {}, Counter[int]()
        self._waiting: list[tuple[Task, int]] = []

    def submit(self, task: Task, number: int) -> None:
        self._waiting.append((task, number))
        assert len(self._waiting) <= self.slots

    def wait(self, seconds: float) -> list[Finished]:
        if not self._waiting:
            return []
        task, number = self._waiting.pop(0)
        if self._losses[number] < self._lost.get(number, 0):
            self._losses[number] += 1
            return [Finished(number, error=LostWorkerError("killed"))]
        try:
            return [Finished(number, task(number))]
        except Exception as error:
            return [Finished(number, error=error)]

    def close(self) -> None:
        self.closed = True
