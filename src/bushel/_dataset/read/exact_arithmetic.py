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

_LARGEST_INT64 = (1 << 63) - 1
_LARGEST_EXACT = 1 << 53  # up to it, all integers are floats
_MOST_BITS = 4096  # bits of an integer that arithmetic may make
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_LARGEST_RESULT: dict[Binary, Binary] = {
    operator.add: operator.add,
    operator.sub: operator.add,
    operator.mul: operator.mul,
}
"""How large integers that arithmetic makes can be, given the largest of each operand; for others, as these."""


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
            undefined, a, b = map(np.array, np.broadcast_arrays(zero, a, b))
            a[undefined], b[undefined] = 0, 1
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
    floats = _is_float(a) + _is_float(b)
    # arithmetic rounds integers that meet floats, comparisons do not
    if floats == 2 or (floats and function not in _COMPARISONS):
        return np.float64
    if floats or function is operator.truediv:
        if max(_largest(a), _largest(b)) <= _LARGEST_EXACT:
            return np.float64
    elif _LARGEST_RESULT.get(function, max)(_largest(a), _largest(b)) <= _LARGEST_INT64:
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


def _largest(value: Any) -> int:
    """Return the largest absolute value of integers; 0 of floats."""
    if _is_float(value):
        return 0
    if isinstance(value, np.ndarray):
        return max(-int(value.min(initial=0)), int(value.max(initial=0)))
    return abs(int(value))


def _bits(numbers: Array) -> int:
    """Return the most bits of an integer."""
    integers = (number for number in numbers.flat if isinstance(number, int))
    return max(map(int.bit_length, integers), default=0)
