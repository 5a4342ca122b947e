"""Preparing of samples: transform them, and decode images straight into their slots of the batch where that goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bushel.codecs.image import ImageReading, decode_image
from bushel.errors import CodecError
from bushel.loader.collate import Sample
from bushel.loader.prefetch import count_bytes
from bushel.loader.report import Failure
from bushel.loader.slots import Slots, is_large
from bushel.loader.transforms import FieldTransforms
from bushel.spec import KEY
from bushel.transforms import EachFrame
from bushel.transforms.fused import DecodePlan, decode_into, frame_geometries, image_size
from bushel.transforms.spatial import Geometry
from bushel.transforms.values import Call

__all__ = ["Stretch", "stored_bytes", "stretches"]

_TOGETHER = 1 << 16  # stored bytes that are decoded before any of them are transformed, so that caches hold the values


def stretches(stored: Sequence[Sample | Failure], fused: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Cut samples into stretches that are prepared together: many small samples, or one large one.

    Args:
        stored: The samples.
        fused: Fields that do not count, since they are decoded straight into the batch.

    Yields:
        Begin and end of each stretch.
    """
    start = size = 0
    for number, sample in enumerate(stored):
        own = 0 if isinstance(sample, Failure) else stored_bytes(sample, fused)
        if number > start and size + own > _TOGETHER:
            yield start, number
            start, size = number, 0
        size += own
    if start < len(stored):
        yield start, len(stored)


def stored_bytes(sample: Sample, without: Collection[str] = ()) -> int:
    """Bytes of the stored values of a sample."""
    total = 0
    for name, value in sample.items():
        if name in without:
            continue
        if type(value) is bytes:
            total += len(value)
        elif name != KEY:
            total += count_bytes(value)
    return total


