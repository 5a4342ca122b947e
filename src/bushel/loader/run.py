"""Running a pipeline in threads: batches come out in the order of their plans, a bounded number ahead.

The consumer's own thread keeps the books: at every step it plans and announces batches ahead, hands the next ones to
the threads, and waits for the oldest. So there is no queue to overflow and no thread that runs on its own; when the
consumer stops, for whatever reason, the generator ends and its threads are joined.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bushel.loader.ahead import Ahead, count_bytes
from bushel.loader.collate import Sample
from bushel.loader.pipeline import Failure, Pipeline
from bushel.loader.plan import BatchPlan
from bushel.loader.report import ErrorReport
from bushel.loader.stats import Clock

__all__ = ["Finished", "run_inline", "run_threads"]

_THREADS = "bushel-loader"


@dataclass(frozen=True, slots=True)
class Finished:
    """A batch.

    Attributes:
        consumed: Positions of the epoch that all ranks have consumed with it.
        batch: The batch, or None when all of its samples were skipped.
    """

    consumed: int
    batch: Any


def run_inline(
    pipeline: Pipeline, plans: Iterator[BatchPlan], report: ErrorReport, clock: Clock
) -> Generator[Finished]:
    """Do everything in the thread of the consumer, when it asks."""
    for plan in plans:
        pipeline.dataset.announce(plan.samples, pipeline.fields)
        prepared = pipeline.prepare(plan, pipeline.fetch(plan, clock), clock)
        yield Finished(plan.consumed, pipeline.assemble(plan, prepared, report, clock))


def run_threads(
    pipeline: Pipeline,
    plans: Iterator[BatchPlan],
    report: ErrorReport,
    clock: Clock,
    *,
    workers: int,
    ahead: Ahead,
    fetchers: int = 2,
) -> Generator[Finished]:
    """Work ahead in threads.

    Args:
        pipeline: What to do.
        plans: The batches; they are drawn from as late as can be.
        report: Where bad samples are noted.
        clock: Where times are added up.
        workers: Threads that decode and transform.
        fetchers: Threads that read: two, so that one batch is waited for while the bytes of another are copied; one for
            what can only be read in turn.
        ahead: How many batches are worked on, or wait, at any time. As many again are announced to the storage.

    Raises:
        RuntimeError: The generator was carried into another process by a fork: its threads are not there.
    """
    process = os.getpid()
    readers = ThreadPoolExecutor(fetchers, f"{_THREADS}-fetch")
    preparers = ThreadPoolExecutor(workers, f"{_THREADS}-prepare")
    announced: deque[BatchPlan] = deque()
    running: deque[_BatchTask] = deque()
    try:
        while True:
            while len(running) < ahead.batches:
                while len(announced) <= ahead.batches and (plan := next(plans, None)) is not None:
                    pipeline.dataset.announce(plan.samples, pipeline.fields)
                    announced.append(plan)
                if not announced:
                    break
                task = _BatchTask(pipeline, announced.popleft(), report, clock, preparers, workers)
                readers.submit(task.fetch)
                running.append(task)
            if not running:
                return
            ready = [task.done.done() for task in running]
            clock.add({"ready": sum(ready) / len(ready), "asked": 1})
            task = running.popleft()
            finished = Finished(task.plan.consumed, task.done.result())
            ahead = ahead.observe(ready=ready[0], size=count_bytes(finished.batch))
            del task  # it holds the batch, which is the consumer's from here on
            yield finished
            del finished
            if os.getpid() != process:
                raise RuntimeError(
                    "this iteration of a Loader began before a fork, and its threads stayed in the parent process: "
                    "begin a new `for` over the loader here"
                )
    finally:
        if os.getpid() == process:
            # the garbage collector may run this in one of these very threads, which cannot wait for itself
            wait = not threading.current_thread().name.startswith(_THREADS)
            try:  # in this order: readers hand work to preparers
                readers.shutdown(wait, cancel_futures=True)
            finally:
                preparers.shutdown(wait, cancel_futures=True)


class _BatchTask:
    """One batch on its way through the threads: fetched in one, prepared in several, assembled by the last of them."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: BatchPlan,
        report: ErrorReport,
        clock: Clock,
        preparers: ThreadPoolExecutor,
        parts: int,
    ) -> None:
        self.plan = plan
        self.done: Future[Any] = Future()
        self._pipeline, self._report, self._clock = pipeline, report, clock
        self._preparers, self._parts = preparers, parts
        self._lock = threading.Lock()

    def fetch(self) -> None:
        try:
            stored = self._pipeline.fetch(self.plan, self._clock)
            if self._pipeline.is_stored or not stored:
                self._assemble(stored)
                return
            size = -(-len(stored) // self._parts)
            starts = range(0, len(stored), size)
            self._left = len(starts)
            self._prepared: list[list[Sample | Failure]] = [[]] * len(starts)
            for part, start in enumerate(starts):
                self._preparers.submit(self._prepare, part, start, stored[start : start + size])
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._fail(error)

    def _prepare(self, part: int, start: int, stored: list[Sample | Failure]) -> None:
        try:
            self._prepared[part] = self._pipeline.prepare(self.plan, stored, self._clock, start)
            with self._lock:
                self._left -= 1
                if self._left:
                    return
            self._assemble([sample for samples in self._prepared for sample in samples])
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._fail(error)

    def _assemble(self, prepared: list[Sample | Failure]) -> None:
        self.done.set_result(self._pipeline.assemble(self.plan, prepared, self._report, self._clock))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if not self.done.done():  # of several that fail at once, the first to arrive is raised
                self.done.set_exception(error)
