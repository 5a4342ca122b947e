"""The arrays of a batch: samples are decoded into their rows, and the memory of old batches is reused.

Fresh memory costs a page fault for every 4 KiB that is first written, about as much as copying it.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from bushel.core.dataset.decoding import keep_freed_memory
from bushel.core.dataset.numbers import NumberField, NumberReader
from bushel.loader.collate import Collate

__all__ = ["ArrayFactory", "BatchArrays", "BufferPool", "is_large"]

_MIN_BYTES = 1 << 12  # smaller values are stacked faster than they are written into rows one by one
_HUGE_PAGE = 1 << 21
_SPARE = 4  # free buffers that are kept
_POOLED = 1 << 18  # smaller arrays of numbers come from the C library, whose memory is in use already
_TRIES = 4  # batches in which a field may fail to be gathered before it is given up


def is_large(value: Any) -> TypeGuard[npt.NDArray[Any]]:
    """Return whether a value is an array that is large enough to be written into its row."""
    return type(value) is np.ndarray and value.nbytes >= _MIN_BYTES and not value.dtype.hasobject


class BufferPool:
    """Makes arrays whose memory returns to the pool when they are garbage. Threads share it.

    Attributes:
        max_bytes: Size of the largest array that it makes, in bytes.
    """

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self.max_bytes = max_bytes
        keep_freed_memory()
        # the garbage collector appends to it, in any thread and at any time: a deque needs no lock for that
        self._free: deque[mmap.mmap] = deque(maxlen=_SPARE)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """Return an array with arbitrary contents; None if it is empty, above `max_bytes`, or memory is exhausted."""
        size = dtype.itemsize
        for length in shape:
            size *= length
        if not 0 < size <= self.max_bytes:
            return None
        if (memory := self._take(-(-size // _HUGE_PAGE) * _HUGE_PAGE)) is None:
            return None
        whole = np.frombuffer(memory, np.uint8)
        # all views of the array refer to this one and keep it alive
        weakref.finalize(whole, self._free.append, memory).atexit = False
        return whole[:size].view(dtype).reshape(shape)

    def _take(self, size: int) -> mmap.mmap | None:
        for _ in range(len(self._free)):
            try:
                memory = self._free.popleft()
            except IndexError:
                break
            if size <= len(memory) <= 2 * size:
                return memory
        try:  # private, so that a forked process writes into pages of its own
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            return None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return memory


class ArrayFactory:
    """Makes the arrays of the batches of one iteration, and remembers the fields that do not stack.

    Args:
        collate: How samples become a batch: only fields that are stacked have a batch array.
        pool: Source of the memory.
        numbers: Gathers fields of numbers into their arrays; None for none.
        names: The fields of the batches, in order.

    Attributes:
        numbers: Gathers the fields that have not been given up.
        names: The fields of the batches, in order.
    """

    def __init__(
        self, collate: Collate | None, pool: BufferPool, numbers: NumberReader | None = None, names: Sequence[str] = ()
    ) -> None:
        self._pool = pool
        self._rules = collate if isinstance(collate, Mapping) else {}
        self._ragged = set[str]()
        self._tries: Counter[tuple[str, bool]] = Counter()
        self.numbers, self.names = numbers, names

    def stacks(self, name: str) -> bool:
        """Return whether a field has a batch array."""
        return name not in self._ragged and self._rules.get(name) in (None, "stack")

    def stacks_sequences(self, name: str) -> bool:
        """Return whether a field of lists of arrays has a batch array: only if `collate=` says "stack"."""
        return self.stacks(name) and self._rules.get(name) == "stack"

    def make(self, samples: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """Return an array for a batch; None if there is not enough memory."""
        return self._pool.array((samples, *shape), dtype)

    def number_array(self, samples: int, field: NumberField) -> npt.NDArray[Any]:
        """Return an array for a batch of a field of numbers, with arbitrary contents."""
        shape = (samples, *field.shape)
        array = self._pool.array(shape, field.dtype) if samples * field.nbytes >= _POOLED else None
        return np.empty(shape, field.dtype) if array is None else array

    def count(self, fields: Iterable[NumberField], good: Iterable[bool]) -> None:
        """Count which fields could be gathered in a batch, and give up those that hardly ever can."""
        for field, gathered in zip(fields, good, strict=True):
            self._tries[field.name, gathered] += 1
            failed = self._tries[field.name, False]
            if failed > _TRIES and failed > self._tries[field.name, True] and (numbers := self.numbers) is not None:
                self.numbers = numbers.without([field.name])

    def give_up(self, name: str) -> None:
        """Make no array for a field from the next batch on, because its values differ in shape."""
        self._ragged.add(name)


@dataclass(frozen=True, slots=True)
class _Field:
    """A batch array, with a byte per row that says whether the row holds its sample's value."""

    array: npt.NDArray[Any]
    filled: bytearray


