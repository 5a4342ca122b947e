"""Decoding and transforming a few samples of a batch at a time, straight into the rows of the batch arrays.

A `MicroBatch` carries out the plan of `bushel.loader.decode.sample_transforms` for samples that fit
into the CPU caches together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from bushel._dataset.read.reader import KNOWN_TYPES
from bushel._index.part_plan import warn_of_refused
from bushel._runtime.arrays import I32, as_array
from bushel.codecs.image import ImageReading, Seekable, decode_image
from bushel.loader.read.batch_arrays import BatchArrays, FieldRows, is_large
from bushel.loader.values.bad_samples import failure_of
from bushel.loader.values.collate import Sample
from bushel.spec import KEY
from bushel.transforms import EachFrame
from bushel.transforms.fused import (
    ENCODED,
    DecodePlan,
    bytes_of,
    decode_into,
    image_size,
    is_upright,
)
from bushel.transforms.values import Call, apply_calls, checked, named, note_once

from .moving import Drawn, decode_sequence, decoded_and_moved, draw_together, is_sequence
from .sample_transforms import FieldTransforms, SampleDraws, SampleTransforms

if TYPE_CHECKING:
    from bushel.loader.device.device_step import DeviceStep
    from bushel.loader.read.loadable import Loadable


# stored bytes that are decoded before they are transformed, so that caches hold them
_MICRO_BATCH_BYTES = 1 << 16


def micro_batches(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut samples of these sizes into micro-batches: many small samples, or one large one.

    Yields:
        Start and end of each micro-batch.
    """
    start = size = 0
    for number, nbytes in enumerate(sizes):
        if number > start and size + nbytes > _MICRO_BATCH_BYTES:
            yield start, number
            start, size = number, 0
        size += nbytes
    if start < len(sizes):
        yield start, len(sizes)


