"""Run tasks in worker processes of this machine."""

from __future__ import annotations

import pickle
import select
from functools import lru_cache
from typing import Any

from bushel._runtime.processes import (
    WorkerDiedError,
    WorkerProcess,
    answer,
    pickle_for_worker,
    portable,
)
from bushel._runtime.tasks import Finished, LostWorkerError, Task
from bushel._runtime.threads import cpu_count


def call(task: Task, number: int) -> tuple[Any, BaseException | None]:
    """Return the result of a task, or its error in a form that can be pickled."""
    try:
        return task(number), None
    except Exception as error:
        return None, portable(error)


def call_pickled(job: bytes, number: int) -> tuple[Any, BaseException | None]:
    """Call a pickled task. A worker unpickles it once."""
    try:
        task = _load(job)
    except Exception as error:
        return None, RuntimeError(f"a worker cannot load the task: {type(error).__name__}: {error}")
    return call(task, number)


@lru_cache(maxsize=1)
def _load(job: bytes) -> Task:
    task: Task = pickle.loads(job)
    return task


def connect(engine: object = "local") -> LocalEngine:
    """Return an engine with a worker process for every CPU that this process may use."""
    return LocalEngine(cpu_count())


class LocalEngine:
    """Worker processes. Each runs one task at a time. One that ends unexpectedly is replaced.

    Args:
        processes: Number of worker processes.
    """

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"processes={processes} is too small: give 1 or more")
        self.slots = processes
        self._idle: list[WorkerProcess] = []
        self._busy: dict[int, WorkerProcess] = {}
        self._job: bytes | None = None

    def submit(self, task: Task, number: int) -> None:
        """Start a task in a process that is idle, or in a new one."""
        if self._job is None:
            self._job = pickle_for_worker(task, "the source and the transforms")
        worker = self._idle.pop() if self._idle else self._start(self._job)
        self._busy[number] = worker
        worker.send(number.to_bytes(8, "little"))

    def wait(self, seconds: float) -> list[Finished]:
        """Return the tasks that have finished."""
        poll = select.poll()
        owners = {worker.fileno(): number for number, worker in self._busy.items()}
        for descriptor in owners:
            poll.register(descriptor, select.POLLIN)
        return [self._receive(owners[descriptor]) for descriptor, _ in poll.poll(seconds * 1000)]

    def close(self) -> None:
        """Kill the processes that work, and end the others."""
        for worker in self._busy.values():
            worker.kill()
        idle, self._idle, self._busy, self._job = self._idle, [], {}, None
        for worker in idle:
            worker.close()
        for worker in idle:
            worker.join()

    def _start(self, job: bytes) -> WorkerProcess:
        worker = WorkerProcess("bushel.engines.local")
        worker.send(job)
        return worker

    def _receive(self, number: int) -> Finished:
        worker = self._busy.pop(number)
        try:
            message, _ = worker.receive()
        except WorkerDiedError as error:
            worker.close()
            return Finished(number, error=LostWorkerError(str(error)))
        self._idle.append(worker)
        result, failure = pickle.loads(message)
        return Finished(number, result, failure)


def serve(descriptor: int) -> None:
    """Run a worker process: do the parent's tasks until it closes its end of this socket."""
    answer(descriptor, lambda task, number: call(task, int.from_bytes(number, "little")))