class Fail(Protocol):
    """What makes of an exception the failure of a sample."""

    def __call__(self, error: Exception, sample: int, key: str, field: str | None = None) -> Failure:
        """`field` is given where the error does not say more than that the field does not decode."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some neighbouring samples of a batch, on their way.

    Attributes:
        samples: The decoded samples, which change in place; images that are to be fused are still stored bytes.
        numbers: Their positions in the dataset.
        rngs: Their random numbers, or None where none are needed.
        first: The place of the first of them in the batch.
        slots: Of the batch, or None.
        fail: What is done about bad samples.
    """

    samples: list[Sample | Failure]
    numbers: Sequence[int]
    rngs: Sequence[np.random.Generator | None]
    first: int
    slots: Slots | None
    fail: Fail

    def transform(self, step: FieldTransforms, reducing_gap: float | None) -> float:
        """Transform one field, where samples have it.

        Returns:
            The seconds of it in which images were decoded.
        """
        begun = perf_counter()
        fused: set[int] = set()
        if step.plan is not None:
            if step.frames is None:
                fused = self._decode_images(step, step.plan, reducing_gap)
            else:
                fused = self._decode_frames(step, step.frames, step.plan, reducing_gap)
        elif step.reading is not None:
            self._decode_whole(step.field, step.reading)
        decoding = perf_counter() - begun
        for at, sample in enumerate(self.samples):
            calls = step.rest if at in fused else step.calls
            if calls and isinstance(sample, dict) and step.field in sample:
                try:
                    sample[step.field] = _apply(calls, sample[step.field], self.rngs[at], step.field)
                except Exception as error:
                    self._fail(at, error)
        return decoding

    def settle(self) -> None:
        """Put large arrays into the slots: those of the fields of which the first sample has one."""
        first = next((sample for sample in self.samples if isinstance(sample, dict)), None)
        if self.slots is None or first is None:
            return
        for name in [name for name, value in first.items() if is_large(value)]:
            for place, sample in enumerate(self.samples, self.first):
                if isinstance(sample, dict) and is_large(value := sample.get(name)):
                    sample[name] = self.slots.put(name, place, value)

    def _fail(self, at: int, error: Exception, field: str | None = None) -> None:
        sample = self.samples[at]
        if isinstance(sample, dict):
            self.samples[at] = self.fail(error, self.numbers[at], sample[KEY], field)

    def _stored(self, field: str, is_stored: Callable[[Any], bool]) -> dict[int, Any]:
        """The samples of which a field is not decoded yet, with what is stored."""
        values = [sample.get(field) if isinstance(sample, dict) else None for sample in self.samples]
        return {at: value for at, value in enumerate(values) if is_stored(value)}

    def _decode_images(self, step: FieldTransforms, plan: DecodePlan, reducing_gap: float | None) -> set[int]:
        """Decode the images of a field, transformed by the plan. Returns the samples that had one."""
        field, stored, reading = step.field, self._stored(step.field, _is_image), step.reading or ImageReading()
        geometries: dict[int, Geometry] = {}
        for at, data in stored.items():
            try:
                geometries[at] = plan.geometry(*image_size(data, orient=reading.orient), self.rngs[at])
            except Exception as error:
                self._fail(at, error, field)
        shape = _shape(plan)
        batch = None if self.slots is None or step.rest else self.slots.array(field, shape, plan.dtype)
        for run in [list(geometries)] if batch is None else _neighbours(geometries):
            last = self.first + run[-1] + 1 if run else self.first
            out = np.empty((len(run), *shape), plan.dtype) if batch is None else batch[self.first + run[0] : last]
            datas, those = [stored[at] for at in run], [geometries[at] for at in run]
            problems = decode_into(
                plan, datas, those, out, reducing_gap=reducing_gap, orient=reading.orient, tolerant=reading.tolerant
            )
            for number, at in enumerate(run):
                sample = self.samples[at]
                if number in problems:
                    self._fail(at, problems[number], field)
                elif isinstance(sample, dict):
                    sample[field] = out[number]
                    if batch is not None and self.slots is not None:
                        self.slots.fill(field, self.first + at)
        return set(stored)

    def _decode_whole(self, field: str, reading: ImageReading) -> None:
        """Decode the images of a field, plain or a sequence, that the dataset has left to be read in another way."""
        for at, stored in self._stored(field, lambda value: _is_image(value) or _is_sequence(value)).items():
            sample = self.samples[at]
            try:
                if isinstance(sample, dict):
                    several = isinstance(stored, list)
                    images = [decode_image(data, reading) for data in (stored if several else [stored])]
                    sample[field] = images if several else images[0]
            except Exception as error:
                self._fail(at, error, field)

    def _decode_frames(
        self, step: FieldTransforms, frames: EachFrame, plan: DecodePlan, reducing_gap: float | None
    ) -> set[int]:
        """Decode the sequences of a field, each frame transformed by the plan. Returns the samples that had one."""
        field, reading = step.field, step.reading or ImageReading()
        stored = self._stored(field, _is_sequence)
        for at, datas in stored.items():
            sample = self.samples[at]
            shape = (len(datas), *_shape(plan))
            batch = None if self.slots is None or plan.rest else self.slots.sequences(field, shape, plan.dtype)
            out = np.empty(shape, plan.dtype) if batch is None else batch[self.first + at]
            try:
                if isinstance(sample, dict):
                    sample[field] = _decode_sequence(frames, plan, datas, self.rngs[at], reducing_gap, reading, out)
                    if batch is not None and self.slots is not None:
                        self.slots.fill(field, self.first + at)
            except Exception as error:
                self._fail(at, error, field)
        return set(stored)


def _decode_sequence(
    frames: EachFrame,
    plan: DecodePlan,
    datas: Sequence[Any],
    rng: np.random.Generator | None,
    gap: float | None,
    reading: ImageReading,
    out: npt.NDArray[Any],
) -> list[npt.NDArray[Any]]:
    if not datas:
        return []
    sizes = (image_size(data, orient=reading.orient) for data in datas)
    geometries = frame_geometries(frames, plan, sizes, rng)
    options = {"orient": reading.orient, "tolerant": reading.tolerant}
    for number, problem in decode_into(plan, datas, geometries, out, reducing_gap=gap, **options).items():
        raise CodecError(f"element {number}: {problem}", **problem.details)
    if not plan.rest:
        return list(out)
    calls = tuple(map(Call.of, plan.rest))
    return [_apply(calls, frame, None, "") for frame in out]


def _apply(calls: Sequence[Call], value: Any, rng: np.random.Generator | None, field: str) -> Any:
    for call in calls:
        try:
            value = call.function(value, rng=rng) if call.random else call.function(value)
        except Exception as error:
            error.add_note(f"in the transform {call.function!r} of field {field!r}")
            raise
    return value


def _is_image(value: Any) -> bool:
    return isinstance(value, bytes)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_image, value))


def _shape(plan: DecodePlan) -> tuple[int, ...]:
    """Of one image. Grey images fill three channels, so that they go into one batch with those in colour."""
    if plan.size is None:
        raise ValueError("images without a common size are not decoded into one array")
    return plan.array_shape(1, plan.size, 3 if plan.normalise is None else len(plan.normalise.mean))[1:]


def _neighbours(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Cut ascending numbers where some are left out."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        yield [number for _, number in group]
