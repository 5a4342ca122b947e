"""How the samples of a source arrive: a batch as columns where the source has them, or sample by sample.

A feed is a plain value that works in threads and, pickled, in worker processes. It gives stored
bytes of fields that are copied, and values of the others. An item that cannot be read becomes its
error, so that one damaged sample does not fail its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._dataset.read.reader import Reader
from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import I64, joined
from bushel._runtime.parallel import map_all
from bushel._writer.sample_values import plain_column
from bushel.codecs import NumberLayout, get_codec, holds_image, is_light
from bushel.codecs.extensions import storing_codec
from bushel.containers.stored_column import StoredColumn
from bushel.errors import CodecError, SpecError
from bushel.sources.base import REQUESTS, Sample
from bushel.spec import KEY

from .field_plan import ClassNumbers, FieldPlan, NewNumbers, renumber

Batch = I64 | list[tuple[int, Sample]]
"""Positions of a source; for a stream, positions and samples."""

Arrived = tuple[int, str | None, Any]
"""A position, the key if it is known, and the sample there or the error of reading it."""

Columns = tuple[Mapping[str, Any], Sequence[str] | None]
"""Field to column, as `DatasetWriter.write_columns` takes them, and the keys or None."""


class SourceFeed(Struct, frozen=True):
    """The samples of a source, or of a stream, whose batches contain the samples."""

    source: Any  # None for a stream
    # by the name of the field in the source
    plans: Mapping[str, FieldPlan]
    # field to the new numbers of its classes
    changes: Mapping[str, NewNumbers] = {}
    # the field of a source of local files that is read into one buffer
    file_field: str | None = None

    of_source = True

    def samples(self, batch: Batch) -> Iterator[Arrived]:
        """Yield the samples of a batch."""
        pairs: Iterable[tuple[int, Any]] = batch
        if not isinstance(batch, list):
            positions, read = batch.tolist(), self._sample_or_error
            samples: Iterable[Any] = map(read, positions)
            if getattr(self.source, "remote", False):
                samples = map_all(read, positions, threads=REQUESTS, name="bushel-fetch")
            pairs = zip(positions, samples, strict=True)
        for position, sample in pairs:
            yield position, None, self._renumbered(sample)

    def _sample_or_error(self, position: int) -> Any:
        try:
            return self.source[position]
        except Exception as error:
            return error

    def _renumbered(self, sample: Any) -> Any:
        """Return a sample with the new numbers of its classes, or the error of one that has no name."""
        if not isinstance(sample, Mapping):
            return sample
        try:
            for name, numbers in self.changes.items():
                if sample.get(name) is not None:
                    what = f"sample {sample.get(KEY)!r}, field {name!r}"
                    sample = {**sample, name: renumber(sample[name], numbers, what)}
        except SpecError as error:
            return error
        return sample

    @property
    def has_columns(self) -> bool:
        """Whether the source has columns that can be stored without work on single samples."""
        if not getattr(self.source, "has_columns", False):
            return False
        classes = type(self.source).__mro__
        [by_column, alone] = [
            next(place for place, kind in enumerate(classes) if name in vars(kind))
            for name in ("columns", "__getitem__")
        ]
        return by_column <= alone and all(
            plan.copied if name == self.file_field else plan.is_quick
            for name, plan in self.plans.items()
        )

    def columns(self, positions: I64) -> Columns | None:
        """Return the first of these samples as columns; None if each has to be read alone."""
        of_source, keys = self.source.columns(positions)
        columns: dict[str, Any] = dict(of_source)
        try:
            for name, numbers in self.changes.items():
                columns[name] = renumber(list(columns[name]), numbers, f"field {name!r}")
            for name, plan in self.plans.items():
                if name in columns:
                    columns[name] = column = plain_column(name, columns[name])
                    # an array whose codec encodes one value at a time
                    if type(column) is np.ndarray and not get_codec(plan.codec).encode_column:
                        columns[name] = column.tolist()
        except SpecError:  # a number without a name, or wrong offsets: the sample is looked for
            return None
        return columns, keys

    def origin(self, position: int) -> str | None:
        """Return the path or other origin of an item, if the source has it."""
        origin: Callable[[int], str] | None = getattr(self.source, "origin", None)
        with suppress(Exception):
            return origin and origin(position)
        return None


class DatasetFeed(Struct, frozen=True):
    """The samples of a dataset."""

    dataset: Dataset
    # by the name of the field in the source
    plans: Mapping[str, FieldPlan]
    numbers: ClassNumbers  # the new numbers of classes

    file_field = None
    of_source = False

    def samples(self, batch: Batch) -> Iterator[Arrived]:
        """Yield the samples of a batch."""
        positions = np.asarray(batch, np.int64).tolist()
        names = list(self.plans)
        try:
            self.dataset.prefetch(positions, names)
            stored = self.dataset.read(positions, names, decode=False)
        except Exception:  # it may concern one of these samples only: each is read alone
            yield from map(self._alone, positions)
            return
        numbers = self._decoded_numbers(positions, stored)
        yield from map(self._arrived, positions, stored, numbers)

    @property
    def has_columns(self) -> bool:
        """Whether values are copied, or are numbers that get another form, and classes keep their numbers."""
        if type(self.dataset.reader) is not Reader:
            return False
        if not self.plans or any(self.numbers.changes):
            return False
        return all(
            not plan.source.sequence
            and not plan.target.sequence
            and (plan.copied or _is_number(plan))
            and (plan.any_image or not holds_image(plan.codec))
            for plan in self.plans.values()
        )

    def columns(self, positions: I64) -> Columns | None:
        """Return samples as columns of stored bytes; None if each has to be read alone.

        So it is where a sample lacks a field, or where one cannot be read.
        """
        names = list(self.plans)
        try:
            if any((self.dataset.lengths(positions, name) < 0).any() for name in names):
                return None
            self.dataset.prefetch(positions, names)
            reader, samples = self.dataset.reader, self.dataset.selection.absolute(positions)
            # the bytes are written with the checksums that they were compared with
            stored = {name: StoredColumn(*reader.gather(samples, name)) for name in names}
            keys = reader.keys(samples)
            return {
                name: self._column(plan, stored[name], keys, positions)
                for name, plan in self.plans.items()
            }, keys
        except Exception:  # it may concern one of these samples only
            return None

    def _column(
        self, plan: FieldPlan, stored: StoredColumn, keys: Sequence[str], positions: I64
    ) -> StoredColumn:
        """Return a column as it is stored in the target."""
        if plan.copied:
            if is_light(plan.codec):
                decode = get_codec(plan.codec).decode
                for value in stored.values:  # a value that the target cannot read is not copied
                    decode(value)
            return stored
        encode = storing_codec(plan.target.codec, plan.codec).encode
        name = plan.source.name
        samples = [{KEY: key, name: value} for key, value in zip(keys, stored.values, strict=True)]
        decoded = self.dataset.decode_samples(samples, positions)
        # in one buffer, as the column of large values beside it is, so that both are written at once
        return StoredColumn(*joined([bytes(encode(sample[name])) for sample in decoded]))

    def origin(self, position: int) -> str | None:
        """Return the file with a sample, and the offset of its first field."""
        if not self.plans:
            return None
        path, offset = self.dataset.location(position, next(iter(self.plans)))
        return f"{path}@{offset}"

    def _decoded_numbers(
        self, positions: Sequence[int], stored: Sequence[Sample]
    ) -> Sequence[Sample]:
        """Decode the numbers that get another form, all samples at once. If one is damaged, each is decoded alone."""
        names = [name for name, plan in self.plans.items() if _is_number(plan)]
        nothing: list[Sample] = [{}] * len(positions)
        if not names:
            return nothing
        parts = [
            {KEY: sample[KEY]} | {name: sample[name] for name in names if name in sample}
            for sample in stored
        ]
        try:
            return self.dataset.decode_samples(parts, positions)
        except Exception:  # raised again for the sample that has it
            return nothing

    def _alone(self, position: int) -> Arrived:
        try:
            [stored] = self.dataset.read([position], list(self.plans), decode=False)
        except Exception as error:
            return position, None, error
        return self._arrived(position, stored, {})

    def _arrived(self, position: int, stored: Sample, decoded: Sample) -> Arrived:
        """Return a sample with stored bytes of fields that are copied, and the values of the others."""
        key, sample = stored[KEY], dict(stored)
        try:
            changes: Mapping[str, NewNumbers] = {}
            if any(self.numbers.changes):
                changes = self.numbers.changes[self.dataset.shard_of(position)]
            for name, plan in self.plans.items():
                if name not in stored:
                    continue
                numbers = changes.get(name)
                if plan.copied and is_light(plan.codec):
                    decoded_as(plan.codec, key, name, stored[name])
                if plan.copied and numbers is None:
                    continue
                if name in decoded:
                    sample[name] = decoded[name]
                elif plan.known_as is not None:
                    sample[name] = decoded_as(plan.known_as, key, name, stored[name])
                else:
                    alone = {KEY: key, name: stored[name]}
                    sample[name] = self.dataset.decode_sample(alone, position)[name]
                if numbers is not None:
                    what = f"sample {key!r}, field {name!r}"
                    sample[name] = renumber(sample[name], numbers, what)
        except Exception as error:
            return position, key, error
        return position, key, sample


class StreamFeed(Struct, frozen=True):
    """The samples of a stream of archives, which the batches contain as stored bytes."""

    # by the name of the field in the source
    plans: Mapping[str, FieldPlan]
    known: frozenset[str]  # names of all fields of the source

    file_field = None
    of_source = has_columns = False

    def samples(self, batch: Batch) -> Iterator[Arrived]:
        """Yield the samples of a batch."""
        assert isinstance(batch, list)  # a stream has no positions
        for position, stored in batch:
            sample: Any
            try:
                sample = self._decoded(stored)
            except Exception as error:
                sample = error
            yield position, stored[KEY], sample

    def columns(self, positions: I64) -> Columns | None:
        """Return None: a stream has no columns."""

    def origin(self, position: int) -> str | None:
        """Return None: a stream has no places."""

    def _decoded(self, stored: Sample) -> Sample:
        key = stored[KEY]
        if unknown := stored.keys() - self.known - {KEY}:
            raise SpecError(
                f"sample {key!r} has the field {min(unknown)!r}, which "
                "the first samples lack: name all fields when the stream "
                "is opened, with bushel.open_stream(source, spec={...})"
            )
        sample = {KEY: key}
        for name, plan in self.plans.items():
            if name not in stored:
                continue
            sample[name] = stored[name]
            if not plan.copied:
                sample[name] = decoded_as(plan.given, key, name, stored[name])
            elif is_light(plan.codec):  # so that the target can read it
                decoded_as(plan.codec, key, name, stored[name])
        return sample


Feed = SourceFeed | DatasetFeed | StreamFeed
"""The samples of a source, with bytes of fields that are copied and values of the others."""


def decoded_as(codec: str, key: str, name: str, stored: Any) -> Any:
    """Return the value of stored bytes, or of a list of them. Raise CodecError, which names the sample."""
    decode = get_codec(codec).decode
    try:
        if isinstance(stored, list):
            return [decode(element) for element in stored]
        return decode(stored)
    except CodecError as error:
        details = {**error.details, "field": name}
        raise CodecError(f"sample {key!r}, field {name!r}: {error}", **details) from error


def _is_number(plan: FieldPlan) -> bool:
    """Return whether values of a plain field are numbers that get another form."""
    if plan.copied or plan.known_as is not None or plan.source.sequence:
        return False
    return isinstance(get_codec(plan.source.codec).layout, NumberLayout)
