"""Running a pipeline in worker processes: the consumer's end, and the main loop of a worker process.

Worker process `i` of `n` makes batches `i`, `i + n`, … in threads, and sends them through shared
memory. The consumer takes batch `t` from process `t mod n`, so batches keep their order.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import Array
from bushel._runtime.processes import (
    Channel,
    WorkerProcess,
    pickle_for_parent,
    pickle_for_worker,
    portable,
)
from bushel._runtime.system import anonymous_file
from bushel._runtime.threads import Clock
from bushel.loader.read.batch_arrays import BufferPool
from bushel.loader.values.bad_samples import BadSample, ErrorReport
from bushel.loader.values.outputs import Finished, Output, Upload
from bushel.storage.expansion_cache import expansion_cache
from bushel.transforms.values import note_once

from .groups import run_batches
from .pipeline import Pipeline
from .threads import Iteration, PrefetchWindow

if TYPE_CHECKING:
    from bushel.loader.plan.plan import Steps

_ALIGNMENT = 64  # a cache line, which also suits vector instructions
_STEP = 1 << 20  # segments grow in steps, so that batches of about one size fit into the same ones
_CREDIT = 2  # batches that may wait in shared memory, per worker process
# how soon a worker process notices that its parent ended while a fork keeps its socket open
_PARENT_CHECK_SECONDS = 2


class SharedBatch(Struct, frozen=True):
    """A serialized batch: all but the contents of its arrays, and the places of those in shared memory.

    Attributes:
        pickled: The batch, pickled with protocol 5.
        segment: Number of the segment that holds its buffers; None if it has none.
        places: Offset and length of each buffer, in bytes.
    """

    pickled: bytes
    segment: int | None
    places: tuple[tuple[int, int], ...]


class _Segment(Struct):
    descriptor: int
    memory: mmap.mmap


class SegmentPool:
    """The side of the worker process: writes batches into free segments."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._free: deque[int] = deque()

    def release(self, numbers: Iterable[int]) -> None:
        """Reclaim segments that are not in use any more."""
        self._free.extend(numbers)

    def write(self, batch: Any) -> tuple[SharedBatch, list[int]]:
        """Write a batch into a segment.

        Returns:
            The serialized batch, and a list with the segment's descriptor if the segment is new,
            else an empty list.
        """
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle_for_parent(batch, buffers)
        views = [buffer.raw() for buffer in buffers]
        places, end = [], 0
        for view in views:
            places.append((end, view.nbytes))
            end += -(-view.nbytes // _ALIGNMENT) * _ALIGNMENT
        if not end:
            return SharedBatch(pickled, None, tuple(places)), []
        number, created = self._take(end)
        memory = self._segments[number].memory
        for view, (offset, length) in zip(views, places, strict=True):
            memory[offset : offset + length] = view
        return SharedBatch(pickled, number, tuple(places)), created

    def _take(self, size: int) -> tuple[int, list[int]]:
        """Return a free segment of at least this size, and its descriptor in a list if it is new."""
        size = -(-size // _STEP) * _STEP
        try:
            number = self._free.popleft()
        except IndexError:
            descriptor = anonymous_file()
            os.ftruncate(descriptor, size)
            self._segments.append(_Segment(descriptor, mmap.mmap(descriptor, size)))
            return len(self._segments) - 1, [descriptor]
        segment = self._segments[number]
        if len(segment.memory) < size:
            os.ftruncate(segment.descriptor, size)
            segment.memory = mmap.mmap(segment.descriptor, size)
        return number, []


class SegmentReader:
    """The consumer's side: returns batches whose arrays are in the segments of one worker process.

    Attributes:
        freed: Numbers of segments whose arrays are all gone. The garbage collector adds to it, in
            any thread.
    """

    def __init__(self) -> None:
        self.freed: deque[int] = deque()
        self._segments: list[_Segment] = []

    def add(self, descriptor: int) -> None:
        """Take over the descriptor of a new segment."""
        self._segments.append(
            _Segment(descriptor, mmap.mmap(descriptor, os.fstat(descriptor).st_size))
        )

    def read(self, shared: SharedBatch) -> Any:
        """Return the batch. Its arrays are writable views of the segment, which stays in use until they are deleted."""
        if shared.segment is None:
            return pickle.loads(shared.pickled, buffers=[bytearray() for _ in shared.places])
        segment = self._segments[shared.segment]
        end = max(offset + length for offset, length in shared.places)
        if end > len(segment.memory):
            segment.memory = mmap.mmap(segment.descriptor, os.fstat(segment.descriptor).st_size)
        whole = np.frombuffer(segment.memory, np.uint8)
        # all arrays of the batch refer to this one and keep it alive
        weakref.finalize(whole, self.freed.append, shared.segment).atexit = False
        return pickle.loads(
            shared.pickled,
            buffers=[whole[offset : offset + length] for offset, length in shared.places],
        )

    def close(self) -> None:
        """Close the descriptors. Arrays that are in use keep their memory."""
        for segment in self._segments:
            os.close(segment.descriptor)
        self._segments.clear()


class SharedCounts:
    """Counters from 0. Processes that are started with them share them; copies and other pickles start from 0 again.

    Args:
        dtype: The type of the counters, such as `"uint16"`.
        size: Their number.
        descriptor: A file that holds such counters; None for a new one.

    Attributes:
        numbers: The counters, as an array that all processes write to.

    Raises:
        OSError: The system is out of memory.
    """

    def __init__(self, dtype: str, size: int, descriptor: int | None = None) -> None:
        self._descriptor = anonymous_file() if descriptor is None else descriptor
        weakref.finalize(self, os.close, self._descriptor)
        # a file of no bytes cannot be mapped
        length = max(np.dtype(dtype).itemsize * size, 1)
        os.ftruncate(self._descriptor, length)
        memory = mmap.mmap(self._descriptor, length)
        self.numbers: Array = np.frombuffer(memory, dtype, size)

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing.context import get_spawning_popen

        counters = self.numbers.dtype.name, len(self.numbers)
        if get_spawning_popen() is None:
            return SharedCounts, counters
        from multiprocessing.reduction import DupFd

        return _shared_counts, (*counters, DupFd(self._descriptor))


def _shared_counts(dtype: str, size: int, descriptor: Any) -> SharedCounts:
    return SharedCounts(dtype, size, descriptor.detach())


def run_processes(
    iteration: Iteration, steps: Steps, consumed: int, processes: int
) -> Generator[Finished]:
    """Prefetch batches in worker processes.

    Raises:
        TypeError: The pipeline cannot be pickled; the message names the reason.
        RuntimeError: A worker process died, or the process was forked during the iteration.
    """
    process, report, output = os.getpid(), iteration.report, iteration.output
    started: list[_Worker] = []
    upload = Upload(output)
    try:
        for _ in range(processes):  # they import what they need while this process makes their jobs
            started.append(_Worker())  # noqa: PERF401 - if one fails to start, the others must be ended
        job = pickle_for_worker(
            _Job(
                iteration.pipeline,
                steps,
                consumed,
                processes,
                iteration.threads,
                iteration.window,
                report.max_errors,
            ),
            "the dataset, transforms and collate functions",
        )
        for number, worker in enumerate(started):
            worker.process.send(pickle.dumps((number, job)))
        for turn in range(steps.reads(consumed)):
            worker = started[turn % processes]
            delivery = worker.receive()
            for bad in delivery.bad:
                report.add(bad)
            iteration.clock.add(delivery.totals)
            shared = worker.reader.read(delivery.finished.batch)
            batch = upload.finish(upload.start(output.to_host(shared)))
            finished = replace(delivery.finished, batch=batch)
            del delivery, shared, batch
            worker.return_credit()
            yield finished
            del finished  # a reference here would keep the segment of the consumer's batch taken
            if os.getpid() != process:
                raise RuntimeError(
                    "this iteration started before a fork, and its worker processes "
                    "serve the parent process: start a new iteration in this one"
                )
    finally:
        if os.getpid() == process:
            _end(started)


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.process.close()
        worker.reader.close()
    for worker in workers:
        worker.process.join()


class _Worker:
    """The consumer's end of one worker process."""

    def __init__(self) -> None:
        self.reader = SegmentReader()
        self.process = WorkerProcess("bushel.loader.run.processes")

    def receive(self) -> _Delivery:
        """Wait for the next batch."""
        message, descriptors = self.process.receive()
        for descriptor in descriptors:
            self.reader.add(descriptor)
        delivery: _Delivery | _Failed = pickle.loads(message)
        if isinstance(delivery, _Failed):
            for note in (
                *delivery.notes,
                f"in worker process {self.process.pid}:\n{delivery.traceback}",
            ):
                note_once(delivery.error, note)  # most errors were pickled with their notes
            raise delivery.error
        return delivery

    def return_credit(self) -> None:
        """Tell the process that a batch was taken, and which segments are free again."""
        freed = [self.reader.freed.popleft() for _ in range(len(self.reader.freed))]
        self.process.send(pickle.dumps(freed))


class _Job(Struct, frozen=True):
    """The work of each process: every `count`-th batch of an epoch, from that with its own number on.

    Attributes:
        pipeline: The work that makes batches.
        steps: How the epoch is divided. They are pure, so each process makes its own batch plans.
        consumed: Number of its positions that are consumed already.
        count: Number of processes.
        threads: Number of threads.
        window: Number of batches to work on at a time.
        max_errors: Number of bad samples that are tolerated.
    """

    pipeline: Pipeline
    steps: Steps
    consumed: int
    count: int
    threads: int
    window: PrefetchWindow
    max_errors: int | None


class _Delivery(Struct, frozen=True):
    """A batch from a worker process.

    Attributes:
        finished: The batch, a `SharedBatch`.
        bad: Bad samples that were not reported yet.
        totals: Seconds and counts since the last delivery.
    """

    finished: Finished
    bad: tuple[BadSample, ...]
    totals: dict[str, float]


class _Failed(Struct, frozen=True):
    """An exception from a worker process, with its traceback as text, since tracebacks cannot be pickled."""

    error: BaseException
    notes: tuple[str, ...]
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> _Failed:
        """Describe an exception. One that does not survive pickling is replaced by a RuntimeError that quotes it."""
        described = traceback.TracebackException.from_exception(error)
        described.__notes__ = []  # they come first, on the error itself
        text = "".join(described.format())
        notes = tuple(getattr(error, "__notes__", ()))
        return cls(portable(error), notes, text)


def serve(descriptor: int) -> None:
    """Run a worker process: serve the loader at the other end of this socket until it closes its end.

    The process ends with this function in any case.
    """
    channel = Channel.of_descriptor(descriptor)
    parent = os.getppid()
    try:
        _send_batches(channel, parent)
    except (EOFError, ConnectionError):  # the loader was closed
        os._exit(0)
    except BaseException as error:
        with suppress(OSError):
            channel.send(pickle_for_parent(_Failed.of(error)))
            select.select([channel], [], [])  # until the loader, which has read it, closes its end
        os._exit(0)


def _send_batches(channel: Channel, parent: int) -> None:
    message, _ = channel.receive()
    number, pickled = pickle.loads(message)
    job: _Job = pickle.loads(pickled)
    expansion_cache().share(job.count)
    pool, credit = SegmentPool(), threading.Semaphore(_CREDIT)
    threading.Thread(
        target=_listen, args=(channel, parent, pool.release, credit), daemon=True
    ).start()
    clock, report, reported = Clock(), ErrorReport(job.max_errors), set[int]()
    plans = islice(job.steps.batches(job.consumed), number, None, job.count)
    memory = BufferPool(job.window.most_bytes)
    iteration = Iteration(job.pipeline, report, clock, Output(), memory, job.threads, job.window)
    for finished in run_batches(iteration, plans):
        bad = tuple(sample for sample in report.bad_samples() if sample.sample not in reported)
        reported.update(sample.sample for sample in bad)
        credit.acquire()
        packed, created = pool.write(finished.batch)
        delivery = _Delivery(replace(finished, batch=packed), bad, clock.drain())
        channel.send(pickle_for_parent(delivery), created)
        del finished  # so that its memory can be reused
    # until the listener ends the process: the last segments are still in use
    threading.Event().wait()


def _listen(
    channel: Channel, parent: int, release: Callable[[Any], None], credit: threading.Semaphore
) -> None:
    """Receive the credits and free segments that the consumer returns. End the process when the consumer ended."""
    try:
        while os.getppid() == parent:
            if select.select([channel], [], [], _PARENT_CHECK_SECONDS)[0]:
                message, _ = channel.receive()
                release(pickle.loads(message))
                credit.release()
    finally:
        os._exit(0)
