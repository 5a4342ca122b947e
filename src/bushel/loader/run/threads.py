"""Batches made of samples: in threads, in the order of their plans with a bounded number prefetched, or in this thread.

A batch has two stages, reading and decoding, and several threads decode parts of it. It is
therefore not one item of `parallel_map`: this module schedules the parts itself, on the same
`Threads` and `Result`. The consumer's own thread does that: at every step it plans batches and
prefetches their bytes, hands the next ones to the threads, and waits for the oldest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.threads import Clock, Result, Threads
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.batch_arrays import ArrayFactory, BufferPool
from bushel.loader.values.bad_samples import ErrorReport, Failure
from bushel.loader.values.collate import Sample, count_bytes
from bushel.loader.values.outputs import Finished, Output, Upload

from .pipeline import Pipeline

if TYPE_CHECKING:
    from .read_ahead import HeldBatch, ReadAhead

_PATIENCE = 16  # batches in a row that needed no larger window before it shrinks by one
# batches in a row that were not read in time before it grows: one may be late because the machine
# is busy
_LATE = 2


class PrefetchWindow(Struct, frozen=True):
    """The number of batches that are worked on at a time. It adapts to the waiting time of the trainer.

    Attributes:
        least: Minimum number of batches.
        most: Maximum number; the same as `least` for a fixed number.
        most_bytes: Maximum size of them together, in bytes. One batch of any size is always worked
            on.
        depth: The number without the limit on bytes.
        in_time: Number of batches in a row that needed no larger window.
        late: Number of batches in a row whose stored bytes were not read when the trainer asked for
            them.
        idle: Whether all batches were ready at some time since the last increase, so that threads
            had nothing to do.
        largest: Size of the largest batch so far, in bytes.
    """

    least: int
    most: int
    most_bytes: int
    depth: int = 0
    in_time: int = 0
    late: int = 0
    idle: bool = False
    largest: int = 0

    @classmethod
    def of(cls, prefetch: int | None, most_bytes: int) -> PrefetchWindow:
        """Return a window of `prefetch` batches, or (None) of between 2 and 16."""
        least, most = (2, 16) if prefetch is None else (prefetch, prefetch)
        return cls(least, most, most_bytes, depth=least)

    def at_least(self, batches: int) -> PrefetchWindow:
        """Return a window that holds at least this number of batches, unless its number is fixed."""
        least = min(max(self.least, batches), self.most)
        return replace(self, least=least, depth=max(self.depth, least))

    @property
    def batches(self) -> int:
        """The number of batches to work on now."""
        if not self.largest:
            return self.depth
        return max(1, min(self.depth, self.most_bytes // self.largest))

    def observe(self, *, ready: bool, all_ready: bool, fetched: bool, size: int) -> PrefetchWindow:
        """Return the window after one batch.

        It does not grow while all threads are busy decoding: more batches would then only take more
        memory.

        Args:
            ready: Whether the batch was ready when the trainer asked for it.
            all_ready: Whether all batches of the window were.
            fetched: Whether at least its stored bytes were read.
            size: Its size in bytes.
        """
        late = 0 if ready or fetched else self.late + 1
        depth, idle, in_time = self.depth, self.idle or all_ready, self.in_time + 1
        if not ready and (idle or late >= _LATE):
            depth, idle, in_time = min(depth + 1, self.most), False, 0
        elif in_time == _PATIENCE:
            depth, in_time = max(depth - 1, self.least), 0
        return replace(
            self,
            depth=depth,
            in_time=in_time,
            late=late,
            idle=idle,
            largest=max(self.largest, size),
        )


class Iteration(Struct, frozen=True, dict=True):
    """The shared arguments of all functions that run an iteration.

    Attributes:
        pipeline: The work that makes batches.
        report: Records bad samples.
        clock: Adds up times.
        output: The form to which batches are converted.
        pool: Source of the memory of batches.
        threads: Number of threads that decode and transform; 0 to do all work in the consumer's
            thread.
        window: How many batches are worked on, or wait, at a time.
    """

    pipeline: Pipeline
    report: ErrorReport
    clock: Clock
    output: Output
    pool: BufferPool
    threads: int
    window: PrefetchWindow

    @cached_property
    def factory(self) -> ArrayFactory:
        """Makes the arrays of batches."""
        return self.pipeline.factory(self.pool)

    def made(self, plan: BatchPlan) -> Finished:
        """Make one batch in this thread."""
        fetched = self.pipeline.fetch(plan, self.clock, self.factory)
        decoded = self.pipeline.decode_and_transform(fetched, self.clock)
        return self.pipeline.assemble(fetched, decoded, self.report, self.clock)

    def on_host(self, finished: Finished) -> Finished:
        """Return a batch as the output has it before it is copied to a device."""
        if self.output.to == "numpy":
            return finished
        return replace(finished, batch=self.output.to_host(finished.batch))


def run_inline(iteration: Iteration, plans: Iterator[BatchPlan]) -> Generator[Finished]:
    """Make each batch in the consumer's thread when it asks for one."""
    upload = Upload(iteration.output)
    for plan in plans:
        iteration.pipeline.prefetch(plan)
        finished = iteration.on_host(iteration.made(plan))
        yield replace(finished, batch=upload.finish(upload.start(finished.batch)))