class MicroBatch(Struct, frozen=True):
    """Consecutive samples of a batch that are decoded and transformed together.

    Attributes:
        samples: The decoded samples, which change in place. Images with fused transforms are still
            stored bytes.
        numbers: Their positions in the dataset.
        rngs: Their random numbers.
        first: Row of the first sample in the batch.
        transforms: Their transforms.
        arrays: The arrays of the batch; None if it has none.
        dataset: The dataset, for errors and warnings.
        device: Decodes images on a device; None if the CPU decodes all.
        refused: Grows by an element for each image whose seek table does not fit.
        decoded: The rows of fields that images are decoded into.
    """

    samples: list[Any]
    numbers: Sequence[int]
    rngs: SampleDraws
    first: int
    transforms: SampleTransforms
    arrays: BatchArrays | None
    dataset: Loadable
    device: DeviceStep | None = None
    refused: list[int] = []
    decoded: dict[str, FieldRows] = {}

    def apply(self) -> float:
        """Apply all transforms, and write the results into the arrays.

        Returns:
            Seconds spent decoding images.
        """
        decoding = sum(map(self._transform, self.transforms.fields))
        if self.transforms.sample is not None:
            self._transform_samples(self.transforms.sample)
        self._write_rows()
        return decoding

    def _transform(self, step: FieldTransforms) -> float:
        """Transform one field of the samples that have it.

        Returns:
            Seconds spent decoding images.
        """
        if step.images and step.plan is not None:
            return self._move(step, step.plan)
        started = perf_counter()
        fused: set[int] = set()
        if step.plan is not None:
            if step.frames is None:
                fused = self._decode_images(step.field, step, step.plan)
            else:
                fused = self._decode_frames(step, step.frames, step.plan)
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
        for at, sample in self._good():
            calls, random = step.calls, every
            if at in fused:
                calls, random = step.rest, rest
            if drawn is not None and at in drawn:
                calls = drawn[at].calls(calls)
            if calls and field in sample:
                try:
                    rng = self.rngs[at] if random else None
                    sample[field] = apply_calls(calls, sample[field], rng, field)
                except Exception as error:
                    self._fail(at, error)

    def _move(self, step: FieldTransforms, plan: DecodePlan) -> float:
        """Transform fields that move together: draw a geometry per sample, and apply it to all of them.

        Returns:
            Seconds spent decoding images.
        """
        reading = step.reading or ImageReading()
        drawn: dict[int, Drawn] = {}
        for at, sample in self._good():
            try:
                if (together := draw_together(step, plan, sample, self.rngs[at])) is not None:
                    drawn[at] = together
                    sample.update(together.fields)
            except Exception as error:
                self._fail(at, error)
        started = perf_counter()
        for name in step.images:
            fused = set[int]()
            if plan.size is not None and self._stored(name):
                fused = self._decode_images(name, step, plan, drawn)
            for at, sample in self._good():
                if at in drawn and at not in fused:
                    try:
                        geometry = drawn[at].geometry
                        sample[name] = decoded_and_moved(sample[name], geometry, reading)
                    except Exception as error:
                        self._fail(at, error, name)
            self._call(name, step, fused, drawn)
        return perf_counter() - started

    def _transform_samples(self, call: Call) -> None:
        """Apply the transform of whole samples, which may return other fields."""
        for at, sample in self._good():
            key = {KEY: sample[KEY]}
            try:
                returned = call(sample, self.rngs[at] if call.random else None)
                self.samples[at] = key | checked(returned, dict) | key
            except Exception as error:
                note_once(error, f"in the sample_transform {named(call.function)}")
                self.samples[at] = failure_of(self.dataset, error, self.numbers[at], key[KEY])

    def _write_rows(self) -> None:
        """Copy large arrays into their rows, for the fields in which the first sample has one."""
        good = self._good()
        if self.arrays is None or not good:
            return
        rows = slice(self.first, self.first + len(self.samples))
        for name, value in list(good[0][1].items()):
            if type(value) in KNOWN_TYPES:
                continue
            if name in self.decoded and all(self.decoded[name].filled[rows]):
                continue
            if self._device_of(name) is not None:  # which collates them itself
                continue
            if not is_large(as_array(value)):
                continue
            for at, sample in good:
                if is_large(array := as_array(sample.get(name))):
                    in_row = self.arrays.put(name, self.first + at, array)
                    # a tensor without a row stays a tensor
                    sample[name] = sample[name] if in_row is array else in_row

    def _good(self) -> list[tuple[int, Sample]]:
        """Return the samples that are not bad, each with its place."""
        return [(at, sample) for at, sample in enumerate(self.samples) if isinstance(sample, dict)]

    def _fail(self, at: int, error: Exception, field: str | None = None) -> None:
        key = self.samples[at][KEY]
        self.samples[at] = failure_of(self.dataset, error, self.numbers[at], key, field)

    def _refuse(self, field: str, places: Sequence[int]) -> None:
        """Count the images at these places as images with wrong seek tables."""
        self.refused.extend(places)
        for at in places[:1]:
            warn_of_refused(self.dataset.location(self.numbers[at], field)[0])

    def _stored(self, field: str) -> dict[int, Any]:
        """Return the stored images of a field, by place, of the samples in which it is not decoded."""
        return {
            at: sample[field]
            for at, sample in self._good()
            if isinstance(sample.get(field), ENCODED)
        }

    def _rows_of(
        self, field: str, step: FieldTransforms, plan: DecodePlan, *frames: int
    ) -> FieldRows | None:
        """Return the rows that images of a field are decoded into; None if they have arrays of their own.

        Sequences have a number of frames.
        """
        # what other transforms return is written into the rows: images must not be there before
        if self.arrays is None or self.transforms.sample is not None or step.rest:
            return None
        rows = None
        if step.frames is None:
            rows = self.arrays.rows(field, plan.shape, plan.dtype)
        elif not plan.rest:
            rows = self.arrays.sequences(field, (*frames, *plan.shape), plan.dtype)
        if rows is not None:
            self.decoded[field] = rows
        return rows

    def _device_of(self, field: str) -> DeviceStep | None:
        """Return the device that decodes images of a field, if any does."""
        if self.device is not None and field in self.device.plans:
            return self.device
        return None

    def _decode_images(
        self,
        field: str,
        step: FieldTransforms,
        plan: DecodePlan,
        drawn: Mapping[int, Drawn] | None = None,
    ) -> set[int]:
        """Decode the images of a field, transformed by the plan. Return the places of the samples that have one.

        Geometries that are `drawn` already are taken from there.
        """
        reading = step.reading or ImageReading()
        stored = self._stored(field)
        tables = {at: value.table for at, value in stored.items() if isinstance(value, Seekable)}
        if tables:
            stored = {at: bytes_of(value) for at, value in stored.items()}
        device = self._device_of(field)
        places, rows = self._draw(field, plan, stored, drawn, exif_rotate=reading.exif_rotate)
        if not places:
            return set(stored)
        batch = None
        if device is None:
            batch = self._rows_of(field, step, plan)
        else:
            plan = device.host_plan(field)
        started, spent, decoded = perf_counter(), thread_time(), 0
        runs = [places]
        # the rows of samples without an image, or with a bad one, are left out
        if batch is not None and len(places) < len(self.samples):
            runs = _consecutive(places)
        for run in runs:
            if batch is None:
                out = np.empty((len(run), *plan.shape), plan.dtype)
            else:
                out = batch.array[self.first + run[0] : self.first + run[-1] + 1]
            refused: list[int] = []
            errors = decode_into(
                plan,
                [stored[at] for at in run],
                rows[decoded : decoded + len(run)],
                out,
                reducing_gap=self.transforms.reducing_gap,
                reading=reading,
                seek_tables=[tables.get(at) for at in run] if tables else None,
                refused=refused,
            )
            decoded += len(run)
            self._refuse(field, [run[number] for number in refused])
            for number, (at, pixels) in enumerate(zip(run, out, strict=True)):
                if number in errors:
                    self._fail(at, errors[number], field)
                    continue
                self.samples[at][field] = pixels
                if batch is not None:
                    batch.filled[self.first + at] = 1
        if device is not None:
            device.tuning.on_host(perf_counter() - started, thread_time() - spent)
        return set(stored)

    def _draw(
        self,
        field: str,
        plan: DecodePlan,
        stored: Mapping[int, Any],
        drawn: Mapping[int, Drawn] | None,
        *,
        exif_rotate: bool,
    ) -> tuple[list[int], I32]:
        """Draw the geometries of images. Return the places of those to decode, and a row for each.

        A kernel draws what it can. The errors of images that have none are raised in Python. Images
        that are left to the device have no row.
        """
        device = self._device_of(field)
        places = list(stored)
        left: Sequence[int] = range(len(places))
        rows = np.zeros((len(places), 10), np.int32)
        if plan.program is not None and drawn is None and device is None:
            datas = list(stored.values())
            rows, left = self.rngs.crops(places, datas, plan.program, exif_rotate=exif_rotate)
        without = list[int]()
        for number in left:
            at = places[number]
            data = stored[at]
            try:
                if drawn is not None:
                    geometry = drawn[at].geometry
                else:
                    size = image_size(data, exif_rotate=exif_rotate)
                    geometry = plan.geometry(*size, self.rngs[at])
                rows[number] = geometry.row
            except Exception as error:
                self._fail(at, error, field)
                without.append(number)
                continue
            if (
                device is not None
                and device.routes(self.numbers[at], data, geometry)
                and not (exif_rotate and not is_upright(data))
            ):
                self.samples[at][field] = device.image(data, geometry)
                without.append(number)
        if without:
            rows = np.delete(rows, without, 0)
            places = np.delete(places, without).tolist()
        return places, rows

    def _decode_whole(self, field: str, reading: ImageReading) -> None:
        """Decode the images of a field, plain or a sequence, that the dataset left as stored bytes."""
        for at, sample in self._good():
            stored: Any = sample.get(field)
            try:
                if isinstance(stored, ENCODED):
                    sample[field] = decode_image(bytes_of(stored), reading)
                elif is_sequence(stored):
                    sample[field] = [decode_image(bytes_of(data), reading) for data in stored]
            except Exception as error:
                self._fail(at, error, field)

    def _decode_frames(
        self, step: FieldTransforms, frames: EachFrame, plan: DecodePlan
    ) -> set[int]:
        """Decode the frames of a field, transformed by the plan. Return the places of the samples that have them."""
        field, reading = step.field, step.reading or ImageReading()
        gap = self.transforms.reducing_gap
        places = set[int]()
        for at, sample in self._good():
            stored: Any = sample.get(field)
            if not is_sequence(stored):
                continue
            places.add(at)
            batch = self._rows_of(field, step, plan, len(stored))
            if batch is None:
                out = np.empty((len(stored), *plan.shape), plan.dtype)
            else:
                out = batch.array[self.first + at]
            refused: list[int] = []
            try:
                sample[field] = decode_sequence(
                    frames, plan, stored, self.rngs[at], gap, reading, out, refused
                )
                self._refuse(field, [at] * len(refused))
                if batch is not None:
                    batch.filled[self.first + at] = 1
            except Exception as error:
                self._fail(at, error, field)
        return places


def _consecutive(places: Sequence[int]) -> list[list[int]]:
    """Cut ascending places into runs of consecutive ones."""
    borders = np.flatnonzero(np.diff(places) != 1) + 1
    return [run.tolist() for run in np.split(np.array(places), borders)]
