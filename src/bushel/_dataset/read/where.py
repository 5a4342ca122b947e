"""Conditions on columns: `label == 3 and image.width > 256`, in Python's own syntax.

An expression is parsed by `ast` and evaluated on arrays, node by node. Nodes that are not listed
here are refused, and nothing is ever executed. Numbers are exact, as Python's are. A comparison
with a missing value, or with the result of a division by zero, is neither true nor false, as in
SQL, and such samples are not chosen; `label is None` asks for them. A column of class numbers may
be compared with a text, which is then the name of a class: `label == "dog"`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bushel._dataset.read.exact_arithmetic import Binary, compare, compute, is_text, negative
from bushel._index.class_names import Labels
from bushel._index.columns import Part
from bushel._runtime.arrays import Bools
from bushel._runtime.public import did_you_mean

_LONGEST = 10_000  # characters of an expression
_DEEPEST = 50  # levels of nesting
_Value = tuple[Any, Bools | None]  # an array or a constant, and which of its elements are missing
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
    known: dict[str, Part] = {}

    def values(name: str) -> Part:
        if name not in known:
            known[name] = column(name)
        return known[name]

    with np.errstate(all="ignore"):
        value, missing = _Evaluation(values, samples, labels).truth(tree)
    chosen = np.broadcast_to(np.asarray(value, np.bool_), samples)
    if missing is not None:
        return chosen & ~missing
    return np.array(chosen)


def _parsed(expression: str) -> ast.expr:
    if not isinstance(expression, str) or not expression.strip():
        hint = ": ds.filter takes a function" if callable(expression) else ""
        raise ValueError(
            "expected a condition such as 'label == 3 and image.width > 256', not"
            f" {expression!r}{hint}"
        )
    if len(expression) > _LONGEST:
        raise ValueError(
            f"the condition has {len(expression)} characters; at most {_LONGEST} are allowed"
        )
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
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
    if _depth(tree) > _DEEPEST:
        raise ValueError(f"the condition is nested more than {_DEEPEST} levels deep")
    return tree


def _depth(tree: ast.AST) -> int:
    deepest, pending = 0, [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [
            (child, depth + 1)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        ]
    return deepest


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

    def truth(self, node: ast.expr) -> _Value:
        """Return a condition as truth values."""
        if isinstance(node, ast.BoolOp):
            found = [self.truth(each) for each in node.values]
            join = _both if isinstance(node.op, ast.And) else _either
            result = found[0]
            for other in found[1:]:
                result = join(result, other)
            return result
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value, missing = self.truth(node.operand)
            return np.logical_not(value), missing
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        value, missing = self.value(node)
        if _lacks(value, missing):
            return np.zeros(self._samples, np.bool_), missing
        if np.asarray(value).dtype != np.bool_:
            raise ValueError(f"{ast.unparse(node)!r} is not a condition: compare it with something")
        return value, missing

    def value(self, node: ast.expr) -> _Value:
        """Evaluate an operand: a column, a constant, or the result of arithmetic."""
        if (name := _name(node)) is not None:
            return self._column(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return node.value, None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value, missing = self._number(node.operand)
            return (negative(value) if isinstance(node.op, ast.USub) else value), missing
        if isinstance(node, ast.BinOp) and (function := _ARITHMETIC.get(type(node.op))) is not None:
            (a, no_a), (b, no_b) = self._number(node.left), self._number(node.right)
            try:
                result, undefined = compute(function, a, b)
            except ArithmeticError as error:
                raise ValueError(f"{ast.unparse(node)!r} cannot be computed: {error}") from error
            missing = _missing(undefined, _missing(no_a, no_b))
            if missing is not None and result.dtype.kind == "O":
                result[missing] = 0  # so that a sample without a value cannot fail later
            return result, missing
        if isinstance(node, ast.BoolOp | ast.Compare) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            return self.truth(node)
        raise ValueError(f"{ast.unparse(node)!r} is not allowed in a condition")

    def _number(self, node: ast.expr) -> _Value:
        value, missing = self.value(node)
        if _lacks(value, missing):
            return np.zeros(self._samples, np.int64), missing
        if is_text(value):
            raise ValueError(f"{ast.unparse(node)!r} is text, which arithmetic does not take")
        return (
            value + 0 if isinstance(value, bool) else value * 1 if _is_bool(value) else value
        ), missing

    def _comparison(self, node: ast.Compare) -> _Value:
        result: _Value | None = None
        left = node.left
        for test, right in zip(node.ops, node.comparators, strict=True):
            outcome = self._compare(left, test, right)
            result = outcome if result is None else _both(result, outcome)
            left = right
        assert result is not None  # Python's grammar has a comparator at least
        return result

    def _compare(self, left: ast.expr, test: ast.cmpop, right: ast.expr) -> _Value:
        if isinstance(test, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise ValueError(
                    f"'is' asks for missing values only, as in '{ast.unparse(left)} is None'"
                )
            _, missing = self.value(left)
            if missing is None:
                absent = np.zeros(self._samples, np.bool_)
            else:
                absent = missing
            return (absent if isinstance(test, ast.Is) else ~absent), None
        if isinstance(test, ast.In | ast.NotIn):
            contained, missing = self._contained(left, right)
            return (contained if isinstance(test, ast.In) else np.logical_not(contained)), missing
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
                f"'{ast.unparse(left)} in {ast.unparse(right)}' is not a condition: write 'name"
                " in (1, 2)', or "
                "'\"dog\" in name' for a column of texts"
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


def _both(one: _Value, two: _Value) -> _Value:
    """Kleene's `and`: false if either is false, else missing if either is missing."""
    (a, no_a), (b, no_b) = one, two
    value = np.logical_and(a, b)
    if no_a is None and no_b is None:
        return value, None
    false = _known(np.logical_not(a), no_a) | _known(np.logical_not(b), no_b)
    missing = _missing(no_a, no_b)
    return value, None if missing is None else missing & ~false


def _either(one: _Value, two: _Value) -> _Value:
    """Kleene's `or`: true if either is true, else missing if either is missing."""
    (a, no_a), (b, no_b) = one, two
    if no_a is None and no_b is None:
        return np.logical_or(a, b), None
    true = _known(np.asarray(a), no_a) | _known(np.asarray(b), no_b)
    missing = _missing(no_a, no_b)
    return true, None if missing is None else missing & ~true


def _known(values: Any, missing: Bools | None) -> Any:
    if missing is None:
        return values
    return values & ~missing


def _missing(one: Bools | None, two: Bools | None) -> Bools | None:
    if one is None or two is None:
        return two if one is None else one
    return one | two


def _is_bool(value: Any) -> bool:
    return getattr(value, "dtype", None) == np.bool_
