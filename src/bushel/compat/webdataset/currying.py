"""Stages: functions from an iterator to an iterator, with all their other arguments given beforehand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

__all__ = ["FilterFunction", "RestCurried", "compose", "compose2", "pipeline", "pipelinefilter"]


class FilterFunction:
    """A stage. It pickles if the function and the arguments do.

    Args:
        f: Takes the source first.
        *args: What it takes next.
        **kw: What else it takes.
    """

    def __init__(self, f: Callable[..., Iterator[Any]], *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Any) -> Iterator[Any]:
        """Read from a source."""
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        return f"<{self.f.__name__} {self.args} {self.kw}>"


class RestCurried:
    """A function that makes stages: it takes all arguments but the source."""

    def __init__(self, f: Callable[..., Iterator[Any]]) -> None:
        self.f = f

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        """A stage with these arguments."""
        return FilterFunction(self.f, *args, **kw)


def pipelinefilter(f: Callable[..., Iterator[Any]]) -> RestCurried:
    """From a function `f(source, …)` to a function `g(…)` that makes stages."""
    result = RestCurried(f)
    functools.update_wrapper(result, f)
    return result


def compose2(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """First `f`, then `g`."""
    return lambda x: g(f(x))


def compose(*args: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One function of several, the first first."""
    return reduce(compose2, args)


def pipeline(source: Any, *args: Callable[[Any], Any]) -> Any:
    """A source led through stages."""
    return compose(*args)(source) if args else source
