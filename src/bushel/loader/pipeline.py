"""What happens to a batch on its way: fetch, prepare (decode and transform), assemble. No threads here.

A `Pipeline` is a plain value that says what is to be done; `run` does it, in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bushel.core.order import Order
from bushel.errors import BushelError, CodecError, TooManyErrors
from bushel.loader.collate import Collate, Sample, collate
from bushel.loader.decode_batch import Stretch, stored_bytes, stretches
from bushel.loader.plan import BatchPlan
from bushel.loader.report import BadSample, ErrorReport, Failure, OnError, raise_first
from bushel.loader.slots import SlotMemory, Slots
from bushel.loader.stats import Clock
from bushel.loader.transforms import SampleTransforms, generator
from bushel.spec import KEY

__all__ = ["Fetched", "Finished", "Pipeline", "Readable"]

I64 = npt.NDArray[np.int64]


_LIGHT = 1 << 16


class Readable(Protocol):
    """What the loader needs of a dataset."""

    @property
    def spec(self) -> Mapping[str, str]:
        """Field to type."""

    @property
    def fingerprint(self) -> str:
        """Identity of the samples and their sequence."""

    @property
    def keys(self) -> Sequence[str]:
        """The keys by position."""

    def __len__(self) -> int: ...

    def read(self, positions: Any, fields: Any = None, *, decode: bool = True) -> list[Sample]:
        """Read many samples at once."""

    def decode_samples(
        self, stored: Sequence[Sample], positions: I64, encoded: Collection[str] = (), fields: Any = None
    ) -> list[Sample]:
        """Decode what `read(decode=False)` gave; images of the fields `encoded` may stay as they are stored.

        `fields` is what `read` was given, where that was a mapping.
        """

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Say what will be read soon."""

    def position(self, key: str) -> int:
        """The position of a key; KeyError when there is none."""

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """File and offset of a field."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The stored samples of a batch.

    Attributes:
        samples: What was read, in the order of the batch.
        stored_bytes: Bytes of it.
    """

    samples: list[Sample | Failure]
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A batch.

    Attributes:
        consumed: Positions of the epoch that all ranks have consumed with it.
        batch: The batch, or None when all of its samples were skipped.
        samples: Samples in it.
        stored_bytes: Bytes that were read for it.
    """

    consumed: int
    batch: Any
    samples: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What is done to every batch.

    Attributes:
        dataset: Where samples come from.
        order: Their order, for replacements.
        fields: The fields that are read, as `dataset.read` takes them.
        decode: Whether fields are decoded.
        transforms: What is applied to each sample.
        collate: How samples become a batch.
        batch_transform: What is applied to each batch, or None.
        on_error: What becomes of bad samples.
        excluded: Samples that are known to be bad, and are not read. They are replaced, or else skipped.
        batched: Whether samples become batches; if not, a "batch" is a list with None for every skipped sample.
    """

    dataset: Readable
    order: Order
    fields: Any = None
    decode: bool = True
    transforms: SampleTransforms = SampleTransforms()
    collate: Collate | None = None
    batch_transform: Callable[[Any], Any] | None = None
    on_error: OnError = "raise"
    excluded: frozenset[int] = frozenset()
    batched: bool = True

    @property
    def is_stored(self) -> bool:
        """Whether samples leave as they are stored, so that there is nothing to prepare."""
        return not self.decode and not self.transforms.fields

    def is_light(self, fetched: Fetched) -> bool:
        """Whether a batch is decoded in less time than it takes to share it among threads."""
        return fetched.stored_bytes <= _LIGHT and not self.transforms.fields

    def slots(self, plan: BatchPlan, memory: SlotMemory) -> Slots | None:
        """The slots that a batch is decoded into; None where samples are not collated field by field."""
        return Slots(len(plan.samples), memory) if self.batched and not callable(self.collate) else None

    def fetch(self, plan: BatchPlan, clock: Clock) -> Fetched:
        """Read the stored samples of a batch in one go; when that fails, one by one to find the bad ones."""
        start = perf_counter()
        stored = self._fetch(plan)
        clock.add({"storage": perf_counter() - start})
        return Fetched(stored, sum(stored_bytes(sample) for sample in stored if not isinstance(sample, Failure)))

    def _fetch(self, plan: BatchPlan) -> list[Sample | Failure]:
        numbers = plan.samples.tolist()
        wanted = [number for number in numbers if number not in self.excluded]
        with suppress(Exception):  # not lost: the sample at fault raises it again, below
            stored = iter(self.dataset.read(np.array(wanted, np.int64), self.fields, decode=False))
            return [Failure(None) if number in self.excluded else next(stored) for number in numbers]
        return [self._fetch_one(number) for number in numbers]

    def _fetch_one(self, sample: int) -> Sample | Failure:
        if sample in self.excluded:
            return Failure(None)
        try:
            return self.dataset.read(np.array([sample], np.int64), self.fields, decode=False)[0]
        except Exception as error:
            return self._failure(error, sample)

    def prepare(
        self,
        epoch: int,
        numbers: I64,
        stored: Sequence[Sample | Failure],
        clock: Clock,
        slots: Slots | None = None,
        first: int = 0,
    ) -> list[Sample | Failure]:
        """Decode and transform stored samples. What goes wrong stands in their place, whatever `on_error` says.

        Args:
            epoch: Keys the randomness of transforms.
            numbers: int64[n], the samples.
            stored: What `fetch` gave for them.
            clock: Where times are added up.
            slots: The batch's.
            first: Place of the first of them in the batch.
        """
        prepared: list[Sample | Failure] = []
        for start, end in stretches(stored, self.transforms.fused):
            begun = perf_counter()
            samples = self._decode(numbers[start:end], stored[start:end])
            decoding, own = perf_counter() - begun, numbers[start:end].tolist()
            rngs: list[np.random.Generator | None] = [None] * len(own)
            if self.transforms.random:
                rngs = [generator(self.order.seed, epoch, number) for number in own]
            stretch = Stretch(samples, own, rngs, first + start, slots, self._failure)
            for step in self.transforms.fields:
                decoding += stretch.transform(step, self.transforms.reducing_gap)
            stretch.settle()
            clock.add({"decode": decoding, "transform": perf_counter() - begun - decoding})
            prepared += stretch.samples
        return prepared

    def _decode(self, numbers: I64, stored: Sequence[Sample | Failure]) -> list[Sample | Failure]:
        """Decode samples together; when that fails, one by one to find the bad ones."""
        if not self.decode:
            return list(stored)
        good = [place for place, sample in enumerate(stored) if not isinstance(sample, Failure)]
        whole = [sample for sample in stored if not isinstance(sample, Failure)]
        with suppress(Exception):  # not lost: the sample at fault raises it again, below
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
        if isinstance(self.fields, Mapping):
            return self.dataset.decode_samples(samples, numbers, self.transforms.encoded, self.fields)
        return self.dataset.decode_samples(samples, numbers, self.transforms.encoded)

    def assemble(
        self,
        plan: BatchPlan,
        fetched: Fetched,
        prepared: Sequence[Sample | Failure],
        slots: Slots | None,
        report: ErrorReport,
        clock: Clock,
    ) -> Finished:
        """Make the batch of its prepared samples.

        Raises:
            TooManyErrors: More bad samples than allowed.
            Exception: With `on_error="raise"`, what is wrong with the first bad sample of the batch.
        """
        if self.on_error == "raise":
            raise_first(prepared)
        filled: list[Sample | None] = []
        for place, sample in enumerate(prepared):
            if not isinstance(sample, Failure):
                filled.append(sample)
                continue
            self._note(int(plan.samples[place]), sample, report)
            replace = self.on_error == "replace"
            filled.append(self._replacement(plan, place, slots, report, clock) if replace else None)
        samples = [sample for sample in filled if sample is not None]
        batch: Any = filled
        if self.batched:
            stacked = slots.whole() if slots is not None and len(samples) == len(filled) else {}
            batch = self._collate(samples, stacked, clock) if samples else None
        return Finished(plan.consumed, batch, len(samples), fetched.stored_bytes)

    def _collate(self, samples: list[Sample], stacked: Mapping[str, npt.NDArray[Any]], clock: Clock) -> Any:
        start = perf_counter()
        batch = self.collate(samples) if callable(self.collate) else collate(samples, self.collate, stacked)
        if self.batch_transform is not None:
            batch = self.batch_transform(batch)
        clock.add({"collate": perf_counter() - start})
        return batch

    def _replacement(
        self, plan: BatchPlan, place: int, slots: Slots | None, report: ErrorReport, clock: Clock
    ) -> Sample:
        """The first good sample behind this place of the batch, in the epoch, which begins again after its end."""
        for after in self._positions_after(int(plan.positions[place])):
            there = np.array([after], np.int64)
            one = BatchPlan(plan.epoch, there, self.order.take(plan.epoch, there), 0)
            stored = self.fetch(one, clock).samples
            [sample] = self.prepare(plan.epoch, one.samples, stored, clock, slots, place)
            if not isinstance(sample, Failure):
                return sample
            self._note(int(one.samples[0]), sample, report)
        raise TooManyErrors("no sample of the dataset is good, so none can replace another: see the loader's `errors`")

    def _positions_after(self, position: int) -> Iterator[int]:
        return (after % self.order.samples for after in range(position + 1, position + self.order.samples))

    def _failure(self, error: Exception, sample: int, key: str | None = None, field: str | None = None) -> Failure:
        if key is None:
            key = self.dataset.keys[sample]
        if field is not None and isinstance(error, CodecError):
            error = self._located(error, sample, key, field)
        error.add_note(f"sample {key!r} (position {sample} of the dataset)")
        own = getattr(error, "field", None) or (error.details.get("field") if isinstance(error, BushelError) else None)
        return Failure(error, own if isinstance(own, str) else field, key)

    def _located(self, error: CodecError, sample: int, key: str, field: str) -> CodecError:
        """What a dataset says about a field that does not decode."""
        file, offset = self.dataset.location(sample, field)
        details = {**error.details, "key": key, "field": field, "file": file, "offset": offset, "position": sample}
        return CodecError(f"sample {key!r}, field {field!r} ({file}@{offset}): {error}", **details)

    def _note(self, sample: int, failure: Failure, report: ErrorReport) -> None:
        """Report a bad sample, unless it was known beforehand."""
        if failure.error is not None:
            report.add(self._describe(sample, failure, failure.error), failure.error)

    def _describe(self, sample: int, failure: Failure, error: Exception) -> BadSample:
        file, offset = getattr(error, "file", None), getattr(error, "offset", None)
        if file is None:
            file, offset = self.dataset.location(
                sample, failure.field or next(iter(self.fields or self.dataset.spec), "")
            )
        key, cause = failure.key or self.dataset.keys[sample], f"{type(error).__name__}: {error}"
        return BadSample(sample, key, failure.field, file, offset, cause)
