"""The one way from values and stored bytes to what the writer takes, for every source.

What happens to a field is decided before, by its `FieldPlan`: its bytes are copied, or a value is
encoded. Where nothing of single samples is changed or looked into, whole batches pass as columns.
An `Encoder` is a plain value that works in threads and, pickled, in worker processes. It does not
raise: an item that cannot be packed becomes a `BadItem`.
"""

from __future__ import annotations

import pickle
import queue
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.names import with_numbers
from bushel._kinds import IMAGES
from bushel._runtime.arrays import I64, NO_NUMBERS
from bushel._runtime.processes import WorkerProcess, answer, pickle_for_worker, portable
from bushel._writer.sample_values import check_list
from bushel.codecs import Buffer, get_codec, holds_image
from bushel.codecs.base import codec_error, found_bytes, refused
from bushel.codecs.extensions import storing_codec
from bushel.codecs.image import ImageReading, as_pixels, decode_image
from bushel.containers.stored_column import StoredColumn
from bushel.errors import CodecError, FormatError, SpecError
from bushel.jpeg import baseline, tile
from bushel.sources.arrays import taken
from bushel.spec import KEY

from .feeds import Batch, Feed
from .field_plan import FieldPlan, base_codec, image_kind

if TYPE_CHECKING:  # packing without transforms imports none
    from .field_steps import FieldSteps

_BYTES = (bytes, bytearray, memoryview)
_REWRITE: Mapping[str, Callable[[Buffer], bytes]] = {"tile": tile, "baseline": baseline}
"""How JPEGs are written again, without loss, by the treatment of images."""


class EncodedSample(Struct, frozen=True):
    """A sample as the writer stores it."""

    position: int  # position in the source
    key: str | None
    values: dict[str, Any]  # field to stored bytes, or to a list of them
    size: int  # number of stored bytes


class EncodedColumns(Struct, frozen=True):
    """Samples as `DatasetWriter.write_columns` takes them."""

    positions: I64  # int64[n], positions in the source
    columns: Mapping[str, Any]  # field to column
    keys: Sequence[str] | None

    @property
    def size(self) -> int:
        """Number of stored bytes in them."""
        return sum(map(_stored_size, self.columns.values()))

    def rows(self, first: int, last: int) -> EncodedColumns:
        """Return some of the samples."""
        if last - first == len(self.positions):
            return self
        rows = slice(first, last)
        columns = {name: taken(column, rows) for name, column in self.columns.items()}
        return EncodedColumns(self.positions[rows], columns, self.keys and self.keys[rows])


class BadItem(Struct, frozen=True):
    """An item that cannot be packed."""

    size: ClassVar[int] = 0
    position: int
    key: str | None
    path: str | None
    error: Exception


Result = EncodedSample | EncodedColumns | BadItem


def encoded_bytes(results: Sequence[Result]) -> int:
    """Return the number of bytes that encoded samples hold."""
    return sum(result.size for result in results)


