"""Decoding and transforming a few samples of a batch at a time, straight into the rows of the batch arrays.

A `MicroBatch` carries out the plan of `bushel.loader.decode.sample_transforms` for samples that fit
into the CPU caches together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from bushel._dataset.read.decoding import KNOWN_TYPES
from bushel._index.part_plan import warn_of_refused
from bushel._runtime.arrays import I32
from bushel.codecs.image import ImageReading, Seekable, decode_image
from bushel.codecs.parts import Part
from bushel.loader.read.batch_arrays import BatchArrays, is_large
from bushel.loader.read.loadable import Loadable, failure_of
from bushel.loader.values.bad_samples import Failure, apply_calls, checked, named, note_once
from bushel.loader.values.collate import Sample, as_array
from bushel.loader.values.generator import SampleDraws
from bushel.spec import KEY
from bushel.transforms import EachFrame
from bushel.transforms.fused import (
    DecodePlan,
    bytes_of,
    decode_into,
    geometry_rows,
    image_size,
    is_image,
    is_upright,
)
from bushel.transforms.spatial import Geometry
from bushel.transforms.values import Call

from .moving import Drawn, decode_sequence, decoded_and_moved, draw_together, is_sequence
from .sample_transforms import FieldTransforms, SampleTransforms

if TYPE_CHECKING:
    from bushel.loader.device.device_step import DeviceStep

# stored bytes that are decoded before they are transformed, so that caches hold them
_MICRO_BATCH_BYTES = 1 << 16


def micro_batches(
    stored: Sequence[Sample | Failure], fused: frozenset[str]
) -> Iterator[tuple[int, int]]:
    """Cut samples into micro-batches: many small samples, or one large one.

    Args:
        stored: The samples.
        fused: Fields that do not count, since they are decoded straight into the batch.

    Yields:
        Start and end of each micro-batch.
    """
    start = size = 0
    for number, sample in enumerate(stored):
        nbytes = 0 if isinstance(sample, Failure) else stored_bytes(sample, fused)
        if number > start and size + nbytes > _MICRO_BATCH_BYTES:
            yield start, number
            start, size = number, 0
        size += nbytes
    if start < len(stored):
        yield start, len(stored)


def stored_bytes(sample: Sample, without: Collection[str] = ()) -> int:
    """Return the size of the stored values of a sample, in bytes. Values that the index had count as nothing."""
    total = 0
    for name, value in sample.items():
        if name not in without:
            total += len(value) if type(value) is bytes else _stored_size(value)
    return total


def stored_sizes(samples: Iterable[Sample | Failure], fused: frozenset[str]) -> tuple[int, int]:
    """Return the size of all stored values of samples, in bytes, and of all that are not `fused`."""
    total = unfused = 0
    for sample in samples:
        if not isinstance(sample, Failure):
            for name, value in sample.items():
                nbytes = len(value) if type(value) is bytes else _stored_size(value)
                total += nbytes
                if name not in fused:
                    unfused += nbytes
    return total, unfused


def _stored_size(value: Any) -> int:
    if type(value) is memoryview:
        return value.nbytes
    # nor is the key
    if type(value) in KNOWN_TYPES:
        return 0
    return count_bytes(value)


class MicroBatch(Struct, frozen=True):
    """Consecutive samples of a batch that are decoded and transformed together.

    Attributes:
        samples: The decoded samples, which change in place. Images with fused transforms are still
            stored bytes.
        numbers: Their positions in the dataset.
        rngs: Their random numbers.
        first: Row of the first sample in the batch.
        arrays: The arrays of the batch; None if it has none.
        dataset: The dataset, for errors and warnings.
        refused: Grows by an element for each such image.
        device: Decodes images on a device; None if the CPU decodes all.
    """

    samples: list[Sample | Failure]
    numbers: Sequence[int]
    rngs: SampleDraws
    first: int
    arrays: BatchArrays | None
    dataset: Loadable
    refused: list[int] = []
    device: DeviceStep | None = None

    def apply(self, transforms: SampleTransforms, arrays: BatchArrays | None) -> float:
        """Apply all transforms, and write the results into these arrays.

        Returns:
            Seconds spent decoding images.
        """
        decoding = 0.0
        for step in transforms.fields:
            decoding += self.transform(step, transforms.reducing_gap)
        if transforms.sample is not None:
            self.transform_samples(transforms.sample)
        self.write_rows(arrays)
        return decoding

    def transform(self, step: FieldTransforms, reducing_gap: float | None) -> float:
        """Transform one field of the samples that have it.

        Returns:
            Seconds spent decoding images.
        """
        if step.images and step.plan is not None:
            return self._move(step, step.plan, reducing_gap)
        started = perf_counter()
        fused: set[int] = set()
        if step.plan is not None:
            if step.frames is None:
                fused = self._decode_images(step.field, step, step.plan, reducing_gap)
            else:
                fused = self._decode_frames(step, step.frames, step.plan, reducing_gap)
        elif step.reading is not None:
            self._decode_whole(step.field, step.reading)
        decoding = perf_counter() - started
        self._call(step.field, step, fused)
        return decoding

    def _call(
        self,
        field: str,
        step: FieldTransforms,
        fused: Collection[int],
        drawn: Mapping[int, Drawn] | None = None,
    ) -> None:
        """Apply the transforms of a field that are not fused into decoding, or not at these places."""
        if not step.rest and len(fused) == len(self.samples):
            return
        rest, every = (any(call.random for call in calls) for calls in (step.rest, step.calls))
        for at, sample in enumerate(self.samples):
            if at in fused:
                calls, random = step.rest, rest
            else:
                calls, random = step.calls, every
            if drawn is not None and at in drawn:
                calls = drawn[at].calls(calls)
            if calls and isinstance(sample, dict) and field in sample:
                try:
                    sample[field] = apply_calls(
                        calls, sample[field], self.rngs[at] if random else None, field
                    )
                except Exception as error:
                    self._fail(at, error)

    def _move(self, step: FieldTransforms, plan: DecodePlan, reducing_gap: float | None) -> float:
        """Transform fields that move together: draw a geometry per sample, and apply it to all of them.

        Returns:
            Seconds spent decoding images.
        """
        reading = step.reading or ImageReading()
        drawn: dict[int, Drawn] = {}
        for at, sample in enumerate(self.samples):
            if isinstance(sample, dict):
                try:
                    if (together := draw_together(step, plan, sample, self.rngs[at])) is not None:
                        drawn[at] = together
                        sample.update(together.fields)
                except Exception as error:
                    self._fail(at, error)
        started = perf_counter()
        for name in step.images:
            fused = set[int]()
            if plan.size is not None and self._stored(name, is_image):
                fused = self._decode_images(name, step, plan, reducing_gap, drawn)
            for at, moved in drawn.items():
                sample = self.samples[at]
                if at not in fused and isinstance(sample, dict):
                    try:
                        sample[name] = decoded_and_moved(sample[name], moved.geometry, reading)
                    except Exception as error:
                        self._fail(at, error, name)
            self._call(name, step, fused, drawn)
        return perf_counter() - started

    def transform_samples(self, call: Call) -> None:
        """Apply the transform of whole samples, which may return other fields."""
        for at, sample in enumerate(self.samples):
            if not isinstance(sample, dict):
                continue
            key = sample[KEY]
            try:
                if call.random:
                    returned = call.function(sample, rng=self.rngs[at])
                else:
                    returned = call.function(sample)
                self.samples[at] = {KEY: key} | checked(returned, dict) | {KEY: key}
            except Exception as error:
                note_once(error, f"in the sample_transform {named(call.function)}")
                self.samples[at] = failure_of(self.dataset, error, self.numbers[at], key)

    def write_rows(self, arrays: BatchArrays | None) -> None:
        """Copy large arrays into their rows, for the fields in which the first sample has one."""
        first = next((sample for sample in self.samples if isinstance(sample, dict)), None)
        if arrays is None or first is None:
            return
        rows = range(self.first, self.first + len(self.samples))
        large = [name for name, value in first.items() if is_large(as_array(value))]
        for name in [name for name in large if not arrays.are_filled(name, rows)]:
            for row, sample in enumerate(self.samples, self.first):
                if isinstance(sample, dict) and is_large(array := as_array(sample.get(name))):
                    in_row = arrays.put(name, row, array)
                    # a tensor without a row stays a tensor
                    sample[name] = sample[name] if in_row is array else in_row

    def _fail(self, at: int, error: Exception, field: str | None = None) -> None:
        sample = self.samples[at]
        if isinstance(sample, dict):
            self.samples[at] = failure_of(self.dataset, error, self.numbers[at], sample[KEY], field)

    def _refuse(self, field: str, places: Sequence[int]) -> None:
        """Count the images at these places as images with wrong seek tables."""
        self.refused.extend(places)
        for at in places[:1]:
            warn_of_refused(self.dataset.location(self.numbers[at], field)[0])

    def _stored(self, field: str, is_stored: Callable[[Any], bool]) -> dict[int, Any]:
        """Return the stored values of a field, by place, of the samples in which it is not decoded."""
        values = [
            sample.get(field) if isinstance(sample, dict) else None for sample in self.samples
        ]
        return {at: value for at, value in enumerate(values) if is_stored(value)}

    def _decode_images(
        self,
        field: str,
        step: FieldTransforms,
        plan: DecodePlan,
        reducing_gap: float | None,
        drawn: Mapping[int, Drawn] | None = None,
    ) -> set[int]:
        """Decode the images of a field, transformed by the plan. Return the places of the samples that have one.

        Geometries that are `drawn` already are taken from there.
        """
        reading = step.reading or ImageReading()
        stored, tables = _without_tables(self._stored(field, is_image))
        device = None
        if self.device is not None and field in self.device.plans:
            device = self.device
        if plan.program is not None and drawn is None and device is None:
            places, rows = self._draw(field, plan, stored, exif_rotate=reading.exif_rotate)
        else:
            geometries = self._geometries(
                field, plan, stored, drawn, exif_rotate=reading.exif_rotate
            )
            if device is not None:
                self._route(device, field, geometries, stored, exif_rotate=reading.exif_rotate)
                plan = device.host_plan(field)
            places, rows = list(geometries), geometry_rows(geometries.values())
        shape = _shape(plan)
        alone = step.rest or device is not None
        if self.arrays is None or alone:
            batch = None
        else:
            batch = self.arrays.array(field, shape, plan.dtype)
        started, spent, decoded = perf_counter(), thread_time(), 0
        for run in [places] if batch is None else _consecutive(places):
            last = self.first + run[-1] + 1 if run else self.first
            if batch is None:
                out = np.empty((len(run), *shape), plan.dtype)
            else:
                out = batch[self.first + run[0] : last]
            refused: list[int] = []
            errors = decode_into(
                plan,
                [stored[at] for at in run],
                rows[decoded : decoded + len(run)],
                out,
                reducing_gap=reducing_gap,
                reading=reading,
                seek_tables=[tables.get(at) for at in run] if tables else None,
                refused=refused,
            )
            decoded += len(run)
            self._refuse(field, [run[number] for number in refused])
            self._take(
                field, run, list(out) if device is None else list(map(device.on_host, out)), errors
            )
            if batch is not None and self.arrays is not None:
                self.arrays.fill(
                    field,
                    [self.first + at for number, at in enumerate(run) if number not in errors],
                )
        if device is not None and places:
            device.tuning.on_host(perf_counter() - started, thread_time() - spent)
        return set(stored)

    def _take(
        self,
        field: str,
        places: Sequence[int],
        values: Sequence[Any],
        errors: Mapping[int, Exception],
    ) -> None:
        """Put decoded images into the samples at these places, except for those with an error."""
        for number, at in enumerate(places):
            sample = self.samples[at]
            if number in errors:
                self._fail(at, errors[number], field)
            elif isinstance(sample, dict):
                sample[field] = values[number]

    def _draw(
        self, field: str, plan: DecodePlan, stored: Mapping[int, Any], *, exif_rotate: bool
    ) -> tuple[list[int], I32]:
        """Draw the geometries of images in a kernel. Return the places of the images, and a row for each.

        Images that the kernel leaves are drawn in Python, which raises the errors of those that
        have none.
        """
        places = list(stored)
        rows, left = self.rngs.crops(
            places, list(stored.values()), plan.program or (), exif_rotate=exif_rotate
        )
        if not left:
            return places, rows
        undrawn = {places[number]: stored[places[number]] for number in left}
        geometries = self._geometries(field, plan, undrawn, exif_rotate=exif_rotate)
        for number in left:
            if (geometry := geometries.get(places[number])) is not None:
                rows[number] = geometry.row
        good = [number for number, at in enumerate(places) if at in geometries or at not in undrawn]
        return [places[number] for number in good], rows[good]

    def _geometries(
        self,
        field: str,
        plan: DecodePlan,
        stored: Mapping[int, Any],
        drawn: Mapping[int, Drawn] | None = None,
        *,
        exif_rotate: bool,
    ) -> dict[int, Geometry]:
        """Return the geometries of images, by place, without those that have none. Some may be drawn already."""
        geometries: dict[int, Geometry] = {}
        for at, data in stored.items():
            try:
                if drawn is not None:
                    geometries[at] = drawn[at].geometry
                else:
                    geometries[at] = plan.geometry(
                        *image_size(data, exif_rotate=exif_rotate), self.rngs[at]
                    )
            except Exception as error:
                self._fail(at, error, field)
        return geometries

    def _route(
        self,
        device: DeviceStep,
        field: str,
        geometries: dict[int, Geometry],
        stored: dict[int, Any],
        *,
        exif_rotate: bool,
    ) -> None:
        """Leave images to the device, and remove them from `geometries`."""
        for at, geometry in list(geometries.items()):
            data, sample = stored[at], self.samples[at]
            if not device.routes(field, self.numbers[at], data, geometry) or (
                exif_rotate and not is_upright(data)
            ):
                continue
            if isinstance(sample, dict):
                sample[field] = device.left(data, geometry)
                del geometries[at]

    def _decode_whole(self, field: str, reading: ImageReading) -> None:
        """Decode the images of a field, plain or a sequence, that the dataset left as stored bytes."""
        for at, stored in self._stored(
            field, lambda value: is_image(value) or is_sequence(value)
        ).items():
            sample = self.samples[at]
            try:
                if isinstance(sample, dict):
                    several = isinstance(stored, list)
                    images = [
                        decode_image(bytes_of(data), reading)
                        for data in (stored if several else [stored])
                    ]
                    sample[field] = images if several else images[0]
            except Exception as error:
                self._fail(at, error, field)

    def _decode_frames(
        self, step: FieldTransforms, frames: EachFrame, plan: DecodePlan, reducing_gap: float | None
    ) -> set[int]:
        """Decode the frames of a field, transformed by the plan. Return the places of the samples that have them."""
        field, reading = step.field, step.reading or ImageReading()
        stored = self._stored(field, is_sequence)
        for at, datas in stored.items():
            sample = self.samples[at]
            shape = (len(datas), *_shape(plan))
            if self.arrays is None or plan.rest:
                batch = None
            else:
                batch = self.arrays.sequences(field, shape, plan.dtype)
            if batch is None:
                out = np.empty(shape, plan.dtype)
            else:
                out = batch[self.first + at]
            try:
                if isinstance(sample, dict):
                    refused: list[int] = []
                    sample[field] = decode_sequence(
                        frames, plan, datas, self.rngs[at], reducing_gap, reading, out, refused
                    )
                    self._refuse(field, [at] * len(refused))
                    if batch is not None and self.arrays is not None:
                        self.arrays.fill(field, [self.first + at])
            except Exception as error:
                self._fail(at, error, field)
        return set(stored)


def _without_tables(stored: dict[int, Any]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the bytes of stored images by place, and the seek tables of those that have one."""
    tables = {at: value.table for at, value in stored.items() if isinstance(value, Seekable)}
    return {at: bytes_of(value) for at, value in stored.items()} if tables else stored, tables


def _shape(plan: DecodePlan) -> tuple[int, ...]:
    """Return the shape of one result. Grey images fill three channels, so that they fit into a batch of RGB images."""
    if plan.size is None:
        raise ValueError(
            "the transforms give images of different sizes, which do not fit into one array"
        )
    return plan.array_shape(
        1, plan.size, 3 if plan.normalise is None else len(plan.normalise.mean)
    )[1:]


def _consecutive(numbers: Sequence[int]) -> Iterable[list[int]]:
    """Cut ascending numbers into runs of consecutive ones."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return [list(numbers)]
    groups = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    return [[number for _, number in group] for _, group in groups]


def count_bytes(value: Any) -> int:
    """Return the size of the arrays, bytes and text in a batch, in bytes."""
    if isinstance(value, np.ndarray | memoryview | Part):
        return value.nbytes
    if isinstance(value, bytes | bytearray | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(count_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(count_bytes, value))
    return 0
