"""Batches made in groups, which need no samples; and `run_batches`, which chooses between groups, threads and neither.

A group is of batches that need no samples: numbers, texts, bytes and light objects.
Reading a small batch takes a few microseconds, less than passing it from thread to thread. So one
call reads a group of batches, of about a megabyte together. Rows that documents share are made of
flat arrays of numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I64, Array, offsets_of
from bushel._runtime.threads import Result, Threads
from bushel.loader.decode.sample_transforms import transformed
from bushel.loader.order.mixture import SOURCE
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.batch_arrays import Tries
from bushel.loader.read.number_field import Rooms
from bushel.loader.values.bad_samples import DAMAGE
from bushel.loader.values.collate import Batch, Padded, count_bytes
from bushel.loader.values.outputs import Finished, Output, Upload
from bushel.loader.values.rows import Pieces
from bushel.spec import KEY

from .threads import Iteration, PrefetchWindow, run_inline, run_threads

if TYPE_CHECKING:
    from bushel._dataset.views.dataset import Dataset
    from bushel.loader.read.batch_reader import NumberReader
    from bushel.loader.read.list_fields import FieldList
    from bushel.loader.read.number_field import NumberField
    from bushel.loader.values.rows import Rows, RowShape

    from .read_ahead import ReadAhead

_GROUP_BYTES = 1 << 20
_MOST_BATCHES = 32  # in a group
# threads that read: one batch is waited for while the bytes of another are copied; and an object
# store answers many requests as fast as one
_FETCHERS, _REMOTE_FETCHERS = 2, 8
# that are asked for in advance, beyond those in work, while values have to be read from disk
_COLD_GROUPS = 8


def run_batches(iteration: Iteration, plans: Iterator[BatchPlan]) -> Generator[Finished]:
    """Return the batches of an iteration, in the order of their plans."""
    pipeline, factory = iteration.pipeline, iteration.factory
    names = {field.name for reader in factory.numbers for field in reader.fields}
    if factory.listed is not None:
        names |= factory.listed.names
    # no field needs samples
    if names and names == set(factory.names):
        kind = Groups if pipeline.shape is None else RowGroups
        return run_groups(kind(iteration), iteration, plans)
    if not iteration.threads:
        return run_inline(iteration, plans)
    if pipeline.source.remote:
        ahead = _read_ahead(iteration, plans)
        return run_threads(iteration, plans, fetchers=_REMOTE_FETCHERS, ahead=ahead)
    return run_threads(iteration, plans, fetchers=_FETCHERS)


def _read_ahead(iteration: Iteration, plans: Iterator[BatchPlan]) -> ReadAhead | None:
    """Return the `ReadAhead` of a remote dataset; None if its batches have no neighbours in common."""
    pipeline, limit = iteration.pipeline, iteration.window.most_bytes // 2
    dataset: Any = pipeline.source.dataset
    from .ahead_plan import Grouping
    from .read_ahead import ReadAhead

    grouping = Grouping.of(pipeline.order, dataset.size, limit)
    if grouping is None:
        return None
    return ReadAhead(plans, pipeline.extents, grouping, limit)


def run_groups(
    groups: Groups, iteration: Iteration, plans: Iterator[BatchPlan]
) -> Generator[Finished]:
    """Make batches in groups, in threads or in the consumer's own thread."""
    first = next(plans, None)
    if first is None:
        return
    plans = chain([first], plans)
    threads = iteration.threads
    size, in_work = _sizes(groups.bytes_of(first), threads, iteration.window)
    pool = Threads(threads, "bushel-loader-gather") if threads else None
    planned: deque[list[BatchPlan]] = deque()
    running: deque[Result[_Group]] = deque()
    upload = Upload(iteration.output)
    try:
        while True:
            while len(running) < in_work:
                if groups.waited and pool is not None:
                    ahead = in_work + _COLD_GROUPS
                else:
                    ahead = 1
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
            ready_group = running.popleft().get()
            iteration.clock.add(
                {"ready": ready * len(ready_group.batches), "asked": len(ready_group.batches)}
            )
            for finished in _uploaded(ready_group, upload, iteration.output):
                yield finished
                del finished
                if pool is not None:
                    pool.check_process()
            if ready_group.error is not None:
                raise ready_group.error
    finally:
        if pool is not None:
            pool.close(wait=not pool.has_current())


