"""Lists as arrays, without the changes of values that NumPy makes to find a common dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bushel._runtime.arrays import Array

_EXACT = 1 << 53  # up to this number, a float64 holds every whole number


class InexactError(ValueError):
    """Values would change if they became an array."""


def exact_array(values: Any) -> Array:
    """Return values as an array like `numpy.asanyarray`, but keep whole numbers whole and do not mix texts and numbers.

    NumPy makes floats of whole numbers on both sides of 2⁶³, texts of numbers beside texts, and
    forgets masks. Whole numbers from 0 that fit into uint64 become that; what no dtype holds is
    refused.

    Raises:
        InexactError: Values would change.
        ValueError: They differ in length.
    """
    array: Array = np.asanyarray(values)
    if isinstance(values, np.ndarray):
        if np.any(getattr(values, "mask", False)):
            raise InexactError(
                "some of its values are masked: fill them, or store the mask as a field of its own"
            )
        return array
    if not isinstance(values, list | tuple):
        return array
    if array.dtype.kind == "f":
        return _of_numbers(values, array)
    if array.dtype.kind in "US" and not all(map(_is_text, _leaves(values))):
        raise InexactError(
            "it has texts and other values: give them the same type, or store them as json"
        )
    return array


def _of_numbers(values: Any, array: Array) -> Array:
    changed = next(filter(_is_rounded, _leaves(values)), None)
    if array.size and all(isinstance(leaf, int | np.integer) for leaf in _leaves(values)):
        if all(0 <= leaf < 1 << 64 for leaf in _leaves(values)):
            return np.array(values, np.uint64)
        changed = max(_leaves(values), key=abs)
    if changed is None:
        return array
    if isinstance(changed, np.ndarray):
        description = f"an array of {changed.dtype}"
    else:
        description = str(changed)
    raise InexactError(
        f"{description} and its other values have no common dtype that keeps them all"
    )


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _is_rounded(leaf: Any) -> bool:
    """Return whether a float64 changes a whole number, or may change a number of an array."""
    if isinstance(leaf, np.ndarray):
        return (
            leaf.dtype.kind in "iu"
            and leaf.size > 0
            and max(-int(leaf.min()), int(leaf.max())) > _EXACT
        )
    return isinstance(leaf, int | np.integer) and int(float(leaf)) != int(leaf)


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, str | bytes) or (
        isinstance(leaf, np.ndarray) and leaf.dtype.kind in "US"
    )
