"""Arithmetic and comparisons of columns, with the results of Python's own numbers. Pure: no I/O.

Operands are arrays of bool, int64, uint64, float64 or Python objects, and Python's own values.
NumPy computes where its results equal Python's. Python computes, element by element, integers that
leave 64 bits and comparisons of large integers with floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from bushel._runtime.arrays import Array, Bools

Binary = Callable[[Any, Any], Any]
"""A function of the module `operator`."""

_INT64 = range(-(1 << 63), 1 << 63)
_FLOATS = range(-(1 << 53), (1 << 53) + 1)  # the integers whose neighbours are floats, too
_MOST_BITS = 4096  # bits of an integer that arithmetic may make
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def compute(function: Binary, a: Any, b: Any) -> tuple[Any, Bools | None]:
    """Return the sum, difference, product, quotient or remainder of two operands.

    Returns:
        The result, and which elements have none, since their divisor is 0; None if all have one.

    Raises:
        ArithmeticError: Both are constants, and the divisor is 0. A result is too large for a
            float, or has more than 4096 bits.
    """
    a, b = _as_number(a), _as_number(b)
    undefined: Bools | None = None
    if function in _DIVISIONS and (np.ndim(a) or np.ndim(b)):
        zero = np.asarray(b == 0, np.bool_)
        if zero.any():
            undefined = np.array(np.broadcast_to(zero, np.broadcast(a, b).shape))
            a, b = np.where(zero, 0, a), np.where(zero, 1, b)
    return _applied(function, a, b), undefined


def compare(function: Binary, a: Any, b: Any) -> Bools:
    """Return the comparison of two numbers, or of two texts.

    Raises:
        TypeError: One is a text, and the other a number.
    """
    return np.asarray(_applied(function, _as_number(a), _as_number(b)), np.bool_)


def is_text(value: Any) -> bool:
    """Return whether an operand is a text or holds texts."""
    return isinstance(value, str) or (
        _is_object(value) and value.size > 0 and isinstance(value.flat[0], str)
    )


def _applied(function: Binary, a: Any, b: Any) -> Any:
    dtype = _common_type(function, a, b)
    if dtype is not None:
        return function(np.asarray(a, dtype), np.asarray(b, dtype))
    a, b = np.asarray(a, object), np.asarray(b, object)
    if function is operator.mul and _bits(a) + _bits(b) > _MOST_BITS:
        raise OverflowError(f"its integers can have more than {_MOST_BITS} bits")
    return function(a, b)


def _common_type(function: Binary, a: Any, b: Any) -> type[np.generic] | None:
    """Return the type in which NumPy's results equal Python's, or None."""
    if any(isinstance(operand, str) or _is_object(operand) for operand in (a, b)):
        return None
    if not np.ndim(a) and not np.ndim(b):
        return None  # constants
    floats, compares = _is_float(a) + _is_float(b), function in _COMPARISONS
    if floats or function is operator.truediv:
        # arithmetic rounds integers that meet floats, comparisons do not
        rounded = floats == 2 or (floats == 1 and not compares)
        exact = rounded or (_inside(a, _FLOATS) and _inside(b, _FLOATS))
        return np.float64 if exact else None
    exact = _inside(a, _INT64) and _inside(b, _INT64)
    if exact and (compares or _stays_inside(function, a, b)):
        return np.int64
    return None


def _is_object(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _as_number(value: Any) -> Any:
    """Return truth values as integers."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "b":
        return value.astype(np.int64)
    return int(value) if isinstance(value, bool) else value


def _bounds(value: Any) -> tuple[int, int]:
    if not isinstance(value, np.ndarray):
        return value, value
    if value.size:
        return int(value.min()), int(value.max())
    return 0, 0


def _inside(value: Any, allowed: range) -> bool:
    """Return whether integers are in a range. Floats are never asked for it."""
    return _is_float(value) or all(bound in allowed for bound in _bounds(value))


def _stays_inside(function: Binary, a: Any, b: Any) -> bool:
    """Return whether arithmetic of integers cannot leave int64."""
    if function is operator.mod:
        return True
    divisor = (-1, 1) if function is operator.floordiv else _bounds(b)
    multiply = operator.mul if function is operator.floordiv else function
    return all(multiply(bound, two) in _INT64 for bound in _bounds(a) for two in divisor)


def _bits(numbers: Array) -> int:
    """Return the most bits of an integer."""
    integers = (number for number in numbers.flat if isinstance(number, int))
    return max(map(int.bit_length, integers), default=0)