def run_threads(
    iteration: Iteration,
    plans: Iterator[BatchPlan],
    *,
    fetchers: int,
    ahead: ReadAhead | None = None,
) -> Generator[Finished]:
    """Prefetch batches in threads. The bytes of as many again as are worked on are prefetched.

    Args:
        iteration: The work, and its consumer.
        plans: The batches; each is drawn as late as possible.
        fetchers: Number of threads that read: 1 for a source that can only be read in turn. At most
            `window.batches` batches are read at a time.
        ahead: Draws the plans, and reads ahead of them; None to read each batch by itself.

    Raises:
        RuntimeError: The process was forked during the iteration: the threads are in the parent
            process.
    """
    pipeline, window, decoding = iteration.pipeline, iteration.window, iteration.threads
    if pipeline.device is not None:
        from bushel.loader.device.device_step import AT_ONCE

        decoding += AT_ONCE  # these only wait for the device
        window = window.at_least(2 * AT_ONCE)
    readers = Threads(fetchers, "bushel-loader-fetch")
    decoders = Threads(decoding, "bushel-loader-decode")
    planned: deque[tuple[BatchPlan, HeldBatch | None]] = deque()
    running: deque[_BatchTask] = deque()
    upload = Upload(iteration.output)
    converts = iteration.output.to != "numpy"
    try:
        while True:
            while len(running) < window.batches:
                while (
                    ahead is None
                    and len(planned) <= window.batches
                    and (plan := next(plans, None)) is not None
                ):
                    pipeline.prefetch(plan)
                    planned.append((plan, None))
                if ahead is not None and (drawn := next(ahead, None)) is not None:
                    planned.append(drawn)
                if not planned:
                    break
                task = _BatchTask(iteration, *planned.popleft(), decoders)
                readers.submit(task.fetch)
                running.append(task)
            if not running:
                return
            ready = [task.result.done for task in running]
            iteration.clock.add({"ready": sum(ready) / len(ready), "asked": 1})
            task = running.popleft()
            fetched = task.fetched or not window.largest  # the first batch was only just asked for
            finished = task.upload(upload)
            window = window.observe(
                ready=ready[0], all_ready=all(ready), fetched=fetched, size=task.size
            )
            if converts:
                finished = replace(finished, batch=upload.finish(finished.batch))
            del task  # it refers to the batch, which belongs to the consumer from here on
            if converts and running and ready[1] and running[0].result.error is None:
                # it is copied while the trainer works on the batch before
                running[0].upload(upload)
            yield finished
            del finished
            readers.check_process()
    finally:
        _close(readers, decoders, ahead)


def _close(readers: Threads, decoders: Threads, ahead: ReadAhead | None) -> None:
    """End the threads of an iteration."""
    # in this order: readers wait for bytes that are read ahead, and hand work to decoders
    ended: list[Threads | ReadAhead] = [readers, decoders]
    if ahead is not None:
        ahead.stop()
        ended.append(ahead)
    # the garbage collector may run this in one of the threads, which must not wait for itself or
    # another
    in_one_of_them = [threads for threads in ended if threads.has_current()]
    with ExitStack() as stack:
        for threads in reversed(ended):
            stack.callback(threads.close, wait=not in_one_of_them)


class _BatchTask:
    """A batch that is worked on: fetched in one thread, decoded in several, assembled by the last of these."""

    def __init__(
        self, iteration: Iteration, plan: BatchPlan, held: HeldBatch | None, decoders: Threads
    ) -> None:
        self._plan, self._held = plan, held
        self.size, self.fetched = 0, False
        self.result: Result[Finished] = Result()
        self._iteration, self._pipeline = iteration, iteration.pipeline
        self._decoders = decoders
        self._uploaded: Finished | None = None
        self._lock = threading.Lock()

    def fetch(self) -> None:
        try:
            iteration = self._iteration
            self._fetched = self._pipeline.fetch(
                self._plan, iteration.clock, iteration.factory, self._held
            )
            stored, self.fetched = self._fetched.samples, True
            parts = self._pipeline.parts(self._fetched, iteration.threads)
            if not parts or not stored:
                self._assemble(stored)
                return
            size = -(-len(stored) // parts)
            starts = range(0, len(stored), size)
            self._left = len(starts)
            self._decoded: list[list[Sample | Failure]] = [[]] * len(starts)
            for number, start in enumerate(starts):
                part = start, min(start + size, len(stored))
                self._decoders.submit(partial(self._decode, number, part))
        except BaseException as error:
            self._fail(error)

    def _decode(self, number: int, part: tuple[int, int]) -> None:
        try:
            self._decoded[number] = self._pipeline.decode_and_transform(
                self._fetched, self._iteration.clock, part
            )
            with self._lock:
                self._left -= 1
                if self._left:
                    return
            self._assemble(list(chain.from_iterable(self._decoded)))
        except BaseException as error:
            self._fail(error)

    def _assemble(self, decoded: list[Sample | Failure]) -> None:
        iteration = self._iteration
        finished = self._pipeline.assemble(
            self._fetched, decoded, iteration.report, iteration.clock
        )
        # the memory of its stored bytes is for the next batch, while this one waits for the trainer
        del self._fetched
        self.size = count_bytes(finished.batch)
        self.result.set(iteration.on_host(finished))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if not self.result.done:  # of several that fail at once, the first is raised
                self.result.fail(error)

    def upload(self, upload: Upload) -> Finished:
        """Wait for the batch, and start to copy it to its device unless that was done."""
        if self._uploaded is None:
            finished = self.result.get()
            if self._iteration.output.to != "numpy":
                finished = replace(finished, batch=upload.start(finished.batch))
            self._uploaded = finished
        return self._uploaded
