"""Collation: making one batch from a list of samples, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bushel.errors import SpecError
from bushel.spec import KEY

__all__ = ["Batch", "Collate", "FieldCollate", "Padded", "Ragged", "Sample", "collate"]

Sample = dict[str, Any]
Batch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Padded:
    """Collate arrays of different shapes: pad each at the end of every axis to a common shape.

    Attributes:
        value: Value of the padding.
        shape: The common shape; None for the largest size in the batch along each axis. A None in the tuple means the
            largest size along that axis. A larger array is an error.
        multiple_of: The largest sizes of the batch are rounded up to a multiple of this, so that fewer shapes occur.

    Examples:
        >>> from bushel.loader import Padded, collate
        >>> samples = [{"tokens": np.arange(3)}, {"tokens": np.arange(5)}]
        >>> collate(samples, {"tokens": Padded(multiple_of=4)})["tokens"].shape
        (2, 8)
    """

    value: float = 0
    shape: tuple[int | None, ...] | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if self.multiple_of < 1:
            raise ValueError(f"multiple_of={self.multiple_of}: expected 1 or more")

    def shape_for(self, largest: Sequence[int]) -> list[int]:
        """Return the common shape of arrays, given the largest size along each axis.

        Raises:
            ValueError: `shape` has another number of axes, or is smaller.
        """
        given = (None,) * len(largest) if self.shape is None else self.shape
        if len(given) != len(largest):
            raise ValueError(f"arrays of {len(largest)} axes cannot be padded to a shape of {len(given)} axes")
        rounded = [-(-size // self.multiple_of) * self.multiple_of for size in largest]
        shape = [up if size is None else size for up, size in zip(rounded, given, strict=True)]
        if any(most > size for most, size in zip(largest, shape, strict=True)):
            raise ValueError(f"arrays of up to {tuple(largest)} do not fit into the padded shape {tuple(shape)}")
        return shape

    def __call__(self, values: Sequence[Any]) -> npt.NDArray[Any]:
        """Collate the values of one field.

        Raises:
            ValueError: The arrays differ in the number of axes, or one is larger than `shape`.
        """
        arrays = [np.asarray(value) for value in values]
        axes = arrays[0].ndim
        if any(array.ndim != axes for array in arrays):
            raise ValueError(f"arrays of {sorted({array.ndim for array in arrays})} axes cannot be padded to one shape")
        shape = self.shape_for([max(array.shape[axis] for array in arrays) for axis in range(axes)])
        batch = np.full((len(arrays), *shape), self.value, np.result_type(*(array.dtype for array in arrays)))
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(slice(size) for size in array.shape)] = array
        return batch


@dataclass(frozen=True, slots=True)
class Ragged:
    """Collate arrays of different lengths without padding: one after another, and where each begins.

    The batch has a dict: `values`, an array of shape (total, ...) of all arrays joined along their first axis; and
    `offsets`, int64[n + 1]: array `i` is `values[offsets[i]:offsets[i + 1]]`. Bytes are arrays of uint8.

    Examples:
        >>> from bushel.loader import Ragged, collate
        >>> samples = [{"tokens": np.arange(3)}, {"tokens": np.arange(2)}]
        >>> collate(samples, {"tokens": Ragged()})["tokens"]
        {'values': array([0, 1, 2, 0, 1]), 'offsets': array([0, 3, 5])}
    """

    def __call__(self, values: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Collate the values of one field.

        Raises:
            ValueError: A value is not an array of numbers, or the arrays differ in more than their length.
        """
        arrays = [np.frombuffer(bytearray(one), np.uint8) if type(one) is bytes else np.asarray(one) for one in values]
        if any(array.ndim == 0 or array.dtype.kind not in "biufc" for array in arrays):
            raise ValueError(f"values without a length, or of other things than numbers: {', '.join(_forms(values))}")
        if len({array.shape[1:] for array in arrays}) > 1:
            raise ValueError(f"arrays that differ in more than their length: {', '.join(_forms(values))}")
        offsets = np.zeros(len(arrays) + 1, np.int64)
        np.cumsum([len(array) for array in arrays], out=offsets[1:])
        return {"values": np.concatenate(arrays), "offsets": offsets}


