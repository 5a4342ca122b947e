"""Types of columns beyond their numbers and bytes: times, tensors, JSON."""

from __future__ import annotations

import json
import math

from bushel.containers.arrow.messages import Column, Type
from bushel.containers.features import Tensor

_NAME, _METADATA = "ARROW:extension:name", "ARROW:extension:metadata"
_DURATIONS = (Type.TIME, Type.DURATION, Type.INTERVAL)


def time_codec(column: Column) -> str | None:
    """Return the codec of a column of times, such as `datetime64(us)`; None for other columns."""
    if not column.unit:
        return None
    if column.type in _DURATIONS:
        return f"timedelta64({column.unit})"
    return f"datetime64({column.unit})"


def holds_json(column: Column) -> bool:
    """Return whether the texts of a column are JSON."""
    return column.metadata.get(_NAME) == "arrow.json"


def tensor_of(column: Column) -> Tensor | None:
    """Return the shape of the tensors of a column; None for other columns.

    Raises:
        ValueError: It contradicts the size of the lists.
    """
    if column.metadata.get(_NAME) != "arrow.fixed_shape_tensor" or column.type != Type.FIXED_LIST:
        return None
    described = json.loads(column.metadata.get(_METADATA, ""))
    shape = described.get("shape") if isinstance(described, dict) else None
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"column {column.name!r} has tensors of the shape {shape!r:.100}")
    axes = described.get("permutation") or list(range(len(shape)))
    if (
        math.prod(shape) != column.width
        or not shape
        or sorted(map(str, axes)) != sorted(map(str, range(len(shape))))
    ):
        raise ValueError(
            f"column {column.name!r} has tensors of the shape {shape}, in lists of {column.width}"
        )
    return Tensor(tuple(shape), tuple(map(int, axes)))