def _sizes(batch_bytes: int, threads: int, window: PrefetchWindow) -> tuple[int, int]:
    """Return the number of batches in a group, and the number of groups that are worked on at a time."""
    in_work = threads + 1
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
    """

    batches: deque[Finished]
    error: BaseException | None = None


def _uploaded(made: _Group, upload: Upload, output: Output) -> Generator[Finished]:
    """Take the batches out of a group, each after it was copied to the device of the output."""
    # small batches: all are copied while the trainer works on the first ones
    if output.to == "numpy":
        started = deque[Any]()
    else:
        started = deque(upload.start(finished.batch) for finished in made.batches)
    while made.batches:
        finished = made.batches.popleft()
        if started:
            finished = replace(finished, batch=upload.finish(started.popleft()))
        yield finished
        del finished


class Made(NamedTuple):
    """A batch, the size of the stored bytes that it was made of, and its fields that are to be collated yet."""

    batch: Batch
    size: int
    lists: Collection[str] = ()


class Groups:
    """Makes the batches of groups. Threads share it."""

    def __init__(self, iteration: Iteration) -> None:
        self._iteration = iteration
        self._pipeline, self._factory = iteration.pipeline, iteration.factory
        self._tries = Tries()
        self._numbers = [
            (reader, field) for reader in self._factory.numbers for field in reader.fields
        ]
        gathered = {field.name for _, field in self._numbers}
        self._lists = [name for name in self._factory.names if name not in gathered]
        self._listed = self._factory.listed if self._lists else None

    @property
    def waited(self) -> bool:
        """Whether values of the last batch were not in memory."""
        waited = any(reader.waited for reader in self._factory.numbers)
        return waited or (self._listed is not None and self._listed.waited)

    def bytes_of(self, plan: BatchPlan) -> int:
        """Return the size of a batch in bytes, an estimate if it is ragged."""
        # of a ragged field the example's size
        size = len(plan.samples) * sum(
            math.prod(field.shape) * field.dtype.itemsize for _, field in self._numbers
        )
        if self._listed is not None:
            with suppress(*DAMAGE):  # found when it is read
                size += self._listed.size(plan.samples, self._lists)
        return size

    def note(self, group: list[BatchPlan]) -> None:
        """Take notice of a group that will be made soon."""
        if self.waited:
            samples = np.concatenate([plan.samples for plan in group])
            with suppress(*DAMAGE):  # found when it is read
                for reader in self._factory.numbers:
                    reader.prefetch(samples)
                if self._listed is not None:
                    self._listed.prefetch(samples, self._lists)

    def keys(self, samples: I64) -> list[str]:
        """Return the keys of samples."""
        dataset = cast("Dataset", self._pipeline.source.dataset)
        return dataset.reader.keys(dataset.selection.absolute(samples))

    def make(self, group: list[BatchPlan], result: Result[_Group]) -> None:
        """Make the batches of a group."""
        finished_group = _Group(deque())
        try:
            start = perf_counter()
            batches: list[Made | None] = [None] * len(group)
            with suppress(*DAMAGE):  # the bad sample is found when batches are made of samples
                batches = self._batches(group)
            self._iteration.clock.add({"storage": perf_counter() - start})
            for plan, gathered in zip(group, batches, strict=True):
                if gathered is None:
                    finished = self._iteration.made(plan)
                else:
                    finished = self._finished(plan, gathered)
                finished_group.batches.append(self._iteration.on_host(finished))
        except Exception as error:  # raised after the batches before it
            finished_group.error = error
        except BaseException as error:
            result.fail(error)
            return
        result.set(finished_group)

    def _batches(self, group: list[BatchPlan]) -> list[Made | None]:
        """Make the batches of a group. None takes the place of one that has to be made of samples."""
        pipeline, names = self._pipeline, self._factory.names
        excluded = pipeline.excluded
        sample_lists = [plan.samples for plan in group]
        samples = sample_lists[0] if len(group) == 1 else np.concatenate(sample_lists)
        gathered = self._factory.gather(sample_lists)
        lists = [name for name in names if name not in gathered]
        listed = self._read_lists(samples, lists)
        keys = self.keys(samples) if pipeline.keys else None
        batches: list[Made | None] = []
        end = 0
        for number, plan in enumerate(group):
            start, end = end, end + len(plan.samples)
            batch: Batch = {} if keys is None else {KEY: keys[start:end]}
            missing, size = len(names), 0
            for name in names:
                if name in listed:
                    batch[name] = listed[name].values[start:end]
                    size += listed[name].size(start, end)
                elif name in gathered and (field := gathered[name][number]) is not None:
                    batch[name] = field.batch
                    size += field.nbytes
                else:
                    continue
                missing -= 1
            if pipeline.sources is not None:  # after the fields, as in samples
                batch[SOURCE] = pipeline.sources.names_of(plan.samples)
            if excluded and not excluded.isdisjoint(plan.samples.tolist()):
                missing += 1
            batches.append(None if missing else Made(batch, size, lists))
        return batches

    def _read_lists(self, samples: I64, names: list[str]) -> dict[str, FieldList]:
        """Read fields that are not gathered. Without them, samples have to be made."""
        listed, lists = self._factory.listed, None
        if listed is None or not names or not listed.names.issuperset(names):
            return {}
        if not self._tries.given_up.isdisjoint(names):
            return {}
        try:
            lists = listed.read(samples, names, self._iteration.clock.add)
        finally:
            for name in names:
                self._tries.count(name, good=lists is not None)
        return lists or {}

    def _finished(self, plan: BatchPlan, made: Made) -> Finished:
        """Return a gathered batch as the consumer gets it."""
        batch = made.batch
        if (listed := self._factory.listed) is not None:
            start = perf_counter()
            for name in made.lists:
                batch[name] = listed.collated(name, batch[name], plan.samples)
            self._iteration.clock.add({"collate": perf_counter() - start})
        if (call := self._pipeline.batch_transform) is not None:
            start = perf_counter()
            batch = transformed(call, batch, self._pipeline.order.seed, plan)
            self._iteration.clock.add({"collate": perf_counter() - start})
        return Finished(plan.consumed, batch, len(plan.samples), made.size)


class RowGroups(Groups):
    """Makes batches whose rows are shared, if all of their fields are as long as the tokens."""

    def bytes_of(self, plan: BatchPlan) -> int:
        """Return the size of a batch in bytes."""
        rows, shape = cast("Rows", plan.rows), cast("RowShape", self._pipeline.shape)
        nbytes = sum(field.nbytes for _, field in self._numbers)
        return len(rows.ends) * shape.tokens * nbytes

    def _batches(self, group: list[BatchPlan]) -> list[Made | None]:
        batches = self._together(group)
        if batches is not None:
            return [
                Made(batch, count_bytes([batch[name] for name in self._factory.names]))
                for batch in batches
            ]
        if len(group) == 1:
            return [None]
        # one of them has to be read otherwise
        return [batch for plan in group for batch in self._batches([plan])]

    def _together(self, group: Sequence[BatchPlan]) -> list[Batch] | None:
        """Return the batches of some plans; None if any has to be made of samples."""
        shape, excluded = cast("RowShape", self._pipeline.shape), self._pipeline.excluded
        rows = [cast("Rows", plan.rows) for plan in group]
        samples = np.concatenate([plan.samples for plan in group])
        if excluded and not excluded.isdisjoint(samples.tolist()):
            return None
        lengths = {field.name: reader.lengths(field, samples) for reader, field in self._numbers}
        tokens = lengths[shape.field]
        if tokens is None or any(
            of_field is None or not np.array_equal(of_field, tokens)
            for of_field in lengths.values()
        ):
            return None
        pieces = Pieces.of(rows, [len(plan.samples) for plan in group], tokens)
        # an error, which names the sample
        if len(pieces.wrong) or (pieces.used > shape.tokens).any():
            return None
        samples = samples[pieces.places]
        whole: Batch = {}
        if self._pipeline.keys:
            whole[KEY] = pieces.by_row(self.keys(samples))
        for reader, field in self._numbers:
            if (joined := self._joined(reader, field, samples, pieces, shape)) is None:
                return None
            whole[field.name] = joined
        if self._pipeline.sources is not None:
            whole[SOURCE] = pieces.by_row(self._pipeline.sources.names_of(samples))
        if shape.documents:
            whole |= pieces.layout(shape.tokens)
        whole["cu_seqlens"] = pieces.bounds()
        if len(group) == 1:
            return [whole]
        ends = offsets_of(len(row_parts.ends) for row_parts in rows).tolist()
        return [
            {name: value[first:end] for name, value in whole.items()}
            for first, end in pairwise(ends)
        ]

    def _joined(
        self,
        reader: NumberReader,
        field: NumberField,
        samples: I64,
        pieces: Pieces,
        shape: RowShape,
    ) -> Array | None:
        """Return a field [rows, tokens]; None if a value cannot be gathered."""
        flat = np.empty(int(pieces.starts[-1]), field.dtype)
        rooms = Rooms(flat, pieces.starts, skip=pieces.begins)
        if not reader.gather_rows(field, samples, rooms):
            return None
        rules: Any = self._pipeline.collate or {}
        rule, fill = rules.get(field.name), 0
        if isinstance(rule, Padded):
            fill = rule.padding(field.dtype)[0]
        return pieces.padded(flat, shape.tokens, fill)
