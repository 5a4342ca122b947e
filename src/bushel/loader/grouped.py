"""Running a pipeline: batches of numbers only are gathered some at a time, all others are made in threads one by one.

Gathering a small batch takes a few microseconds, less than handing it from thread to thread. So one call of the kernel
gathers a group of batches, of about a megabyte together.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.numbers import NumberReader
from bushel.core.parallel import Result, Threads
from bushel.errors import FormatError
from bushel.loader.bad_samples import ErrorReport
from bushel.loader.batch_arrays import ArrayFactory, BufferPool
from bushel.loader.collate import Batch
from bushel.loader.micro_batch import count_bytes
from bushel.loader.outputs import Output, Upload
from bushel.loader.pipeline import Clock, Finished, Pipeline
from bushel.loader.plan import BatchPlan
from bushel.loader.run import PrefetchWindow, run_inline, run_threads
from bushel.spec import KEY

if TYPE_CHECKING:
    from bushel.loader.read_ahead import ReadAhead

__all__ = ["run_batches"]

_GROUP_BYTES = 1 << 20
_MOST_BATCHES = 32  # in a group
_COLD_GROUPS = 8  # that are asked for in advance, beyond those in work, while values have to be read from disk


def run_batches(
    pipeline: Pipeline,
    plans: Iterator[BatchPlan],
    report: ErrorReport,
    clock: Clock,
    output: Output,
    *,
    workers: int,
    window: PrefetchWindow,
    pool: BufferPool,
) -> Generator[Finished]:
    """Return the batches of an iteration, in the order of their plans.

    Args:
        pipeline: The work that makes batches.
        plans: The batches; each is drawn as late as possible.
        report: Records bad samples.
        clock: Adds up times.
        output: What batches are converted to.
        workers: Number of threads; 0 to do all work in the consumer's thread.
        window: How many batches are worked on at a time.
        pool: Memory of the batches' arrays, which later iterations use again.
    """
    factory = pipeline.factory(pool)
    numbers = factory.numbers
    if numbers is not None and {field.name for field in numbers.fields} == set(factory.names):
        groups = _Groups(pipeline, factory, numbers, report, clock, output)
        return _run_groups(groups, plans, workers=workers, window=window)
    if not workers:
        return run_inline(pipeline, plans, report, clock, output, factory)
    ahead = _read_ahead(pipeline, plans, window) if getattr(pipeline.dataset, "remote", False) else None
    return run_threads(pipeline, plans, report, clock, output, factory, workers=workers, window=window, ahead=ahead)


def _read_ahead(pipeline: Pipeline, plans: Iterator[BatchPlan], window: PrefetchWindow) -> ReadAhead | None:
    """Return what reads ahead of the batches of a remote dataset; None if they have no neighbours in common."""
    from bushel.loader.ahead_plan import Grouping
    from bushel.loader.read_ahead import ReadAhead

    if not isinstance(pipeline.dataset, Dataset):
        return None
    limit = window.most_bytes // 2
    grouping = Grouping.of(pipeline.order, pipeline.dataset.size, limit)
    return None if grouping is None else ReadAhead(plans, pipeline.extents, grouping, limit)


def _run_groups(
    groups: _Groups, plans: Iterator[BatchPlan], *, workers: int, window: PrefetchWindow
) -> Generator[Finished]:
    first = next(plans, None)
    if first is None:
        return
    plans = chain([first], plans)
    size, in_work = _sizes(groups.bytes_of(first), workers, window)
    threads = Threads(workers, "bushel-loader-gather") if workers else None
    planned: deque[list[BatchPlan]] = deque()
    running: deque[Result[_Group]] = deque()
    output = groups.output
    upload = Upload(output)
    try:
        while True:
            while len(running) < in_work:
                ahead = in_work + _COLD_GROUPS if groups.numbers.waited and threads is not None else 1
                while len(planned) < ahead and (group := list(islice(plans, size))):
                    groups.note(group)
                    planned.append(group)
                if not planned:
                    break
                result: Result[_Group] = Result()
                work = partial(groups.make, planned.popleft(), result)
                work() if threads is None else threads.submit(work)
                running.append(result)
            if not running:
                return
            ready = sum(result.done for result in running) / len(running)
            made = running.popleft().get()
            groups.clock.add({"ready": ready * len(made.batches), "asked": len(made.batches)})
            while made.batches:
                finished = made.batches.popleft()
                if output.to != "numpy":
                    finished = replace(finished, batch=upload.finish(made.started or upload.start(finished.batch)))
                    # the next one is copied while the trainer works on this one
                    made.started = upload.start(made.batches[0].batch) if made.batches else None
                yield finished
                del finished
                if threads is not None:
                    threads.check_process()
            if made.error is not None:
                raise made.error
    finally:
        if threads is not None:
            threads.close(wait=not threads.has_current())


def _sizes(batch_bytes: int, workers: int, window: PrefetchWindow) -> tuple[int, int]:
    """Return the number of batches in a group, and the number of groups that are worked on at a time."""
    in_work = workers + 1 if workers else 1
    most = min(_MOST_BATCHES, window.most_bytes // max(1, batch_bytes * in_work))
    if window.least == window.most:  # as many as the user says
        in_work = min(in_work, window.most)
        most = min(most, window.most // in_work)
    return max(1, min(most, _GROUP_BYTES // max(1, batch_bytes))), in_work


@dataclass(slots=True)
class _Group:
    """The batches of a group that were made.

    Attributes:
        batches: The batches, which the consumer takes out one by one.
        error: The error of the batch after them; None if there are all.
        started: The first of the batches, whose copy to a device has started; None if it has not.
    """

    batches: deque[Finished]
    error: BaseException | None = None
    started: Any = None


class _Groups:
    """Makes the batches of groups. Threads share it."""

    def __init__(
        self,
        pipeline: Pipeline,
        factory: ArrayFactory,
        numbers: NumberReader,
        report: ErrorReport,
        clock: Clock,
        output: Output,
    ) -> None:
        self.numbers, self.clock, self.output = numbers, clock, output
        self._pipeline, self._factory, self._report = pipeline, factory, report
        self._is_ragged = any(field.ragged for field in numbers.fields)
        # of a ragged field the example's size
        self._sample_bytes = sum(math.prod(field.shape) * field.dtype.itemsize for field in numbers.fields)

    def bytes_of(self, plan: BatchPlan) -> int:
        """Return the size of a batch in bytes, an estimate if it is ragged."""
        return len(plan.samples) * self._sample_bytes

    def note(self, group: list[BatchPlan]) -> None:
        """Take notice of a group that will be made soon."""
        if self.numbers.waited:
            self.numbers.prefetch(np.concatenate([plan.samples for plan in group]))

    def make(self, group: list[BatchPlan], result: Result[_Group]) -> None:
        """Make the batches of a group."""
        made = _Group(deque())
        try:
            for plan, batch in zip(group, self._gather(group), strict=True):
                finished = self._ordinary(plan) if batch is None else self._finished(plan, batch)
                if self.output.to != "numpy":
                    finished = replace(finished, batch=self.output.to_host(finished.batch))
                made.batches.append(finished)
        except Exception as error:  # raised after the batches before it
            made.error = error
        except BaseException as error:
            result.fail(error)
            return
        result.set(made)

    def _gather(self, group: list[BatchPlan]) -> list[Batch | None]:
        """Gather the batches of a group. None takes the place of one that has to be read in the ordinary way."""
        start = perf_counter()
        numbers, excluded = self.numbers, self._pipeline.excluded
        nothing: list[Batch | None] = [None] * len(group)
        if self._factory.numbers is not numbers:  # a field was given up
            return nothing
        gathered = self._factory.gather([plan.samples for plan in group])
        ends = list(accumulate(len(plan.samples) for plan in group))
        keys: list[str] | None = None
        if self._pipeline.keys:
            try:
                keys = numbers.keys(np.concatenate([plan.samples for plan in group]))
            except FormatError:  # raised again, with the sample, in the ordinary way
                return nothing
        batches: list[Batch | None] = [None] * len(group)
        for number, (plan, end) in enumerate(zip(group, ends, strict=True)):
            batch: Batch = {} if keys is None else {KEY: keys[end - len(plan.samples) : end]}
            for name in self._factory.names:
                parts = gathered.get(name)
                own = None if parts is None else parts[number]
                if own is None:
                    break
                batch[name] = own.batch
            else:
                if not excluded or excluded.isdisjoint(plan.samples.tolist()):
                    batches[number] = batch
        self.clock.add({"storage": perf_counter() - start})
        return batches

    def _finished(self, plan: BatchPlan, batch: Batch) -> Finished:
        """Return a gathered batch as the consumer gets it."""
        size = count_bytes([batch[name] for name in self._factory.names]) if self._is_ragged else self.bytes_of(plan)
        if (transform := self._pipeline.batch_transform) is not None:
            start = perf_counter()
            batch = transform(batch)
            self.clock.add({"collate": perf_counter() - start})
        return Finished(plan.consumed, batch, len(plan.samples), size)

    def _ordinary(self, plan: BatchPlan) -> Finished:
        """Make a batch in the ordinary way."""
        pipeline, clock = self._pipeline, self.clock
        arrays = pipeline.arrays(plan, self._factory)
        fetched = pipeline.fetch(plan, clock, arrays)
        draws = pipeline.draws(plan)
        decoded = pipeline.decode_and_transform(plan.epoch, plan.samples, fetched.samples, clock, arrays, draws=draws)
        return pipeline.assemble(plan, fetched, decoded, arrays, self._report, clock)
