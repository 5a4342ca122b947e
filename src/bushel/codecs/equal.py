"""Whether two decoded values are equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


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