class Encoder(Struct, frozen=True):
    """Turns items of a source into stored values."""

    feed: Feed
    # by the name of the field in the source
    plans: Mapping[str, FieldPlan]
    # transforms by the name of the field in the target
    steps: Mapping[str, FieldSteps]
    seed: int  # seed of the transforms' randomness
    images: frozenset[str]  # the treatments of images: see `bushel.pack`
    keyed: bool  # whether samples keep their keys
    # whether batches pass as columns: the source has them, and no sample is changed or looked into
    by_columns: bool = False

    def __call__(self, batch: Batch) -> Sequence[Result]:
        """Encode the samples of a batch."""
        if self.by_columns:
            return self._columns(batch)
        return self.one_by_one(batch)

    @property
    def in_memory(self) -> bool:
        """Whether batches are columns in memory, which need neither threads nor processes."""
        return self.by_columns and self.feed.of_source and self.feed.file_field is None

    def one_by_one(self, batch: Batch) -> list[EncodedSample | BadItem]:
        """Encode each sample of a batch alone."""
        return [self._encoded(*arrived) for arrived in self.feed.samples(batch)]

    # Columns

    def _columns(self, batch: Batch) -> list[Result]:
        """Encode a batch as columns. Samples that do not fit, or that come one by one, are encoded alone."""
        positions, results = np.asarray(batch, np.int64), list[Result]()
        while len(positions):
            arrived = self.feed.columns(positions)
            if arrived is None:
                return results + self.one_by_one(positions)
            columns = {self.plans[name].target.name: column for name, column in arrived[0].items()}
            keys = arrived[1] if self.keyed else None
            count = len(next(iter(columns.values())))
            arrived_samples = EncodedColumns(positions[:count], columns, keys)
            file_field, strange = self.feed.file_field, NO_NUMBERS
            if file_field is not None and holds_image(self.plans[file_field].codec):
                strange = self.plans[file_field].looked_into(arrived[0][file_field])
            first = 0
            for row in strange.tolist():
                if first < row:
                    results.append(arrived_samples.rows(first, row))
                results += self.one_by_one(positions[row : row + 1])
                first = row + 1
            if first < count:
                results.append(arrived_samples.rows(first, count))
            if not count:
                results += self.one_by_one(positions[:1])
            positions = positions[max(count, 1) :]
        return results

    # Samples

    def _encoded(self, position: int, key: str | None, sample: Any) -> EncodedSample | BadItem:
        try:
            if isinstance(sample, Exception):
                raise sample  # noqa: TRY301
            if not isinstance(sample, Mapping):
                raise SpecError(f"a sample must be a dict of fields, not {type(sample).__name__}")  # noqa: TRY301
            key = sample.get(KEY)
            values, size = dict[str, Any](), 0
            for name, value in sample.items():
                plan = self.plans.get(name)
                if plan is not None:
                    values[plan.target.name] = self._value(plan, position, key, value)
                elif name != KEY:
                    values[name] = value  # the writer refuses it
        except Exception as error:
            file = getattr(error, "filename", None)
            path = self.feed.origin(position) or (file and str(file))
            if isinstance(error, FormatError) and None not in (error.file, error.offset):
                path = f"{error.file}@{error.offset}"
            return BadItem(position, key, path, error)
        for plan in self.plans.values():
            stored = values.get(plan.target.name)
            if isinstance(stored, list):
                size += sum(map(len, stored))
            elif stored is not None:
                size += len(stored)
        return EncodedSample(position, key if self.keyed else None, values, size)

    def _value(self, plan: FieldPlan, position: int, key: str | None, value: Any) -> Any:
        """Return the stored form of the value of a field: bytes, or a list of them.

        Raises:
            SpecError: A sequence is not a list, or lacks the one element that a plain field needs.
            CodecError: The target's codec cannot hold a value.
        """
        if value is None and self.feed.of_source:
            return None
        if plan.classes:
            value = with_numbers(value, plan.classes)
        elements, source, target = [value], plan.source, plan.target
        if source.sequence:
            elements = value
            check_list(source, value)
            if not target.sequence and len(elements) != 1:
                raise SpecError(
                    f"sample {key!r} has {len(elements)} elements in field {source.name!r}, but a "
                    f"plain {target.codec} needs exactly one: keep the sequence, {target.codec}[]"
                )
        try:
            stored = [self._element(plan, position, element) for element in elements]
        except CodecError as error:
            transformed = target.name in self.steps
            from_source = plan.copied or (self.feed.of_source and isinstance(value, _BYTES))
            if from_source and not transformed:
                raise
            place = f"field {target.name!r}"
            if transformed:
                place += f" after its transforms (spec={{{target.name!r}: TYPE}} names their type)"
            if not self.feed.of_source:
                place = f"sample {key!r}, {place}"
            raise CodecError(f"{place}: {error}", **error.details) from error
        rewrite = next((_REWRITE[form] for form in _REWRITE if form in self.images), None)
        if rewrite is not None and plan.holds_jpegs:
            stored = [self._rewritten(rewrite, key, target.name, data) for data in stored]
        return stored if target.sequence else stored[0]

    def _element(self, plan: FieldPlan, position: int, value: Any) -> Any:
        """Return a value of a plain field, or an element of a sequence, as it is stored, after its transforms."""
        codec, steps = plan.codec, self.steps.get(plan.target.name)
        upright = "upright" in self.images
        # what a dataset decoded may be bytes, too
        is_stored = isinstance(value, _BYTES) and (plan.copied or self.feed.of_source)
        looks_into_images = upright or "check" in self.images or not plan.any_image
        looked_into = steps or (looks_into_images and holds_image(codec))
        if is_stored and not self.feed.of_source and not looked_into:
            return value
        if is_stored and upright and holds_image(codec):
            from bushel.transforms.fused import is_upright  # as for transforms

            kind = image_kind(value)
            if kind is not None and not is_upright(value):
                if codec == "image" or plan.any_image:
                    codec = kind
                value, is_stored = decode_image(value, ImageReading(exif_rotate=True), codec), False
        elif not is_stored:
            if isinstance(value, plan.unlike):
                advice = f"spec={{{plan.source.name!r}: TYPE}} names the type of all"
                raise refused(codec, f"a value like the first one ({advice})", value)
            value = as_pixels(value, exif_rotate=upright)
        if steps is not None:
            # packing without transforms needs nothing of it
            from bushel.loader.decode.sample_transforms import generator

            generators = partial(generator, self.seed, 0, position)
            apply = partial(steps.on_stored, plan.given) if is_stored else steps.on_value
            changed = apply(value, generators)
            if changed is not value:
                if isinstance(changed, _BYTES):
                    return changed
                value, is_stored = changed, False
        if not is_stored:
            return storing_codec(plan.target.codec, codec).encode(value)
        if holds_image(codec):
            return self._image(plan, value)
        if plan.given == codec:
            return value
        return storing_codec(plan.target.codec, codec).encode(get_codec(plan.given).decode(value))

    def _image(self, plan: FieldPlan, data: Buffer) -> Buffer:
        """Return an image file unchanged if the field stores such files, else in the codec of the field."""
        codec, kind_of_file = get_codec(plan.codec), image_kind(data)
        if kind_of_file is None:
            raise codec_error(plan.codec, f"an image ({', '.join(IMAGES)})", found_bytes(data))
        fits = base_codec(plan.codec) in ("image", kind_of_file)
        if fits and "check" not in self.images:
            return data
        pixels = codec.decode(data)
        if fits or plan.any_image:
            return data
        return codec.encode(pixels)

    def _rewritten(
        self, rewrite: Callable[[Buffer], bytes], key: str | None, field: str, data: Buffer
    ) -> Buffer:
        """Return a JPEG in its new form, and other images as they are. Raise CodecError if it is damaged."""
        if image_kind(data) not in ("jpg", None):
            return data
        try:
            return rewrite(data)
        except CodecError as error:
            what = f"field {field!r}: {error}"
            if not self.feed.of_source:
                what = f"sample {key!r}, {what}. max_errors=... skips such samples"
            raise CodecError(what, **{**error.details, "field": field}) from error


