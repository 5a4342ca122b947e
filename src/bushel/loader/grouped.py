"""Running a pipeline whose batches are of numbers only: they are gathered some at a time.

Gathering a small batch takes a few microseconds, less than passing it from thread to thread. So one call of the kernel
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
from typing import Any

import numpy as np

from bushel._dataset.batch_reader import NumberReader
from bushel._runtime.threads import Result, Threads
from bushel.errors import FormatError
from bushel.loader.batch_arrays import ArrayFactory
from bushel.loader.collate import Batch
from bushel.loader.micro_batch import count_bytes
from bushel.loader.outputs import Output, Upload
from bushel.loader.pipeline import Finished, transformed
from bushel.loader.plan import BatchPlan
from bushel.loader.run import Iteration, PrefetchWindow
from bushel.loader.sources import SOURCE
from bushel.spec import KEY

__all__ = ["Groups", "run_groups"]

_GROUP_BYTES = 1 << 20
_MOST_BATCHES = 32  # in a group
_COLD_GROUPS = 8  # that are asked for in advance, beyond those in work, while values have to be read from disk


def run_groups(
    iteration: Iteration,
    plans: Iterator[BatchPlan],
    factory: ArrayFactory,
    *,
    workers: int,
    window: PrefetchWindow,
    kind: type[Groups] | None = None,
) -> Generator[Finished]:
    """Gather batches, in threads or in the consumer's own thread (`workers=0`).

    The numbers of `factory` are all fields of the batches, and `kind` makes them; None for a row per sample. The other
    arguments are those of `run_batches`.
    """
    if factory.numbers is None:
        raise ValueError("there are no numbers to gather")
    groups = (kind or Groups)(iteration, factory, factory.numbers)
    first = next(plans, None)
    if first is None:
        return
    plans = chain([first], plans)
    size, in_work = _sizes(groups.bytes_of(first), workers, window)
    threads = Threads(workers, "bushel-loader-gather") if workers else None
    planned: deque[list[BatchPlan]] = deque()
    running: deque[Result[_Group]] = deque()
    upload = Upload(iteration.output)
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
            iteration.clock.add({"ready": ready * len(made.batches), "asked": len(made.batches)})
            for finished in _uploaded(made, upload, iteration.output):
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
    if window.least == window.most:  # the number that the user gave
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


def _uploaded(made: _Group, upload: Upload, output: Output) -> Generator[Finished]:
    """Take the batches out of a group, each after it was copied to the device of the output."""
    while made.batches:
        finished = made.batches.popleft()
        if output.to != "numpy":
            finished = replace(finished, batch=upload.finish(made.started or upload.start(finished.batch)))
            # the next one is copied while the trainer works on this one
            made.started = upload.start(made.batches[0].batch) if made.batches else None
        yield finished
        del finished


class Groups:
    """Makes the batches of groups. Threads share it."""

    def __init__(self, iteration: Iteration, factory: ArrayFactory, numbers: NumberReader) -> None:
        self.numbers, self._iteration = numbers, iteration
        self._pipeline, self._factory = iteration.pipeline, factory
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
                # one that could not be gathered is made in the ordinary way
                finished = self._iteration.made(plan, self._factory) if batch is None else self._finished(plan, batch)
                made.batches.append(self._iteration.on_host(finished))
        except Exception as error:  # raised after the batches before it
            made.error = error
        except BaseException as error:
            result.fail(error)
            return
        result.set(made)

    def _gather(self, group: list[BatchPlan]) -> list[Batch | None]:
        """Gather the batches of a group. None takes the place of one that has to be read in the ordinary way."""
        start = perf_counter()
        if self._factory.numbers is not self.numbers:  # a field was given up
            return [None] * len(group)
        batches = self._batches(group)
        self._iteration.clock.add({"storage": perf_counter() - start})
        return batches

    def _batches(self, group: list[BatchPlan]) -> list[Batch | None]:
        numbers, excluded = self.numbers, self._pipeline.excluded
        nothing: list[Batch | None] = [None] * len(group)
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
            if self._pipeline.sources is not None:
                batch[SOURCE] = self._pipeline.sources.names_of(plan.samples)
            for name in self._factory.names:
                parts = gathered.get(name)
                own = None if parts is None else parts[number]
                if own is None:
                    break
                batch[name] = own.batch
            else:
                if not excluded or excluded.isdisjoint(plan.samples.tolist()):
                    batches[number] = batch
        return batches

    def _finished(self, plan: BatchPlan, batch: Batch) -> Finished:
        """Return a gathered batch as the consumer gets it."""
        size = count_bytes([batch[name] for name in self._factory.names]) if self._is_ragged else self.bytes_of(plan)
        if (call := self._pipeline.batch_transform) is not None:
            start = perf_counter()
            batch = transformed(call, batch, self._pipeline.order.seed, plan)
            self._iteration.clock.add({"collate": perf_counter() - start})
        return Finished(plan.consumed, batch, len(plan.samples), size)
