"""What happens to a batch on its way: fetch, prepare (decode and transform), assemble. No threads here.

A `Pipeline` is a plain value that says what is to be done; `run` does it, in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bushel.errors import BushelError, TooManyErrors
from bushel.loader.ahead import count_bytes
from bushel.loader.collate import Collate, Sample, collate
from bushel.loader.order import Order
from bushel.loader.plan import BatchPlan
from bushel.loader.report import BadSample, ErrorReport, OnError
from bushel.loader.stats import Clock
from bushel.loader.transforms import SampleTransforms, generator
from bushel.spec import KEY

__all__ = ["Failure", "Pipeline", "Readable"]

I64 = npt.NDArray[np.int64]


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

    def decode_sample(self, stored: Sample, position: int) -> Sample:
        """Decode what `read(decode=False)` gave for one sample."""

    def announce(self, positions: Any, fields: Any = None) -> None:
        """Say what will be read soon."""

    def position(self, key: str) -> int:
        """The position of a key; KeyError when there is none."""

    def where(self, position: int, field: str) -> tuple[str | None, int | None]:
        """File and offset of a field."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What stands in the place of a sample that is bad.

    Attributes:
        error: What went wrong, or None for a sample that was excluded beforehand.
        field: The field at fault, or None when that is not known.
        key: The sample's key, or None to look it up.
    """

    error: Exception | None
    field: str | None = None
    key: str | None = None


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
        return not self.decode and not self.transforms.steps

    def fetch(self, plan: BatchPlan, clock: Clock) -> list[Sample | Failure]:
        """Read the stored samples of a batch in one go; when that fails, one by one to find the bad ones."""
        start = perf_counter()
        stored = self._fetch(plan)
        clock.add({"storage": perf_counter() - start, "bytes": sum(map(_stored_bytes, stored))})
        return stored

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
        self, plan: BatchPlan, stored: Sequence[Sample | Failure], clock: Clock, first: int = 0
    ) -> list[Sample | Failure]:
        """Decode and transform stored samples: those of the plan from number `first` on.

        With `on_error="raise"`, raises what goes wrong, with the sample's key as a note.
        """
        decoding, start = 0.0, perf_counter()
        prepared: list[Sample | Failure] = []
        for number, sample in zip(plan.samples[first : first + len(stored)].tolist(), stored, strict=True):
            if isinstance(sample, Failure):
                prepared.append(sample)
                continue
            begun = perf_counter()
            try:
                decoded = self.dataset.decode_sample(sample, number) if self.decode else sample
                decoding += perf_counter() - begun
                prepared.append(self._transform(plan.epoch, number, decoded))
            except Exception as error:
                prepared.append(self._failure(error, number, sample[KEY]))
        clock.add({"decode": decoding, "transform": perf_counter() - start - decoding})
        return prepared

    def _transform(self, epoch: int, number: int, sample: Sample) -> Sample:
        if self.transforms.steps:
            rng = generator(self.order.seed, epoch, number) if self.transforms.random else None
            self.transforms.apply(sample, rng)
        return sample

    def assemble(
        self, plan: BatchPlan, prepared: Sequence[Sample | Failure], report: ErrorReport, clock: Clock
    ) -> Any | None:
        """Make the batch of its prepared samples; None when it would be empty because all were skipped.

        Raises:
            TooManyErrors: More bad samples than allowed.
        """
        filled: list[Sample | None] = []
        for position, number, sample in zip(plan.positions.tolist(), plan.samples.tolist(), prepared, strict=False):
            if not isinstance(sample, Failure):
                filled.append(sample)
                continue
            self._note(number, sample, report)
            replace = self.on_error == "replace"
            filled.append(self._replacement(plan.epoch, position, report, clock) if replace else None)
        samples = [sample for sample in filled if sample is not None]
        clock.add({"samples": len(samples), "batches": 1})
        if not self.batched:
            return filled
        if not samples:
            return None
        start = perf_counter()
        batch = self.collate(samples) if callable(self.collate) else collate(samples, self.collate)
        if self.batch_transform is not None:
            batch = self.batch_transform(batch)
        clock.add({"collate": perf_counter() - start})
        return batch

    def _replacement(self, epoch: int, position: int, report: ErrorReport, clock: Clock) -> Sample:
        """The first good sample behind this position of the epoch, which begins again after its end."""
        for after in self._positions_after(position):
            there = np.array([after], np.int64)
            plan = BatchPlan(epoch, there, self.order.take(epoch, there), 0)
            number = int(plan.samples[0])
            [sample] = self.prepare(plan, self.fetch(plan, clock), clock)
            if not isinstance(sample, Failure):
                return sample
            self._note(number, sample, report)
        raise TooManyErrors("no sample of the dataset is good, so none can replace another: see the loader's `errors`")

    def _positions_after(self, position: int) -> Iterator[int]:
        return (after % self.order.samples for after in range(position + 1, position + self.order.samples))

    def _failure(self, error: Exception, sample: int, key: str | None = None) -> Failure:
        if key is None:
            key = self.dataset.keys[sample]
        if self.on_error == "raise":
            error.add_note(f"sample {key!r} (position {sample} of the dataset)")
            raise error
        field = getattr(error, "field", None)
        if field is None and isinstance(error, BushelError):
            field = error.details.get("field")
        return Failure(error, field if isinstance(field, str) else None, key)

    def _note(self, sample: int, failure: Failure, report: ErrorReport) -> None:
        """Report a bad sample, unless it was known beforehand."""
        if failure.error is not None:
            report.add(self._describe(sample, failure, failure.error), failure.error)

    def _describe(self, sample: int, failure: Failure, error: Exception) -> BadSample:
        file, offset = getattr(error, "file", None), getattr(error, "offset", None)
        if file is None:
            file, offset = self.dataset.where(sample, failure.field or next(iter(self.fields or self.dataset.spec), ""))
        key, cause = failure.key or self.dataset.keys[sample], f"{type(error).__name__}: {error}"
        return BadSample(sample, key, failure.field, file, offset, cause)


def _stored_bytes(sample: Sample | Failure) -> int:
    if isinstance(sample, Failure):
        return 0
    return sum(count_bytes(value) for name, value in sample.items() if name != KEY)