FieldCollate = Literal["list", "stack"] | Padded | Ragged | Callable[[Sequence[Any]], Any]
Collate = Callable[[list[Sample]], Any] | Mapping[str, FieldCollate]


def collate(
    samples: list[Sample],
    rules: Mapping[str, FieldCollate] | None = None,
    stacked: Mapping[str, Any] | None = None,
) -> Batch:
    """Make a batch from samples.

    Without a rule, numbers become an array (Python ints int64, floats float64, bools bool), arrays of one shape and
    type are stacked and keep their type, and all other values (text, bytes, dicts, arrays of different shapes) stay a
    list.

    Args:
        samples: The samples, in the order of the batch.
        rules: A mapping of fields to rules: `"list"`, `"stack"` (arrays that do not stack are an error; the elements
            of sequences are stacked, too, and bytes of one length become an array of uint8), a `Padded`, a `Ragged`,
            or a function of the list of values.
        stacked: What the batch has of the fields that are collated already.

    Returns:
        A dict of fields to arrays of shape (len(samples), ...) or lists. `__key__` is a list of str.

    Raises:
        SpecError: A sample lacks a field that others have, and its rule is not `"list"`; or values do not collate.

    Examples:
        >>> from bushel.loader import collate
        >>> samples = [{"x": np.zeros(2), "text": "one"}, {"x": np.ones(2), "text": "two"}]
        >>> collate(samples)["x"].shape, collate(samples)["text"]
        ((2, 2), ['one', 'two'])
    """
    if not samples:
        return {}
    rules, stacked = rules or {}, stacked or {}
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {
        name: stacked[name] if name in stacked else _collate_field(name, samples, rules.get(name)) for name in names
    }


def _collate_field(name: str, samples: list[Sample], rule: FieldCollate | None) -> Any:
    values = [sample.get(name) for sample in samples]
    if rule == "list" or name == KEY:
        return values
    for sample in samples:
        if name not in sample:
            raise SpecError(
                f"sample {sample.get(KEY)!r} has no field {name!r}, but other samples of its batch have. Leave the "
                f'field out with fields=, or get a list with None for it with collate={{{name!r}: "list"}}'
            )
    try:
        if callable(rule):
            return rule(values)
        return _stack(values, must=rule == "stack")
    except ValueError as error:
        start = f"cannot collate field {name!r} of the batch that starts at sample {samples[0].get(KEY)!r}"
        raise SpecError(f"{start}: {error}") from error


def _stack(values: list[Any], *, must: bool) -> Any:
    first = values[0]
    if isinstance(first, np.ndarray):
        if all(isinstance(v, np.ndarray) and v.shape == first.shape and v.dtype == first.dtype for v in values):
            return np.stack(values)
    elif must and type(first) is bytes:
        if all(type(value) is bytes and len(value) == len(first) for value in values):
            return np.frombuffer(bytearray().join(values), np.uint8).reshape(len(values), len(first))
    elif must and isinstance(first, list):
        sequences = [_stack(value, must=True) if value else value for value in values]
        if all(isinstance(sequence, np.ndarray) for sequence in sequences):
            return _stack(sequences, must=True)
    elif isinstance(first, bool | int | float | complex | np.generic):
        kinds = bool | int | float | complex | np.number | np.bool_
        if all(isinstance(value, kinds) for value in values):
            array = np.array(values)
            if array.dtype != object:  # integers above 64 bits stay a list
                return array
    if must:
        raise ValueError(
            f"values of different kinds do not stack: {', '.join(_forms(values))}. Resize them, or collate with "
            'Padded, Ragged or "list"'
        )
    return values


def _forms(values: Sequence[Any]) -> list[str]:
    return sorted({_form(value) for value in values})


def _form(value: Any) -> str:
    if type(value) is bytes:
        return f"bytes[{len(value)}]"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
