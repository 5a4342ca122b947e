"""Whether two samples have the same values, in any container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64, Bools

from .stored_values import StoredValues

_AT_ONCE = 64  # pairs of values that are decoded together


def are_same(left: StoredValues, right: StoredValues, pairs: tuple[I64, I64], name: str) -> Bools:
    """Return whether a field of pairs of samples has the same values: where both have names of classes, by these.

    Raises:
        BushelError, OSError: A value cannot be read or decoded.
    """
    same = np.zeros(len(pairs[0]), np.bool_)
    classes = [dataset.labels.get(name, ()) for dataset in (left, right)]
    for start in range(0, len(same), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        values = [
            [
                _named(sample.get(name, ...), names)
                for sample in dataset.read(positions[part].tolist(), [name])
            ]
            for dataset, positions, names in zip((left, right), pairs, classes, strict=True)
        ]
        same[part] = list(map(same_value, *values))
    return same


def _named(value: Any, classes: Sequence[str]) -> Any:
    """Return the name of a class, or the value itself where it has none."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return (classes[value] if is_number and 0 <= value < len(classes) else "") or value


def same_value(one: Any, other: Any) -> bool:
    """Return whether two decoded values are equal: arrays also in shape and dtype, NaN equal to NaN."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        arrays = np.asarray(one), np.asarray(other)
        floats = arrays[0].dtype.kind in "fc"
        return arrays[0].dtype == arrays[1].dtype and bool(
            np.array_equal(*arrays, equal_nan=floats)
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same_value(one[name], other[name]) for name in one
        )
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(other, np.generic):
        other = other.item()
    return type(one) is type(other) and (bool(one == other) or (one != one and other != other))
