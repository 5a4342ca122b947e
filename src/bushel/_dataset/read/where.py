"""Conditions on columns: `label == 3 and image.width > 256`, in Python's own syntax.

An expression is parsed by `ast` and evaluated on arrays, node by node. Nodes that are not listed
here are refused, and nothing is ever executed. Numbers are exact, as Python's are. A comparison
with a missing value, or with the result of a division by zero, is neither true nor false, as in
SQL, and such samples are not chosen; `label is None` asks for them. A column of class numbers may
be compared with a text, which is then the name of a class: `label == "dog"`.

Operands are arrays of bool, int64, uint64, float64 or Python objects, and Python's own values.
NumPy computes where its results equal Python's. Python computes, element by element, integers that
leave 64 bits and comparisons of large integers with floats.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

import numpy as np

from bushel._index.columns import Part
from bushel._index.names import Labels
from bushel._runtime.arrays import Array, Bools
from bushel._runtime.public import did_you_mean

Binary = Callable[[Any, Any], Any]
"""A function of the module `operator`."""

_LARGEST_INT64 = (1 << 63) - 1
_LARGEST_EXACT = 1 << 53  # up to it, all integers are floats
_MOST_BITS = 4096  # bits of an integer that arithmetic may make
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)
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
    if floats == 2 or (floats and function not in _COMPARE.values()):
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


_LONGEST = 10_000  # characters of an expression
_Value = tuple[Any, Bools | None]  # an array or a constant, and which of its elements are missing
_Truth = tuple[Bools, Bools]  # where a condition is true, and where it is false: Kleene's logic
_COMPARE: Mapping[type[ast.cmpop], Binary] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: Mapping[type[ast.operator], Binary] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SIGNS: Mapping[type[ast.unaryop], Binary] = {ast.UAdd: operator.add, ast.USub: operator.sub}
_SLIPS = {
    r"(?<![=<>!])=(?!=)": "write == to compare",
    r"&&|\|\|": "write and, or",
    r"<>": "write != for unequal",
}
"""Common mistakes, and their corrections."""
# the function that takes a name which is not a Python name: `column("seg-map.width") > 3`
_CALL = "column"


def choose(
    expression: str,
    samples: int,
    column: Callable[[str], Part],
    labels: Callable[[], Labels] = dict,
) -> Bools:
    """Return bool[samples]: for which samples an expression is true.

    Args:
        expression: Comparisons (`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `is None`,
            `is not None`) of names, numbers, texts and arithmetic (`+ - * / // %`), joined by
            `and`, `or`, `not` and parentheses. A text `in` a column of texts is a part of it.
            Results equal Python's; a division by zero has none.
        samples: Number of samples.
        column: Returns the values of a column, given its name.
        labels: Returns the names of classes by column. It is called if a column of numbers is
            compared with a text.

    Raises:
        ValueError: The expression is malformed, has something else in it, compares texts with
            numbers, names a class that does not exist, or computes a number that is too large.
    """
    tree = _parsed(expression)
    try:
        with np.errstate(all="ignore"):
            true, _ = _Evaluation(cache(column), samples, labels).truth(tree)
    except RecursionError:
        raise ValueError("the condition is nested too deep") from None
    return np.array(np.broadcast_to(true, samples))


def _parsed(expression: str) -> ast.expr:
    if not isinstance(expression, str) or not expression.strip():
        hint = ": ds.filter takes a function" if callable(expression) else ""
        raise ValueError(
            "expected a condition such as 'label == 3 and "
            f"image.width > 256', not {expression!r}{hint}"
        )
    if len(expression) > _LONGEST:
        raise ValueError(
            f"the condition has {len(expression)} characters; at most {_LONGEST} are allowed"
        )
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        where = ""
        if isinstance(error, SyntaxError) and error.offset:
            where = f" at character {error.offset}"
        detail = error.msg if isinstance(error, SyntaxError) else str(error)
        hint = next(
            (f": {advice}" for slip, advice in _SLIPS.items() if re.search(slip, expression)), ""
        )
        raise ValueError(
            f"the condition {expression!r} is malformed{where}: {detail}{hint}"
        ) from None


def _name(node: ast.expr) -> str | None:
    """Return the name of a column: `label`, `image.width` or `column("any name")`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (first := _name(node.value)) is not None:
        return f"{first}.{node.attr}"
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == _CALL
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ):
        return node.args[0].value
    return None


