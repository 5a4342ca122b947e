"""The three steps that make a batch: fetch, decode and transform, assemble.

A `Pipeline` is a plain value without threads; `bushel.loader.run` runs its steps in threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.numbers import NumberField, NumberReader, gathers
from bushel.core.index.seek_lookup import warn_of_refused
from bushel.core.order import Balanced, Order, Weighted
from bushel.errors import BushelError, TooManyErrors
from bushel.loader.bad_samples import ErrorReport, Failure, OnError
from bushel.loader.batch_arrays import ArrayFactory, BatchArrays, BufferPool
from bushel.loader.collate import Collate, Padded, Ragged, Sample, collate
from bushel.loader.loadable import Loadable, describe, failure_of
from bushel.loader.micro_batch import (
    MicroBatch,
    SampleTransforms,
    count_bytes,
    generator,
    micro_batches,
    stored_bytes,
)
from bushel.loader.plan import BatchPlan
from bushel.spec import KEY

if TYPE_CHECKING:
    from bushel.loader.bucketed import Bucketed
    from bushel.loader.read_ahead import HeldBatch, Planned

__all__ = ["Clock", "Fetched", "Finished", "Pipeline", "raise_first"]

I64 = npt.NDArray[np.int64]

_LIGHT_BYTES = 1 << 16


class Clock:
    """Adds up the seconds of stages, and counts. Threads and worker processes add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()

    def add(self, totals: Mapping[str, float]) -> None:
        """Add seconds of stages, and counts."""
        with self._lock:
            for name, value in totals.items():
                self._totals[name] += value  # type: ignore[assignment]

    def drain(self) -> dict[str, float]:
        """Return what was added since the last call."""
        with self._lock:
            totals, self._totals = self._totals, Counter()
        return dict(totals)

    def read(self) -> dict[str, float]:
        """Return what was added so far."""
        with self._lock:
            return dict(self._totals)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The stored samples of a batch.

    Attributes:
        samples: The samples, in the order of the batch.
        stored_bytes: Their size in bytes.
        gathered: The fields that were gathered into the arrays of the batch, which the samples lack.
    """

    samples: list[Sample | Failure]
    stored_bytes: int
    gathered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished batch.

    Attributes:
        consumed: Positions of the epoch that all ranks have consumed after this batch.
        batch: The batch; None if all of its samples were skipped.
        samples: Number of samples in it.
        stored_bytes: Bytes that were read for it.
        past_end: Whether the batch is empty because a stream ended before it.
    """

    consumed: int
    batch: Any
    samples: int
    stored_bytes: int
    past_end: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The work that makes batches.

    Attributes:
        dataset: The source of samples.
        order: The order of the epoch, for replacements.
        fields: The fields to read, as `dataset.read` takes them.
        decode: Whether to decode fields.
        transforms: The transforms of samples.
        collate: How samples become a batch.
        batch_transform: A function to apply to each batch; None for none.
        on_error: What to do with bad samples.
        excluded: Positions of samples that are known to be bad. They are not read, but replaced or skipped.
        batched: Whether samples become batches. If not, a "batch" is a list with None for every skipped sample.
        keys: Whether batches and samples have keys.
    """

    dataset: Loadable
    order: Order | Bucketed
    fields: Any = None
    decode: bool = True
    transforms: SampleTransforms = SampleTransforms()
    collate: Collate | None = None
    batch_transform: Callable[[Any], Any] | None = None
    on_error: OnError = "raise"
    excluded: frozenset[int] = frozenset()
    batched: bool = True
    keys: bool = True

    @property
    def is_stored(self) -> bool:
        """Whether samples stay stored bytes, so that nothing is decoded or transformed."""
        return not self.decode and not self.transforms.fields

    def is_light(self, fetched: Fetched) -> bool:
        """Return whether a batch is decoded faster in one thread than it is shared among several."""
        return fetched.stored_bytes <= _LIGHT_BYTES and not self.transforms.fields

    def arrays(self, plan: BatchPlan, factory: ArrayFactory) -> BatchArrays | None:
        """Return the arrays that a batch is decoded into; None if samples are not collated field by field."""
        return BatchArrays(len(plan.samples), factory) if self.batched and not callable(self.collate) else None

    def factory(self, pool: BufferPool) -> ArrayFactory:
        """Return what makes the arrays of the batches of one iteration."""
        fields = self.dataset.spec if self.fields is None else self.fields
        names = tuple(fields)
        if isinstance(fields, Mapping):
            names = tuple(name for name, elements in fields.items() if elements is not False)
        return ArrayFactory(self.collate, pool, self.numbers(), names)

    def numbers(self) -> NumberReader | None:
        """Return what gathers fields of numbers for one iteration; None if there are none.

        These are fields without transforms, of a dataset in local files, whose values are stacked, or joined by
        `Ragged` or `Padded`.
        """
        if not self.batched or callable(self.collate) or type(self.dataset) is not Dataset:
            return None
        transformed, fields = {one.field for one in self.transforms.fields}, []
        for name in gathers(self.dataset, self.fields):
            rule = None if self.collate is None else self.collate.get(name)
            ragged, stored = type(rule) is Ragged, not self.decode
            if name in transformed:
                continue
            if ragged or rule == "stack":
                fields.append(NumberField(name, stored, bytes_too=True, ragged=ragged))
            elif self.decode and (rule is None or type(rule) is Padded):
                fields.append(NumberField(name, ragged=rule is not None, axes=None if rule is None else 1))
        numbers = NumberReader(self.dataset, fields) if fields else None
        return numbers if numbers is not None and numbers.fields else None

    def prefetch(self, plan: BatchPlan) -> None:
        """Tell the storage what will be read for a batch."""
        with suppress(BushelError, OSError):  # raised again, with the sample, when the batch is read
            if self.decode or not isinstance(self.dataset, Dataset):
                self.dataset.prefetch(plan.samples, self.fields)
            else:
                self.dataset.prefetch(plan.samples, self.fields, decode=False)

    def extents(self, plan: BatchPlan) -> Planned:
        """Return the extents that `fetch` will read for a batch, as far as that is known."""
        with suppress(BushelError, OSError):  # raised again, with the sample, when the batch is read
            if isinstance(self.dataset, Dataset):
                return self.dataset.extents(self._wanted(plan), self.fields, decode=self.decode)
        return []

    def fetch(
        self, plan: BatchPlan, clock: Clock, arrays: BatchArrays | None = None, held: HeldBatch | None = None
    ) -> Fetched:
        """Read the stored samples of a batch in one read. If that fails, read them one by one to find the bad ones.

        Fields of numbers are gathered into `arrays`, unless the batch has excluded samples, which are replaced later.
        What is `held` of the bytes is not read again, and is released.
        """
        start = perf_counter()
        whole = not self.excluded or self.excluded.isdisjoint(plan.samples.tolist())
        gathered = frozenset[str]() if arrays is None or not whole else arrays.gather(plan.samples)
        others = self.fields if arrays is None or not gathered else self._others(arrays, gathered)
        with held or nullcontext():
            stored = self._fetch(plan, others, held)
        size = sum(stored_bytes(sample) for sample in stored if not isinstance(sample, Failure))
        if arrays is not None and gathered:
            size += count_bytes(arrays.whole())
        clock.add({"storage": perf_counter() - start})
        return Fetched(stored, size, gathered)

    def _others(self, arrays: BatchArrays, gathered: frozenset[str]) -> Any:
        """Return the fields to read that are not gathered."""
        if isinstance(self.fields, Mapping):
            return {name: elements for name, elements in self.fields.items() if name not in gathered}
        return [name for name in arrays.names if name not in gathered]

    def _wanted(self, plan: BatchPlan) -> I64:
        """Return the samples of a batch that are not excluded."""
        if not self.excluded:
            return plan.samples
        return plan.samples[[number not in self.excluded for number in plan.samples.tolist()]]

    def _fetch(self, plan: BatchPlan, fields: Any, held: HeldBatch | None = None) -> list[Sample | Failure]:
        numbers = plan.samples.tolist()
        with suppress(Exception):  # the bad sample raises it again below
            stored = iter(self._read(self._wanted(plan), fields, held))
            return [Failure(None) if number in self.excluded else next(stored) for number in numbers]
        found = []
        for number in numbers:
            found.append(self._fetch_one(number, fields))
            if self.on_error == "raise" and isinstance(found[-1], Failure) and found[-1].error is not None:
                break  # no other sample is needed to raise its error: each may wait for the network in vain
        return found + [Failure(None)] * (len(numbers) - len(found))

    def _read(self, positions: I64, fields: Any, held: HeldBatch | None = None) -> list[Sample]:
        if isinstance(self.dataset, Dataset):
            return self.dataset.read_encoded(positions, fields, decode=self.decode, held=held)
        return self.dataset.read(positions, fields, decode=False)

    def _fetch_one(self, sample: int, fields: Any) -> Sample | Failure:
        if sample in self.excluded:
            return Failure(None)
        try:
            return self._read(np.array([sample], np.int64), fields)[0]
        except Exception as error:
            return self._failure(error, sample)

    def draws(self, plan: BatchPlan) -> I64 | None:
        """Return what the random numbers of transforms depend on: the positions if samples repeat within an epoch."""
        return plan.positions if isinstance(self.order, Weighted | Balanced) else None

    def decode_and_transform(
        self,
        epoch: int,
        numbers: I64,
        stored: Sequence[Sample | Failure],
        clock: Clock,
        arrays: BatchArrays | None = None,
        first: int = 0,
        draws: I64 | None = None,
    ) -> list[Sample | Failure]:
        """Decode and transform stored samples. A `Failure` takes the place of each bad one, whatever `on_error` says.

        Args:
            epoch: Number of the epoch, for random transforms.
            numbers: int64[n], the positions of the samples in the dataset.
            stored: The samples as `fetch` returned them.
            clock: Adds up times.
            arrays: The arrays of the batch.
            first: Row of the first sample in the batch.
            draws: int64[n], what the random numbers of each sample depend on, if not on its position in the dataset.
        """
        done: list[Sample | Failure] = []
        for start, end in micro_batches(stored, self.transforms.fused):
            started = perf_counter()
            samples = self._decode(numbers[start:end], stored[start:end])
            if isinstance(self.dataset, Dataset) and (whole := self.dataset.drain_whole_clips()):
                clock.add({"whole_clips": whole})
            decoding, own = perf_counter() - started, numbers[start:end].tolist()
            rngs: list[np.random.Generator | None] = [None] * len(own)
            if self.transforms.random:
                seeds = own if draws is None else draws[start:end].tolist()
                rngs = [generator(self.order.seed, epoch, number) for number in seeds]
            refused: list[int] = []
            micro = MicroBatch(samples, own, rngs, first + start, arrays, self._failure, self._warn, refused)
            for step in self.transforms.fields:
                decoding += micro.transform(step, self.transforms.reducing_gap)
            micro.write_rows()
            clock.add({"decode": decoding, "transform": perf_counter() - started - decoding})
            if refused:
                clock.add({"refused_seek_tables": len(refused)})
            done += micro.samples
        return done

    def _warn(self, sample: int, field: str) -> None:
        warn_of_refused(self.dataset.location(sample, field)[0])

    def _decode(self, numbers: I64, stored: Sequence[Sample | Failure]) -> list[Sample | Failure]:
        """Decode samples together. If that fails, decode them one by one to find the bad ones."""
        if not self.decode:
            return list(stored)
        good = [place for place, sample in enumerate(stored) if not isinstance(sample, Failure)]
        whole = [sample for sample in stored if not isinstance(sample, Failure)]
        with suppress(Exception):  # the bad sample raises it again below
            decoded: list[Sample | Failure] = list(stored)
            for place, sample in zip(good, self._decode_stored(whole, numbers[good]), strict=True):
                decoded[place] = sample
            return decoded
        return [
            sample if isinstance(sample, Failure) else self._decode_one(sample, number)
            for sample, number in zip(stored, numbers.tolist(), strict=True)
        ]

    def _decode_one(self, sample: Sample, number: int) -> Sample | Failure:
        try:
            return self._decode_stored([sample], np.array([number], np.int64))[0]
        except Exception as error:
            return self._failure(error, number, sample[KEY])

    def _decode_stored(self, samples: list[Sample], numbers: I64) -> list[Sample]:
        fields = self.fields if isinstance(self.fields, Mapping) else None
        if fields is not None:
            return self.dataset.decode_samples(samples, numbers, self.transforms.encoded, fields)
        return self.dataset.decode_samples(samples, numbers, self.transforms.encoded)

    def assemble(
        self,
        plan: BatchPlan,
        fetched: Fetched,
        decoded: Sequence[Sample | Failure],
        arrays: BatchArrays | None,
        report: ErrorReport,
        clock: Clock,
    ) -> Finished:
        """Make the batch from its decoded and transformed samples.

        Raises:
            TooManyErrors: There are more bad samples than allowed.
            Exception: With `on_error="raise"`, the error of the first bad sample of the batch.
        """
        if self.on_error == "raise":
            raise_first(decoded)
        gathered = fetched.gathered
        if arrays is not None and gathered and any(isinstance(sample, Failure) for sample in decoded):
            decoded, gathered = self._scattered(decoded, arrays), frozenset()
        filled: list[Sample | None] = []
        for place, sample in enumerate(decoded):
            if not isinstance(sample, Failure):
                filled.append(sample)
                continue
            self._report(int(plan.samples[place]), sample, report)
            replace = self.on_error == "replace"
            filled.append(self._replacement(plan, place, arrays, report, clock) if replace else None)
        samples = [sample for sample in filled if sample is not None]
        batch: Any = filled if self.keys else [sample and without_key(sample) for sample in filled]
        if self.batched:
            stacked = arrays.whole() if arrays is not None and len(samples) == len(filled) else {}
            names = arrays.names if arrays is not None and gathered else ()
            batch = self._collate(samples, stacked, names, clock) if samples else None
        return Finished(plan.consumed, batch, len(samples), fetched.stored_bytes, past_end=not decoded)

    def _scattered(self, decoded: Sequence[Sample | Failure], arrays: BatchArrays) -> list[Sample | Failure]:
        """Return samples with their gathered values, for a batch that will have other samples."""
        gathered, names = arrays.release(), (KEY, *arrays.names)
        samples: list[Sample | Failure] = []
        for row, sample in enumerate(decoded):
            if not isinstance(sample, Failure):
                own = {name: one.value(row) for name, one in gathered.items()} | sample
                sample = {name: own[name] for name in names if name in own}
            samples.append(sample)
        return samples

    def _collate(self, samples: list[Sample], stacked: Mapping[str, Any], names: Sequence[str], clock: Clock) -> Any:
        start = perf_counter()
        if callable(self.collate):
            batch = self.collate(samples if self.keys else [without_key(sample) for sample in samples])
        else:
            batch = collate(samples, self.collate, stacked)
        if names:  # samples lack the fields that were gathered: each gets its place among those of the first sample
            first = [name for name in (KEY, *names) if name in samples[0] or name in stacked]
            both = {**batch, **stacked}
            batch = {name: both[name] for name in dict.fromkeys([*first, *batch])}
        if not self.keys and not callable(self.collate):
            del batch[KEY]
        if self.batch_transform is not None:
            batch = self.batch_transform(batch)
        clock.add({"collate": perf_counter() - start})
        return batch

    def _replacement(
        self, plan: BatchPlan, place: int, arrays: BatchArrays | None, report: ErrorReport, clock: Clock
    ) -> Sample:
        """Return the next good sample of the epoch after a place of the batch. The start follows the end."""
        for one in self._following(plan.epoch, int(plan.positions[place])):
            stored = self.fetch(one, clock).samples
            draws = self.draws(one)
            [sample] = self.decode_and_transform(plan.epoch, one.samples, stored, clock, arrays, place, draws)
            if not isinstance(sample, Failure):
                return sample
            self._report(int(one.samples[0]), sample, report)
        from bushel.loader.bucketed import Bucketed

        which = "samples that are not longer" if isinstance(self.order, Bucketed) else "samples of the dataset"
        raise TooManyErrors(f"all {which} are bad, so none can replace another: see the loader's `errors`")

    def _following(self, epoch: int, position: int) -> Iterator[BatchPlan]:
        """Yield the samples that may replace the one at a position, each as a batch."""
        from bushel.loader.bucketed import Bucketed

        if isinstance(self.order, Bucketed):
            for sample in self.order.similar(epoch, position):
                yield BatchPlan(epoch, np.array([position], np.int64), np.array([sample], np.int64), 0)
            return
        for number in range(position + 1, position + self.order.samples):
            positions = np.array([number % self.order.samples], np.int64)
            yield BatchPlan(epoch, positions, self.order.take(epoch, positions), 0)

    def _failure(self, error: Exception, sample: int, key: str | None = None, field: str | None = None) -> Failure:
        return failure_of(self.dataset, error, sample, key, field)

    def _report(self, sample: int, failure: Failure, report: ErrorReport) -> None:
        """Report a bad sample, unless `exclude=` names it."""
        if failure.error is not None:
            first = next(iter(self.fields or self.dataset.spec), "")
            report.add(describe(self.dataset, sample, failure, failure.error, first), failure.error)


def without_key(sample: Sample) -> Sample:
    """Return a sample without its key."""
    return {name: value for name, value in sample.items() if name != KEY}


def raise_first(decoded: Iterable[object]) -> None:
    """Raise the error of the first bad sample, which does not depend on the number of threads.

    Raises:
        Exception: The error, with the sample's key as a note.
    """
    for sample in decoded:
        if isinstance(sample, Failure) and sample.error is not None:
            raise sample.error
