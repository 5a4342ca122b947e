"""Running a pipeline whose batches need no samples: numbers, texts, bytes and light objects, some batches at a time.

Reading a small batch takes a few microseconds, less than passing it from thread to thread. So one call reads a group of
batches, of about a megabyte together.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Generator, Iterator
from functools import partial
from itertools import accumulate, chain, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct
from bushel._runtime.threads import Result, Threads
from bushel.errors import FormatError
from bushel.loader.decode.micro_batch import count_bytes
from bushel.loader.decode.sources import SOURCE
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.batch_arrays import ArrayFactory
from bushel.loader.read.batch_reader import NumberReader
from bushel.loader.run.pipeline import Finished
from bushel.loader.run.run import Iteration, PrefetchWindow
from bushel.loader.values.collate import Batch
from bushel.loader.values.outputs import Output, Upload
from bushel.spec import KEY

if TYPE_CHECKING:
    from bushel._dataset.read.field_lists import FieldList
    from bushel.loader.read.listed import ListedFields

_GROUP_BYTES = 1 << 20
_MOST_BATCHES = 32  # in a group
_COLD_GROUPS = 8  # that are asked for in advance, beyond those in work, while values have to be read from disk


def run_groups(
    iteration: Iteration,
    plans: Iterator[BatchPlan],
    factory: ArrayFactory,
    *,
    threads: int,
    window: PrefetchWindow,
    kind: type[Groups] | None = None,
    listed: ListedFields | None = None,
) -> Generator[Finished]:
    """Gather batches, in threads or in the consumer's own thread (`threads=0`).

    The numbers of `factory` and the fields that are `listed` are all fields of the batches, and `kind` makes them; None
    for a row per sample. The other arguments are as in `run_batches`.
    """
    numbers = factory.numbers if listed is None else factory.numbers or listed.numbers
    if numbers is None:
        raise ValueError("there is nothing to gather")
    groups = (kind or Groups)(iteration, factory, numbers, listed)
    first = next(plans, None)
    if first is None:
        return
    plans = chain([first], plans)
    size, in_work = _sizes(groups.bytes_of(first), threads, window)
    pool = Threads(threads, "bushel-loader-gather") if threads else None
    planned: deque[list[BatchPlan]] = deque()
    running: deque[Result[_Group]] = deque()
    upload = Upload(iteration.output)
    try:
        while True:
            while len(running) < in_work:
                ahead = in_work + _COLD_GROUPS if groups.waited and pool is not None else 1
                while len(planned) < ahead and (group := list(islice(plans, size))):
                    groups.note(group)
                    planned.append(group)
                if not planned:
                    break
                result: Result[_Group] = Result()
                work = partial(groups.make, planned.popleft(), result)
                work() if pool is None else pool.submit(work)
                running.append(result)
            if not running:
                return
            ready = sum(result.done for result in running) / len(running)
            made = running.popleft().get()
            iteration.clock.add({"ready": ready * len(made.batches), "asked": len(made.batches)})
            for finished in _uploaded(made, upload, iteration.output):
                yield finished
                del finished
                if pool is not None:
                    pool.check_process()
            if made.error is not None:
                raise made.error
    finally:
        if pool is not None:
            pool.close(wait=not pool.has_current())


def _sizes(batch_bytes: int, threads: int, window: PrefetchWindow) -> tuple[int, int]:
    """Return the number of batches in a group, and the number of groups that are worked on at a time."""
    in_work = threads + 1 if threads else 1
    most = min(_MOST_BATCHES, window.most_bytes // max(1, batch_bytes * in_work))
    if window.least == window.most:  # the number that the user gave
        in_work = min(in_work, window.most)
        most = min(most, window.most // in_work)
    return max(1, min(most, _GROUP_BYTES // max(1, batch_bytes))), in_work


class _Group(Struct):
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


class Made(NamedTuple):
    """A batch, the size of the stored bytes that it was made of, and its fields that are to be collated yet."""

    batch: Batch
    size: int
    lists: Collection[str] = ()


class Groups:
    """Makes the batches of groups. Threads share it."""

    def __init__(
        self, iteration: Iteration, factory: ArrayFactory, numbers: NumberReader, listed: ListedFields | None
    ) -> None:
        self.numbers, self._iteration = numbers, iteration
        self._pipeline, self._factory, self._listed = iteration.pipeline, factory, listed
        self._is_ragged = any(field.ragged for field in numbers.fields)
        # of a ragged field the example's size
        self._sample_bytes = sum(math.prod(field.shape) * field.dtype.itemsize for field in numbers.fields)
        self._lists = [name for name in factory.names if all(field.name != name for field in numbers.fields)]

    @property
    def waited(self) -> bool:
        """Whether values of the last batch were not in memory."""
        lists = self._listed is not None and bool(self._lists) and self._listed.lists.waited
        return lists or self.numbers.waited

    def bytes_of(self, plan: BatchPlan) -> int:
        """Return the size of a batch in bytes, an estimate if it is ragged."""
        lists = 0 if self._listed is None or not self._lists else self._listed.lists.size(plan.samples, self._lists)
        return lists + len(plan.samples) * self._sample_bytes

    def note(self, group: list[BatchPlan]) -> None:
        """Take notice of a group that will be made soon."""
        if self.waited:
            samples = np.concatenate([plan.samples for plan in group])
            self.numbers.prefetch(samples)
            if self._listed is not None and self._lists:
                self._listed.lists.prefetch(samples, self._lists)

    def make(self, group: list[BatchPlan], result: Result[_Group]) -> None:
        """Make the batches of a group."""
        done = _Group(deque())
        try:
            start = perf_counter()
            batches = self._batches(group)
            self._iteration.clock.add({"storage": perf_counter() - start})
            for plan, made in zip(group, batches, strict=True):
                # one that could not be gathered is made in the ordinary way
                finished = self._iteration.made(plan, self._factory) if made is None else self._finished(plan, made)
                done.batches.append(self._iteration.on_host(finished))
        except Exception as error:  # raised after the batches before it
            done.error = error
        except BaseException as error:
            result.fail(error)
            return
        result.set(done)

    def _batches(self, group: list[BatchPlan]) -> list[Made | None]:
        """Make the batches of a group. None takes the place of one that has to be read in the ordinary way."""
        excluded = self._pipeline.excluded
        nothing: list[Made | None] = [None] * len(group)
        each = [plan.samples for plan in group]
        samples = each[0] if len(each) == 1 else np.concatenate(each)
        gathered = self._factory.gather(each)
        lists = [name for name in self._factory.names if name not in gathered]
        listed = self._parts(samples, lists)
        keys: list[str] | None = None
        if self._pipeline.keys:
            try:
                keys = self.numbers.keys(samples)
            except FormatError:  # raised again, with the sample, in the ordinary way
                return nothing
        batches: list[Made | None] = []
        for number, (plan, end) in enumerate(zip(group, accumulate(map(len, each)), strict=True)):
            batch: Batch = {} if keys is None else {KEY: keys[end - len(plan.samples) : end]}
            if self._pipeline.sources is not None:
                batch[SOURCE] = self._pipeline.sources.names_of(plan.samples)
            size = 0
            for name in self._factory.names:
                if name in gathered and (own := gathered[name][number]) is not None:
                    batch[name] = value = own.batch
                    size += value.nbytes if type(value) is np.ndarray else count_bytes(value)
                elif listed is not None and name in listed:
                    batch[name] = listed[name].values[end - len(plan.samples) : end]
                    size += listed[name].size(end - len(plan.samples), end)
            whole = len(batch) == len(self._factory.names) + (SOURCE in batch) + (keys is not None)
            good = whole and (not excluded or excluded.isdisjoint(plan.samples.tolist()))
            batches.append(Made(batch, size, lists) if good else None)
        return batches

    def _parts(self, samples: I64, names: list[str]) -> dict[str, FieldList] | None:
        """Read fields that are not gathered. None: they have to be read in the ordinary way."""
        if not names or self._listed is None or not self._listed.names.issuperset(names):
            return None
        return self._listed.read(samples, names, self._iteration.clock.add)

    def _finished(self, plan: BatchPlan, made: Made) -> Finished:
        """Return a gathered batch as the consumer gets it."""
        batch = made.batch
        if made.lists and self._listed is not None:
            start = perf_counter()
            for name in made.lists:
                batch[name] = self._listed.collated(name, batch[name], plan.samples)
            self._iteration.clock.add({"collate": perf_counter() - start})
        if (call := self._pipeline.batch_transform) is not None:
            from bushel.loader.values.batch_transform import transformed

            start = perf_counter()
            batch = transformed(call, batch, self._pipeline.order.seed, plan)
            self._iteration.clock.add({"collate": perf_counter() - start})
        return Finished(plan.consumed, batch, len(plan.samples), made.size)
