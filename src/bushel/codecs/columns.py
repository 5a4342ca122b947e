"""Columns and lists from users as arrays, without the changes of values that NumPy makes to find a common dtype.

A column is an array, a list, an Arrow array, or stored bytes and offsets.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from bushel._runtime.arrays import Array

_BYTES = (bytes, bytearray, memoryview)


def is_stored(column: object) -> bool:
    """Return whether a column is given as (bytes, offsets)."""
    return (
        isinstance(column, tuple)
        and len(column) == 2
        and not isinstance(column[1], (str, *_BYTES))
        and (
            isinstance(column[0], _BYTES)
            or (isinstance(column[0], np.ndarray) and column[0].dtype == np.uint8)
        )
        and hasattr(column[1], "__len__")
    )


def without_arrow(column: Any) -> Any:
    """Return an Arrow array as (bytes, offsets), as an array, or as a list; any other column as it is."""
    if not hasattr(column, "__arrow_c_array__") and not hasattr(column, "__arrow_c_stream__"):
        return column
    import pyarrow as pa

    array = column
    if not isinstance(column, pa.Array):
        array = pa.chunked_array(column).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks or [pa.array([], array.type)])
    kind, types = array.type, pa.types
    if array.null_count:
        return array.to_pylist()
    wide = types.is_large_binary(kind)
    if wide or types.is_binary(kind):
        _, borders, content = array.buffers()
        data = b"" if content is None else memoryview(content)
        if borders is None:
            return data, np.zeros(1, np.int64)
        offsets = np.frombuffer(borders, np.int64 if wide else np.int32)
        return data, offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if types.is_integer(kind) or types.is_floating(kind):
        return array.to_numpy(zero_copy_only=False)
    if types.is_fixed_size_list(kind) and (
        types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    ):
        flat = array.flatten()
        if not flat.null_count:
            return flat.to_numpy(zero_copy_only=False).reshape(
                len(array), operator.index(kind.list_size)
            )
    return array.to_pylist()


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
    kind = array.dtype.kind
    texts = {"U": str}.get(kind, bytes)
    # NumPy is asked only what kind arrays of texts have, as asking it of each text takes longer than the rest
    if kind in "US" and not all(
        isinstance(leaf, texts) or np.asarray(leaf).dtype.kind == kind for leaf in _leaves(values)
    ):
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
