"""Assertions of the suite, with and without pytest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bushel._dataset.views.stored_values import same_value


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


def expect_equal(found: Any, expected: Any, what: str) -> None:
    """Fail unless two values are the same."""
    if not same_value(found, expected):
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
