"""Assertions of the suite, with and without pytest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


class ConformanceError(AssertionError):
    """A check failed; the message names the check and its values.

    Examples:
        >>> from bushel.testing import check_codec
        >>> check_codec("f32", [0.1])  # float32 is not exact enough
        Traceback (most recent call last):
            ...
        bushel.testing.expect.ConformanceError: codec 'f32', value 0.1: expected 0.1, found
        0.10000000149011612
    """


class InapplicableError(Exception):
    """A check needs a feature that this container does not have, such as sequence fields.

    Examples:
        >>> from bushel.testing import InapplicableError
        >>> def check_clips(readable):  # a check of your own
        ...     if "clip" not in readable.golden.samples[0]:
        ...         raise InapplicableError(f"{readable.container} has no clips")
    """


def expect(condition: object, message: str) -> None:
    """Fail with a message unless the condition is true."""
    if not condition:
        raise ConformanceError(message)


def same(one: Any, other: Any) -> bool:
    """Return whether two decoded values are equal, arrays by dtype, shape and content."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return (
            isinstance(one, np.ndarray)
            and isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same(value, other[name]) for name, value in one.items()
        )
    if (
        isinstance(one, Sequence)
        and isinstance(other, Sequence)
        and not isinstance(one, str | bytes)
    ):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def expect_equal(found: Any, expected: Any, what: str) -> None:
    """Fail unless two values are the same."""
    if not same(found, expected):
        raise ConformanceError(f"{what}: expected {_short(expected)}, found {_short(found)}")


@contextmanager
def expect_raises(*kinds: type[BaseException], what: str) -> Iterator[None]:
    """Fail unless the block raises one of these errors."""
    try:
        yield
    except kinds:
        return
    names = " or ".join(kind.__name__ for kind in kinds)
    raise ConformanceError(f"{what}: expected {names}, but nothing was raised")


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) <= 300:
        return text
    return f"{text[:200]} ... ({len(text)} characters)"