class BatchArrays:
    """The arrays of one batch, with one row per sample. The first value of a field sets the shape. Threads share it.

    Args:
        samples: Number of samples in the batch.
        factory: Makes the arrays.
    """

    def __init__(self, samples: int, factory: ArrayFactory) -> None:
        self._samples, self._factory = samples, factory
        self._fields: dict[str, _Field | None] = {}
        self._gathered: dict[str, tuple[NumberField, npt.NDArray[Any]]] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> Sequence[str]:
        """The fields of the batch, in order."""
        return self._factory.names

    def gather(self, samples: npt.NDArray[np.int64]) -> frozenset[str]:
        """Gather the fields of numbers of the whole batch, given the positions of its samples in the dataset.

        Returns:
            The fields that could be gathered.
        """
        numbers, own = self._factory.numbers, self._gathered
        if numbers is None or not numbers.fields:
            return frozenset()
        arrays = [self._factory.number_array(self._samples, field) for field in numbers.fields]
        bad = numbers.gather(samples, [[array] for array in arrays])
        good = [places is None for places in bad]
        self._factory.count(numbers.fields, good)
        for field, array, gathered in zip(numbers.fields, arrays, good, strict=True):
            if gathered:
                own[field.name] = field, array
        return frozenset(own)

    def release(self) -> dict[str, tuple[NumberField, npt.NDArray[Any]]]:
        """Return the gathered fields with their arrays, which are not part of the batch any more."""
        gathered, self._gathered = self._gathered, {}
        return gathered

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """Return the array of a field for values of this shape and type; None if the field has none.

        A row that is written counts after `fill`.
        """
        field = self._field(name, shape, dtype)
        return None if field is None else field.array

    def sequences(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """Return the array of a sequence field. The number of elements comes first in the shape."""
        return self.array(name, shape, dtype) if self._factory.stacks_sequences(name) else None

    def fill(self, name: str, row: int) -> npt.NDArray[Any]:
        """Mark a row as written, and return it."""
        field = self._fields[name]
        if field is None:
            raise KeyError(name)
        field.filled[row] = 1
        value: npt.NDArray[Any] = field.array[row]
        return value

    def put(self, name: str, row: int, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy a value into its row and return the row; return the value if it has no row or is there already."""
        field = self._field(name, value.shape, value.dtype)
        if field is None or field.filled[row]:
            return value
        out: npt.NDArray[Any] = field.array[row]
        out[...] = value
        field.filled[row] = 1
        return out

    def whole(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of which every row is written."""
        whole = {name: field.array for name, field in self._fields.items() if field is not None and all(field.filled)}
        return whole | {name: array for name, (_, array) in self._gathered.items()}

    def _field(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Field | None:
        with self._lock:
            if name not in self._fields:
                array = self._factory.make(self._samples, shape, dtype) if self._factory.stacks(name) else None
                self._fields[name] = None if array is None else _Field(array, bytearray(self._samples))
            field = self._fields[name]
        if field is not None and (field.array.shape[1:] != shape or field.array.dtype != dtype):
            self._factory.give_up(name)
            return None
        return field