def _stored_size(column: Any) -> int:
    if isinstance(column, StoredColumn):
        return len(column.content)
    if isinstance(column, list):
        return sum(len(value) for value in column if isinstance(value, _BYTES))
    return 0


class WorkerPool:
    """Worker processes that call an `Encoder`, from any number of threads.

    Raises:
        TypeError: It cannot be pickled; the message names the reason.
    """

    def __init__(self, encoder: Encoder, processes: int) -> None:
        job = pickle_for_worker(encoder, "the source and the transforms")
        self._workers: list[WorkerProcess] = []
        self._free: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        try:
            for _ in range(processes):
                self._workers.append(WorkerProcess("bushel._pack.encoder"))
            for worker in self._workers:
                worker.send(job)
                self._free.put(worker)
        except BaseException:
            self.close()
            raise

    def __call__(self, batch: Batch) -> list[EncodedSample | BadItem]:
        """Encode a batch in a worker process. Raise WorkerDiedError if the process died."""
        worker = self._free.get()
        try:
            worker.send(pickle.dumps(batch, 5))
            message, _ = worker.receive()
            results: list[EncodedSample | BadItem] = pickle.loads(message)
            return results
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End the worker processes, which must be idle."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join()


def serve(descriptor: int) -> None:
    """Run a worker process: encode batches for the parent at the other end of this socket until it closes its end."""
    answer(
        descriptor,
        lambda encoder, batch: list(map(_portable, encoder.one_by_one(pickle.loads(batch)))),
    )


def _portable(result: EncodedSample | BadItem) -> EncodedSample | BadItem:
    """Return a result that can be pickled: views of memory as bytes, and an error that survives pickling."""
    if isinstance(result, EncodedSample):
        values = {name: _plain(value) for name, value in result.values.items()}
        return replace(result, values=values)
    return replace(result, error=portable(result.error))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value
