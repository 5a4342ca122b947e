"""The arrays of a batch: samples are decoded into their rows, and the memory of old batches is reused."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeGuard

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8, Array, offsets_of
from bushel._runtime.system import keep_freed_memory, large_room
from bushel.loader.values.bad_samples import DAMAGE, Failure
from bushel.loader.values.collate import Collate, FieldCollate, Padded, Ragged, Sample
from bushel.spec import KEY

from .batch_reader import NumberReader, number_readers
from .costs import bytes_to_find
from .number_field import NumberField, Rooms

_MIN_BYTES = 1 << 12  # smaller values are stacked faster than they are written into rows one by one
_HUGE_PAGE = 1 << 21
_HEADROOM = 8  # memory for stored bytes is larger than asked for by an eighth, for the next batch
POOLED = 1 << 18  # smaller arrays come from the C library, whose memory is in use
_TRIES = 4  # batches in which a field may fail to be gathered before it is given up


def is_large(value: Any) -> TypeGuard[Array]:
    """Return whether a value is an array that is large enough to be written into its row."""
    return type(value) is np.ndarray and value.nbytes >= _MIN_BYTES and not value.dtype.hasobject


class Gathered(Struct, frozen=True):
    """A field of numbers of a batch.

    Attributes:
        field: The field.
        batch: The field in the batch: an array, or the dict of `Ragged`.
        rows: The array that the values are in.
        starts: Where each value begins in `rows`; None for a row per value.
        lengths: The lengths of the values along the first axis of `rows`, if `starts` are given.
    """

    field: NumberField
    batch: Any
    rows: Array
    starts: I64 | None = None
    lengths: I64 | None = None

    @property
    def nbytes(self) -> int:
        """Size of the field in the batch, in bytes."""
        if isinstance(self.batch, dict):
            return sum(array.nbytes for array in self.batch.values())
        return self.rows.nbytes

    def value(self, row: int) -> Any:
        """Return the value of a sample, equal to the value that `Dataset.read` returns."""
        if self.starts is None or self.lengths is None:
            return self.field.value_of(self.rows[row, ...])
        start = int(self.starts[row])
        return self.field.value_of(self.rows[start : start + int(self.lengths[row])])


class BufferPool:
    """Makes arrays whose memory is reused after they are garbage-collected. Threads share it.

    Fresh memory costs a page fault for every 4 KiB that is first written, about as much as copying.

    Attributes:
        max_bytes: Size of the largest array that it makes, in bytes.
    """

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self.max_bytes = max_bytes
        keep_freed_memory()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Return an array with arbitrary contents; None if it is empty, above `max_bytes`, or memory is exhausted."""
        size = dtype.itemsize * math.prod(shape)
        if not 0 < size <= self.max_bytes:
            return None
        if size < POOLED:
            return np.empty(shape, dtype)
        room = large_room(size)
        return None if room is None else np.ndarray(shape, dtype, room)

    def room(self, size: int) -> U8 | None:
        """Return at least `size` bytes with arbitrary contents, for the stored bytes of a batch; None as by `array`.

        Batches differ by some percent, so the memory is a little larger.
        """
        if not _HUGE_PAGE <= size <= self.max_bytes:
            return None
        return large_room(size, size // _HEADROOM)


def gathered_numbers(
    dataset: Any,
    names: Collection[str],
    rules: Mapping[str, FieldCollate],
    *,
    decode: bool,
    joined: bool = False,
) -> list[NumberReader]:
    """Return the readers of numbers of one iteration.

    They gather fields that `gathers` names, if their values are stacked, or joined by `Ragged` or
    `Padded`.
    """
    number_fields = []
    for name in names:
        rule = rules.get(name)
        ragged = type(rule) is Ragged
        if joined:
            if rule in (None, "stack") or type(rule) is Padded:
                number_fields.append(NumberField(name, ragged=True, axes=1))
            continue
        if ragged or rule == "stack":
            number_fields.append(NumberField(name, not decode, bytes_too=True, ragged=ragged))
        elif decode and (rule is None or type(rule) is Padded):
            number_fields.append(
                NumberField(name, ragged=rule is not None, axes=None if rule is None else 1)
            )
    if not number_fields or (not dataset.reader.local and bytes_to_find(dataset, names)):
        # to find out whether all sections have a field as the first one, all of them would be read
        # first
        return []
    with suppress(*DAMAGE):  # of the values that were looked at: batches are made of samples
        return [reader for reader in number_readers(dataset, number_fields) if reader.fields]
    return []


class Tries:
    """Counts the batches for which fields could be read without samples.

    Attributes:
        given_up: The fields that nearly always failed.
    """

    def __init__(self) -> None:
        self.given_up = set[str]()
        self._counts: Counter[tuple[str, bool]] = Counter()

    def count(self, name: str, *, good: bool) -> None:
        """Count a batch."""
        self._counts[name, good] += 1
        if self._counts[name, False] > max(_TRIES, self._counts[name, True]):
            self.given_up.add(name)


class ArrayFactory:
    """Makes the arrays of the batches of one iteration, and remembers the fields that do not stack.

    Args:
        collate: How samples become a batch: only fields that are stacked have a batch array.
        pool: Source of the memory.
        names: The fields of the batches, in order.
        numbers: Gather fields of numbers into their arrays.
        listed: `ListFields`, which makes other fields without samples; None if it cannot make any.

    Attributes:
        pool: Source of the memory.
        names: The fields of the batches, in order.
        numbers: Gather fields of numbers.
        listed: `ListFields`, or None.
        rules: How fields are collated, by name.
    """

    def __init__(
        self,
        collate: Collate | None,
        pool: BufferPool,
        names: Sequence[str],
        numbers: Sequence[NumberReader] = (),
        listed: Any = None,
    ) -> None:
        self.pool, self.names, self.numbers, self.listed = pool, names, numbers, listed
        self.rules = collate if isinstance(collate, Mapping) else {}
        self._ragged = set[str]()
        self._tries = Tries()

    def stacks(self, name: str) -> bool:
        """Return whether a field has a batch array."""
        return name not in self._ragged and self.rules.get(name) in (None, "stack")

    def _number_array(self, rows: int, field: NumberField) -> Array:
        """Return an array for values of a field of numbers, with arbitrary contents."""
        shape = (rows, *(field.shape[1:] if field.ragged else field.shape))
        array = self.pool.array(shape, field.dtype)
        return np.empty(shape, field.dtype) if array is None else array

    def gather(self, batches: Sequence[I64]) -> dict[str, list[Gathered | None]]:
        """Gather the fields of numbers of some batches, given the positions of their samples in the dataset.

        Returns:
            For each field that has not been given up, its part of each batch; None if it cannot be
            gathered.

        Raises:
            Exception: One of `DAMAGE`: a value cannot be read.
        """
        gathered: dict[str, list[Gathered | None]] = {}
        for reader in self.numbers:
            if fields := [
                field for field in reader.fields if field.name not in self._tries.given_up
            ]:
                try:
                    gathered |= self._gather(reader, fields, batches)
                finally:
                    for field in fields:
                        good = None not in gathered.get(field.name, [None])
                        self._tries.count(field.name, good=good)
        return gathered

    def _gather(
        self, reader: NumberReader, fields: Sequence[NumberField], batches: Sequence[I64]
    ) -> dict[str, list[Gathered | None]]:
        gathered: dict[str, list[Gathered | None]] = {}
        plain = [field for field in fields if not field.ragged]
        if plain:
            samples = batches[0] if len(batches) == 1 else np.concatenate(batches)
            sizes = list(map(len, batches))
            arrays = {
                field.name: [self._number_array(size, field) for size in sizes] for field in plain
            }
            wrong_places = reader.gather(samples, arrays)
            ends = list(accumulate(sizes))
            for field in plain:
                places = wrong_places[field.name]
                wrong = set[int]()
                if places is not None:
                    wrong = {bisect_right(ends, place) for place in places.tolist()}
                gathered[field.name] = [
                    None if number in wrong else Gathered(field, array, array)
                    for number, array in enumerate(arrays[field.name])
                ]
        for field in fields:
            if field.ragged:
                gathered[field.name] = [
                    self._ragged_batch(reader, field, samples) for samples in batches
                ]
        return gathered

    def _ragged_batch(
        self, reader: NumberReader, field: NumberField, samples: I64
    ) -> Gathered | None:
        """Gather a field whose values differ in length, by its rule."""
        fill, rule = None, self.rules[field.name]
        if (lengths := reader.lengths(field, samples)) is None:
            return None
        if isinstance(rule, Padded):
            try:
                [size] = rule.shape_for([int(lengths.max())])
                fill = rule.padding(field.dtype).tobytes()
            except ValueError:  # an error of the batch, which names the field where it is collated
                return None
            starts = np.arange(len(samples) + 1) * size
        else:
            starts = offsets_of(lengths)
        rows = self._number_array(int(starts[-1]), field)
        if not reader.gather_rows(field, samples, Rooms(rows, starts, fill)):
            return None
        if isinstance(rule, Padded):
            return Gathered(field, rows.reshape(len(samples), -1), rows, starts, lengths)
        return Gathered(field, {"values": rows, "offsets": starts}, rows, starts, lengths)

    def give_up(self, name: str) -> None:
        """Make no array for a field from the next batch on, because its values differ in shape."""
        self._ragged.add(name)


class FieldRows(Struct, frozen=True):
    """A batch array, with a byte per row that is 1 if the row holds its sample's value."""

    array: Array
    filled: bytearray


class BatchArrays:
    """The arrays of one batch, with one row per sample. The first value of a field sets the shape. Threads share it.

    Attributes:
        order: The fields of the batch, in order, if its samples lack some of them, which were gathered.
    """

    def __init__(self, samples: int, factory: ArrayFactory) -> None:
        self._samples, self._factory = samples, factory
        self._fields: dict[str, FieldRows | None] = {}
        self._gathered: dict[str, Gathered] = {}
        self._lock = threading.Lock()
        self.order: Sequence[str] = ()

    def gather(self, samples: I64) -> int:
        """Gather the fields of numbers of the whole batch, given the positions of its samples in the dataset.

        Returns:
            The size of what could be gathered, in bytes.
        """
        nbytes = 0
        with suppress(*DAMAGE):  # the bad value is found when it is read with its sample
            for name, [gathered] in self._factory.gather([samples]).items():
                if gathered is not None:
                    self._gathered[name] = gathered
                    nbytes += gathered.nbytes
        if self._gathered:
            self.order = self._factory.names
        return nbytes

    def others(self, fields: Any) -> Any:
        """Return the mask without the fields that are gathered."""
        gathered = self._gathered
        if isinstance(fields, Mapping):
            return {name: elements for name, elements in fields.items() if name not in gathered}
        return [name for name in self._factory.names if name not in gathered]

    def scatter(self, decoded: Sequence[Sample | Failure]) -> list[Sample | Failure]:
        """Return samples with their gathered values, for a batch that will have other samples."""
        if not self._gathered:
            return list(decoded)
        gathered, names = self._gathered, (KEY, *self.order)
        self._gathered, self.order = {}, ()
        samples: list[Sample | Failure] = []
        for row, sample in enumerate(decoded):
            if not isinstance(sample, Failure):
                values = {name: field.value(row) for name, field in gathered.items()} | sample
                sample = {name: values[name] for name in (*names, *values) if name in values}
            samples.append(sample)
        return samples

    def sequences(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> FieldRows | None:
        """Return the rows of a sequence field, which it has only with "stack" in `collate=`.

        The number of elements comes first in the shape.
        """
        if self._factory.rules.get(name) == "stack":
            return self.rows(name, shape, dtype)
        return None

    def put(self, name: str, row: int, value: Array) -> Array:
        """Copy a value into its row and return the row; return the value if it has no row or is there already."""
        field = self.rows(name, value.shape, value.dtype)
        if field is None or field.filled[row]:
            return value
        out: Array = field.array[row]
        out[...] = value
        field.filled[row] = 1
        return out

    def clear(self, row: int) -> None:
        """Make a row free for another sample."""
        for field in self._fields.values():
            if field is not None:
                field.filled[row] = 0

    def whole(self) -> dict[str, Any]:
        """Return the arrays whose rows are all written, and the gathered fields."""
        whole = {
            name: field.array
            for name, field in self._fields.items()
            if field is not None and all(field.filled)
        }
        return whole | {name: gathered.batch for name, gathered in self._gathered.items()}

    def rows(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FieldRows | None:
        """Return the rows of a field for values of this shape and type; None if the field has none."""
        native = dtype.newbyteorder("=")
        # once for a batch: threads do not wait for each other for every sample
        if name not in self._fields:
            with self._lock:
                if name not in self._fields:
                    array = None
                    if self._factory.stacks(name):
                        array = self._factory.pool.array((self._samples, *shape), native)
                    rows = bytearray(self._samples)
                    self._fields[name] = None if array is None else FieldRows(array, rows)
        field = self._fields[name]
        if field is not None and (field.array.shape[1:] != shape or field.array.dtype != native):
            self._factory.give_up(name)
            return None
        return field
