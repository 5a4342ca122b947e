"""`mxnet.nd`: the functions of arrays that data programs call. Arrays are NumPy's, on the CPU.

The reference is MXNet 1.9.1: arrays are float32 unless a dtype is given, and a device (`ctx`) has
no effect. Functions of networks are not here: an error names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from .base import NDArray, array

__all__ = [
    "NDArray",
    "add",
    "arange",
    "array",
    "cast",
    "clip",
    "concat",
    "concatenate",
    "divide",
    "empty",
    "expand_dims",
    "flip",
    "full",
    "multiply",
    "ones",
    "reshape",
    "squeeze",
    "stack",
    "subtract",
    "transpose",
    "zeros",
]

Shape: TypeAlias = int | Sequence[int]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"mxnet.nd.{name} is not one of the functions for data that Bushel has "
        f"({', '.join(__all__)}): call NumPy's on `array.asnumpy()`, or import MXNet for networks"
    )


def _array(values: Any) -> NDArray:
    return np.asarray(values).view(NDArray)


def zeros(shape: Shape, ctx: Any = None, dtype: Any = None) -> NDArray:
    """Return an array of zeros."""
    return _array(np.zeros(shape, dtype or np.float32))


def ones(shape: Shape, ctx: Any = None, dtype: Any = None) -> NDArray:
    """Return an array of ones."""
    return _array(np.ones(shape, dtype or np.float32))


def empty(shape: Shape, ctx: Any = None, dtype: Any = None) -> NDArray:
    """Return an array whose values are not set."""
    return _array(np.empty(shape, dtype or np.float32))


def full(shape: Shape, val: float, ctx: Any = None, dtype: Any = np.float32) -> NDArray:
    """Return an array of one value."""
    return _array(np.full(shape, val, dtype))


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    ctx: Any = None,
    dtype: Any = np.float32,
) -> NDArray:
    """Return `start`, `start + step`, … up to `stop`, each `repeat` times."""
    first, end = (0, start) if stop is None else (start, stop)
    return _array(np.repeat(np.arange(first, end, step), repeat).astype(dtype))


def cast(data: Any, dtype: Any) -> NDArray:
    """Return the values in another dtype."""
    return _array(np.asarray(data).astype(dtype))


def clip(data: Any, a_min: float, a_max: float) -> NDArray:
    """Return the values between two limits, in the dtype that they have."""
    values = np.asarray(data)
    return _array(np.clip(values, a_min, a_max).astype(values.dtype))


def transpose(data: Any, axes: Sequence[int] = ()) -> NDArray:
    """Return the array with its axes in this order; reversed by default."""
    return _array(np.transpose(data, tuple(axes) or None))


def flip(data: Any, axis: Shape) -> NDArray:
    """Return the values in reverse order along an axis, or several."""
    return _array(np.flip(data, axis if isinstance(axis, int) else tuple(axis)))


def reshape(data: Any, shape: Shape) -> NDArray:
    """Return the values in another shape."""
    return _array(np.reshape(data, shape))


def expand_dims(data: Any, axis: int) -> NDArray:
    """Return the array with an axis of length 1."""
    return _array(np.expand_dims(data, axis))


def squeeze(data: Any, axis: Any = None) -> NDArray:
    """Return the array without an axis of length 1, by default without all of them."""
    return _array(np.squeeze(data, axis))


def concat(*data: Any, dim: int = 1) -> NDArray:
    """Join arrays along an axis: the second one by default."""
    return _array(np.concatenate(data, dim))


def concatenate(arrays: Sequence[Any], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join arrays along an axis: the first one by default."""
    return _array(np.concatenate(arrays, axis))


def stack(*data: Any, axis: int = 0) -> NDArray:
    """Join arrays along a new axis."""
    return _array(np.stack(data, axis))


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], NDArray]:
    def of_two(lhs: Any, rhs: Any) -> NDArray:
        return _array(function(lhs, rhs))

    return of_two


add, subtract = _of_two(np.add), _of_two(np.subtract)
multiply, divide = _of_two(np.multiply), _of_two(np.divide)
