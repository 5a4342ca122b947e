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
from dataclasses import replace

from bushel.loader.buffers import BufferPool
from bushel.loader.collate import Sample
from bushel.loader.outputs import Output, Upload
from bushel.loader.pipeline import Finished, Pipeline
from bushel.loader.plan import BatchPlan
from bushel.loader.prefetch import Ahead, count_bytes
from bushel.loader.report import ErrorReport, Failure
from bushel.loader.slots import SlotMemory
from bushel.loader.stats import Clock

__all__ = ["run_inline", "run_threads"]

_THREADS = "bushel-loader"
_FETCHERS, _REMOTE_FETCHERS = 2, 8


def run_inline(
    pipeline: Pipeline, plans: Iterator[BatchPlan], report: ErrorReport, clock: Clock, output: Output
) -> Generator[Finished]:
    """Do everything in the thread of the consumer, when it asks."""
    memory, upload = SlotMemory(pipeline.collate, BufferPool()), Upload(output)
    for plan in plans:
        pipeline.dataset.prefetch(plan.samples, pipeline.fields)
        fetched, slots = pipeline.fetch(plan, clock), pipeline.slots(plan, memory)
        prepared = pipeline.prepare(plan.epoch, plan.samples, fetched.samples, clock, slots)
        finished = pipeline.assemble(plan, fetched, prepared, slots, report, clock)
        del slots, prepared
        yield replace(finished, batch=upload.finish(upload.start(output.to_host(finished.batch))))


def run_threads(
    pipeline: Pipeline,
    plans: Iterator[BatchPlan],
    report: ErrorReport,
    clock: Clock,
    output: Output,
    *,
    workers: int,
    ahead: Ahead,
    fetchers: int | None = None,
) -> Generator[Finished]:
    """Work ahead in threads.

    Args:
        pipeline: What to do.
        plans: The batches; they are drawn from as late as can be.
        report: Where bad samples are noted.
        clock: Where times are added up.
        output: What batches become.
        workers: Threads that decode and transform.
        fetchers: Threads that read. None for two, so that one batch is waited for while the bytes of another are
            copied, and for eight where the dataset lies elsewhere, since a network answers many as soon as one. One
            for what can only be read in turn. No more batches are read at a time than `ahead` says.
        ahead: How many batches are worked on, or wait, at any time. As many again are announced to the storage.

    Raises:
        RuntimeError: The generator was carried into another process by a fork: its threads are not there.
    """
    process = os.getpid()
    if fetchers is None:
        fetchers = _REMOTE_FETCHERS if getattr(pipeline.dataset, "remote", False) else _FETCHERS
    readers = ThreadPoolExecutor(fetchers, f"{_THREADS}-fetch")
    preparers = ThreadPoolExecutor(workers, f"{_THREADS}-prepare")
    announced: deque[BatchPlan] = deque()
    running: deque[_BatchTask] = deque()
    memory, upload = SlotMemory(pipeline.collate, BufferPool(ahead.most_bytes)), Upload(output)
    try:
        while True:
            while len(running) < ahead.batches:
                while len(announced) <= ahead.batches and (plan := next(plans, None)) is not None:
                    pipeline.dataset.prefetch(plan.samples, pipeline.fields)
                    announced.append(plan)
                if not announced:
                    break
                task = _BatchTask(pipeline, announced.popleft(), memory, report, clock, output, preparers, workers)
                readers.submit(task.fetch)
                running.append(task)
            if not running:
                return
            ready = [task.done.done() for task in running]
            clock.add({"ready": sum(ready) / len(ready), "asked": 1})
            task = running.popleft()
            fetched = task.fetched
            finished = task.upload(upload)
            ahead = ahead.observe(ready=ready[0], all_ready=all(ready), fetched=fetched, size=task.size)
            finished = replace(finished, batch=upload.finish(finished.batch))
            del task  # it holds the batch, which is the consumer's from here on
            if running and ready[1] and not running[0].done.exception():
                running[0].upload(upload)  # which goes on while the trainer works on the batch before
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
        memory: SlotMemory,
        report: ErrorReport,
        clock: Clock,
        output: Output,
        preparers: ThreadPoolExecutor,
        parts: int,
    ) -> None:
        self.plan = plan
        self.size, self.fetched = 0, False
        self.done: Future[Finished] = Future()
        self._pipeline, self._report, self._clock, self._output = pipeline, report, clock, output
        self._preparers, self._parts = preparers, parts
        self._slots = pipeline.slots(plan, memory)
        self._uploaded: Finished | None = None
        self._lock = threading.Lock()

    def fetch(self) -> None:
        try:
            self._fetched = self._pipeline.fetch(self.plan, self._clock)
            stored, self.fetched = self._fetched.samples, True
            if self._pipeline.is_stored or not stored:
                self._assemble(stored)
                return
            parts = 1 if self._pipeline.is_light(self._fetched) else self._parts
            size = -(-len(stored) // parts)
            starts = range(0, len(stored), size)
            self._left = len(starts)
            self._prepared: list[list[Sample | Failure]] = [[]] * len(starts)
            for part, start in enumerate(starts):
                self._preparers.submit(self._prepare, part, start, start + size)
        except BaseException as error:
            self._fail(error)

    def _prepare(self, part: int, start: int, end: int) -> None:
        try:
            plan, stored = self.plan, self._fetched.samples[start:end]
            self._prepared[part] = self._pipeline.prepare(
                plan.epoch, plan.samples[start:end], stored, self._clock, self._slots, start
            )
            with self._lock:
                self._left -= 1
                if self._left:
                    return
            self._assemble([sample for samples in self._prepared for sample in samples])
        except BaseException as error:
            self._fail(error)

    def _assemble(self, prepared: list[Sample | Failure]) -> None:
        finished = self._pipeline.assemble(self.plan, self._fetched, prepared, self._slots, self._report, self._clock)
        self.size = count_bytes(finished.batch)
        self.done.set_result(replace(finished, batch=self._output.to_host(finished.batch)))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if not self.done.done():  # of several that fail at once, the first to arrive is raised
                self.done.set_exception(error)

    def upload(self, upload: Upload) -> Finished:
        """Wait for the batch, and begin to copy it to its device, once."""
        if self._uploaded is None:
            finished = self.done.result()
            self._uploaded = replace(finished, batch=upload.start(finished.batch))
        return self._uploaded