class _Evaluation:
    """Evaluates one expression."""

    def __init__(
        self, column: Callable[[str], Part], samples: int, labels: Callable[[], Labels]
    ) -> None:
        self._column, self._samples, self._labels = column, samples, labels

    def truth(self, node: ast.expr) -> _Truth:
        """Return where a condition is true, and where it is false; where a value is missing, it is neither."""
        if isinstance(node, ast.BoolOp):
            trues, falses = zip(*map(self.truth, node.values), strict=True)
            if isinstance(node.op, ast.And):
                return reduce(operator.and_, trues), reduce(operator.or_, falses)
            return reduce(operator.or_, trues), reduce(operator.and_, falses)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            true, false = self.truth(node.operand)
            return false, true
        if isinstance(node, ast.Compare):
            lefts = [node.left, *node.comparators]
            links = map(self._compare, lefts, node.ops, node.comparators)
            trues, falses = zip(*map(_as_truth, links), strict=True)
            return reduce(operator.and_, trues), reduce(operator.or_, falses)
        value, missing = self.value(node)
        if _lacks(value, missing):
            value = np.zeros(self._samples, np.bool_)
        if np.asarray(value).dtype != np.bool_:
            raise ValueError(f"{ast.unparse(node)!r} is not a condition: compare it with something")
        return _as_truth((value, missing))

    def value(self, node: ast.expr) -> _Value:
        """Evaluate an operand: a column, a constant, or the result of arithmetic."""
        if (name := _name(node)) is not None:
            return self._column(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return node.value, None
        if isinstance(node, ast.UnaryOp) and (sign := _SIGNS.get(type(node.op))) is not None:
            return self._computed(node, sign, (0, None), self._number(node.operand))
        if isinstance(node, ast.BinOp) and (function := _ARITHMETIC.get(type(node.op))) is not None:
            return self._computed(node, function, self._number(node.left), self._number(node.right))
        advice = ""
        symbol = getattr(node, "op", None)
        if isinstance(symbol, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Invert):
            advice = ": write and, or, not, in and is"
        elif isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp):
            true, false = self.truth(node)
            return true, ~(true | false)
        raise ValueError(f"{ast.unparse(node)!r} is not allowed in a condition{advice}")

    def _computed(self, node: ast.expr, function: Binary, one: _Value, two: _Value) -> _Value:
        (a, no_a), (b, no_b) = one, two
        try:
            result, undefined = compute(function, a, b)
        except ArithmeticError as error:
            raise ValueError(f"{ast.unparse(node)!r} cannot be computed: {error}") from error
        missing = _missing(undefined, _missing(no_a, no_b))
        if missing is not None and np.ndim(result) and result.dtype.kind == "O":
            result[missing] = 0  # so that a sample without a value cannot fail later
        return result, missing

    def _number(self, node: ast.expr) -> _Value:
        value, missing = self.value(node)
        if _lacks(value, missing):
            return np.zeros(self._samples, np.int64), missing
        if is_text(value):
            raise ValueError(f"{ast.unparse(node)!r} is text, which arithmetic does not take")
        return value, missing

    def _compare(self, left: ast.expr, test: ast.cmpop, right: ast.expr) -> _Value:
        if isinstance(test, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise ValueError(
                    f"'is' asks for missing values only, as in '{ast.unparse(left)} is None'"
                )
            _, missing = self.value(left)
            absent = np.zeros(self._samples, np.bool_) if missing is None else missing
            return absent == isinstance(test, ast.Is), None
        if isinstance(test, ast.In | ast.NotIn):
            contained, missing = self._contained(left, right)
            return contained == isinstance(test, ast.In), missing
        (a, no_a), (b, no_b) = self.value(left), self.value(right)
        missing = _missing(no_a, no_b)
        if _lacks(a, no_a) or _lacks(b, no_b):
            return np.zeros(self._samples, np.bool_), missing
        if _is_time(a) or _is_time(b):
            a, b = _as_time(a, b), _as_time(b, a)
            return _COMPARE[type(test)](a, b), missing
        if is_text(a) != is_text(b) and isinstance(test, ast.Eq | ast.NotEq):
            a, b = self._class(right, a), self._class(left, b)
        if is_text(a) != is_text(b):
            kinds = ("a text", "a number") if is_text(a) else ("a number", "a text")
            raise ValueError(
                f"{ast.unparse(left)!r} is {kinds[0]}, but {ast.unparse(right)!r} is {kinds[1]}"
            )
        return compare(_COMPARE[type(test)], a, b), missing

    def _class(self, node: ast.expr, value: Any) -> Any:
        """Return the number of the class that a text names, if the other operand is a column with class names.

        Raises:
            ValueError: No class has this name.
        """
        if not isinstance(value, str) or (names := self._labels().get(_name(node) or "")) is None:
            return value
        if not value or value not in names:
            described = f"it has {len(names)} classes, such as {', '.join(map(repr, names[:3]))}"
            near = did_you_mean(value, names) or described
            raise ValueError(f"no class of {_name(node)!r} is named {value!r}: {near}")
        return names.index(value)

    def _contained(self, left: ast.expr, right: ast.expr) -> _Value:
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            value, missing = self.value(left)
            chosen: Any = np.zeros(np.shape(value), np.bool_)
            for constant in right.elts:
                operand, _ = self.value(constant)
                if np.ndim(operand):
                    raise ValueError(f"{ast.unparse(right)!r} must hold constants only")
                if _is_time(value):
                    chosen = chosen | (value == _as_time(operand, value))
                    continue
                if is_text(operand) != is_text(value) and not _lacks(value, missing):
                    operand = self._class(left, operand)
                if is_text(operand) == is_text(value):
                    chosen = chosen | compare(operator.eq, value, operand)
            return chosen, missing
        text, _ = self.value(left)
        values, missing = self.value(right)
        if isinstance(text, str) and _lacks(values, missing):
            return np.zeros(self._samples, np.bool_), missing
        if not isinstance(text, str) or not is_text(values) or isinstance(values, str):
            raise ValueError(
                f"'{ast.unparse(left)} in {ast.unparse(right)}' is not a condition: "
                "write 'name in (1, 2)', or '\"dog\" in name' for a column of texts"
            )
        return np.fromiter((text in value for value in values), np.bool_, len(values)), missing


def _is_time(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "mM"


def _as_time(value: Any, other: Any) -> Any:
    """Return an operand that is compared with times: a text of ISO 8601 as a time, a number as a count of the unit.

    Raises:
        ValueError: It is something else.
    """
    if _is_time(value):
        if _is_time(other) and value.dtype.kind != other.dtype.kind:
            raise ValueError("a time cannot be compared with a duration")
        return value
    dtype = other.dtype
    if isinstance(value, str) and dtype.kind == "M":
        try:
            return np.datetime64(value)
        except ValueError as error:
            raise ValueError(
                f"{value!r} is not a time such as '2024-06-01' or '2024-06-01T12:30'"
            ) from error
    if isinstance(value, int) and not isinstance(value, bool) and dtype.kind == "m":
        return np.int64(value).view(dtype)
    if dtype.kind == "M":
        expected = "a text such as '2024-06-01'"
    else:
        expected = f"a whole number of {np.datetime_data(dtype)[0]}"
    raise ValueError(f"times of {dtype} are compared with {expected}, not with {value!r:.50}")


def _lacks(value: Any, missing: Bools | None) -> bool:
    """Return whether no sample has a value: then any type may be meant."""
    return isinstance(value, np.ndarray) and (
        not value.size or (missing is not None and bool(missing.all()))
    )


def _as_truth(value: _Value) -> _Truth:
    true, missing = np.asarray(value[0], np.bool_), value[1]
    if missing is None:
        return true, ~true
    return true & ~missing, ~(true | missing)


def _missing(one: Bools | None, two: Bools | None) -> Bools | None:
    if one is None or two is None:
        return two if one is None else one
    return one | two
