"""Collation: a list of samples becomes one batch, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bushel.errors import SpecError
from bushel.spec import KEY

__all__ = ["Batch", "Collate", "FieldCollate", "Padded", "Sample", "collate"]

Sample = dict[str, Any]
Batch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Padded:
    """Collate arrays of unequal shapes by filling each up, at the end of every axis, to a common shape.

    Attributes:
        value: What to fill with.
        shape: The common shape, or None for the largest of the batch along every axis. A None inside means the
            largest along that axis. A longer array is an error.
    """

    value: float = 0
    shape: tuple[int | None, ...] | None = None

    def __call__(self, values: Sequence[Any]) -> npt.NDArray[Any]:
        """Collate the values of one field.

        Raises:
            ValueError: The arrays differ in their number of axes, or one is larger than `shape`.
        """
        arrays = [np.asarray(value) for value in values]
        axes = arrays[0].ndim
        given = (None,) * axes if self.shape is None else self.shape
        if any(array.ndim != axes for array in arrays) or len(given) != axes:
            raise ValueError(
                f"arrays of {sorted({array.ndim for array in arrays})} axes do not pad to one shape of {len(given)}"
            )
        largest = [max(array.shape[axis] for array in arrays) for axis in range(axes)]
        shape = [largest[axis] if size is None else size for axis, size in enumerate(given)]
        if any(most > size for most, size in zip(largest, shape, strict=True)):
            raise ValueError(f"an array of the batch is larger than the shape {tuple(shape)} to pad it to")
        batch = np.full((len(arrays), *shape), self.value, np.result_type(*(array.dtype for array in arrays)))
        for slot, array in zip(batch, arrays, strict=True):
            slot[tuple(slice(size) for size in array.shape)] = array
        return batch


FieldCollate = Literal["list", "stack"] | Padded | Callable[[Sequence[Any]], Any]
Collate = Callable[[list[Sample]], Any] | Mapping[str, FieldCollate]


def collate(
    samples: list[Sample],
    rules: Mapping[str, FieldCollate] | None = None,
    stacked: Mapping[str, npt.NDArray[Any]] | None = None,
) -> Batch:
    """Make a batch of samples.

    Without a rule, numbers become an array with NumPy's own type for them (Python ints int64, floats float64, bools
    bool), arrays of one shape and type are stacked and keep the type, and everything else (text, bytes, dicts, arrays
    of unequal shapes) stays a list.

    Args:
        samples: The samples, in the order of the batch.
        rules: Field to rule: `"list"`, `"stack"` (an error where arrays do not stack; the elements of sequences are
            stacked, too), a `Padded`, or a function of the list of values.
        stacked: Fields whose values were stacked already.

    Returns:
        Field to array of shape (len(samples), ...) or list; `__key__` is a list of str.

    Raises:
        SpecError: A sample lacks a field that others have and whose rule is not `"list"`, or values do not collate.
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
                f"sample {sample.get(KEY)!r} has no field {name!r} and other samples of its batch do: leave the field "
                f'out by fields=, or take it as a list with None in it by collate={{{name!r}: "list"}}'
            )
    try:
        if callable(rule):
            return rule(values)
        return _stack(values, must=rule == "stack")
    except ValueError as error:
        raise SpecError(f"field {name!r} of the batch from sample {samples[0].get(KEY)!r} on: {error}") from error


def _stack(values: list[Any], *, must: bool) -> Any:
    first = values[0]
    if isinstance(first, np.ndarray):
        if all(isinstance(v, np.ndarray) and v.shape == first.shape and v.dtype == first.dtype for v in values):
            return np.stack(values)
    elif must and isinstance(first, list):
        sequences = [_stack(value, must=True) if value else value for value in values]
        if all(isinstance(sequence, np.ndarray) for sequence in sequences):
            return _stack(sequences, must=True)
    elif isinstance(first, bool | int | float | complex | np.generic):
        kinds = bool | int | float | complex | np.number | np.bool_
        if all(isinstance(value, kinds) for value in values):
            array = np.array(values)
            if array.dtype != object:  # integers beyond 64 bits stay what they are
                return array
    if must:
        forms = sorted({_form(value) for value in values})
        raise ValueError(f"values do not stack: {', '.join(forms)}; take them as a list, padded, or resize them")
    return values


def _form(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
