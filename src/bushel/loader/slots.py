"""The arrays of a batch in the making: samples are decoded into their slots, so that nothing is stacked afterwards."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from bushel.loader.buffers import BufferPool
from bushel.loader.collate import Collate

__all__ = ["SlotMemory", "Slots", "is_large"]

_LEAST = 1 << 12  # bytes of a value; smaller ones are stacked faster than they are put into slots one by one


def is_large(value: Any) -> TypeGuard[npt.NDArray[Any]]:
    """Whether a value is worth a slot."""
    return type(value) is np.ndarray and value.nbytes >= _LEAST and not value.dtype.hasobject


@dataclass(frozen=True, slots=True)
class _Field:
    """A batch array, with a byte for each slot that says whether it holds its sample's value."""

    array: npt.NDArray[Any]
    filled: bytearray


class SlotMemory:
    """What the batches of one iteration have in common: where their arrays lie, and which fields do not stack.

    Args:
        collate: How samples become a batch: only fields that are stacked have slots.
        pool: Where the memory comes from.
    """

    def __init__(self, collate: Collate | None, pool: BufferPool) -> None:
        self._pool = pool
        self._rules = collate if isinstance(collate, Mapping) else {}
        self._ragged = set[str]()

    def stacks(self, name: str) -> bool:
        """Whether a field has slots."""
        return name not in self._ragged and self._rules.get(name) in (None, "stack")

    def stacks_sequences(self, name: str) -> bool:
        """Whether a field whose values are lists of arrays of one shape has slots: only if that is asked for."""
        return self.stacks(name) and self._rules.get(name) == "stack"

    def make(self, samples: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """An array for a batch, or None where there is no memory for it."""
        return self._pool.array((samples, *shape), dtype)

    def give_up(self, name: str) -> None:
        """From the next batch on, a field has no slots: its values differ in shape."""
        self._ragged.add(name)


class Slots:
    """The slots of one batch. The first value of a field decides on the shape of its array. Threads share it.

    Args:
        samples: Samples in the batch.
        memory: Of its iteration.
    """

    def __init__(self, samples: int, memory: SlotMemory) -> None:
        self._samples, self._memory = samples, memory
        self._fields: dict[str, _Field | None] = {}
        self._lock = threading.Lock()

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """The array of a field, for values of this form; None where they have no slots.

        What is written into it counts once `fill` says so.
        """
        field = self._field(name, shape, dtype)
        return None if field is None else field.array

    def sequences(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """The same for a sequence field; the number of elements comes first in the shape."""
        return self.array(name, shape, dtype) if self._memory.stacks_sequences(name) else None

    def fill(self, name: str, place: int) -> npt.NDArray[Any]:
        """Note that a slot holds its value, which is returned."""
        field = self._fields[name]
        if field is None:
            raise KeyError(name)
        field.filled[place] = 1
        value: npt.NDArray[Any] = field.array[place]
        return value

    def put(self, name: str, place: int, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy a value into its slot, unless it has none or is there. Returns the slot, or else the value."""
        field = self._field(name, value.shape, value.dtype)
        if field is None or field.filled[place]:
            return value
        slot: npt.NDArray[Any] = field.array[place]
        slot[...] = value
        field.filled[place] = 1
        return slot

    def whole(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that hold a value in every slot."""
        return {name: field.array for name, field in self._fields.items() if field is not None and all(field.filled)}

    def _field(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Field | None:
        with self._lock:
            if name not in self._fields:
                array = self._memory.make(self._samples, shape, dtype) if self._memory.stacks(name) else None
                self._fields[name] = None if array is None else _Field(array, bytearray(self._samples))
            field = self._fields[name]
        if field is not None and (field.array.shape[1:] != shape or field.array.dtype != dtype):
            self._memory.give_up(name)
            return None
        return field
