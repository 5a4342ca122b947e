"""Stages: functions from an iterator to an iterator, with all other arguments given beforehand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

from bushel.loader import cpu_count, parallel_map

from .handlers import Handler, reraise_exception
from .utils import pytorch_worker_info

_PREFETCH = 4  # samples in work or waiting, for each thread
_MOST_THREADS = 16


class FilterFunction:
    """A stage: `f`, which takes the source first, with its other arguments. It pickles if these do."""

    def __init__(self, f: Callable[..., Iterator[Any]], *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Any) -> Iterator[Any]:
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        return f"<{self.f.__name__} {self.args} {self.kw}>"


class RestCurried:
    """A function that makes stages: it takes all arguments of `f` except the source."""

    def __init__(self, f: Callable[..., Iterator[Any]]) -> None:
        self.f = f

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        return FilterFunction(self.f, *args, **kw)


def pipelinefilter(f: Callable[..., Iterator[Any]]) -> RestCurried:
    """Turn a function `f(source, …)` into a function `g(…)` that makes stages."""
    result = RestCurried(f)
    functools.update_wrapper(result, f)
    return result


def compose2(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that calls `f`, then `g`."""
    return lambda x: g(f(x))


def compose(*args: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that calls all of these, the first one first."""
    return functools.reduce(compose2, args)


def pipeline(source: Any, *args: Callable[[Any], Any]) -> Any:
    """Lead a source through stages."""
    return compose(*args)(source) if args else source


def handled(data: Iterable[Any], f: Callable[[Any], Any], handler: Handler) -> Iterator[Any]:
    """Yield `f(sample)` for each sample. An exception goes to the handler: True skips the sample, False stops."""
    for sample in data:
        try:
            result = f(sample)
        except Exception as error:  # the handler decides
            if handler(error):
                continue
            return
        yield result


def map_ahead(
    data: Iterable[Any], f: Callable[[Any], Any], handler: Handler = reraise_exception
) -> Iterator[Any]:
    """As `handled`; several threads call a function whose attribute `concurrent` is true. The order stays."""
    threads = _threads() if getattr(f, "concurrent", False) else 1
    if threads == 1:
        yield from handled(data, f, handler)
        return
    call, limit = functools.partial(_outcome, f), threads * _PREFETCH
    with closing(
        parallel_map(call, data, threads=threads, limit=limit, name="bushel-webdataset")
    ) as outcomes:
        yield from handled(outcomes, _value, handler)


def _threads() -> int:
    """Return the number of CPUs; 1 in a worker of a PyTorch loader, because its workers share the CPUs."""
    return 1 if pytorch_worker_info()[3] > 1 else min(cpu_count(), _MOST_THREADS)


def _outcome(f: Callable[[Any], Any], sample: Any) -> tuple[Any, Exception | None]:
    try:
        return f(sample), None
    except Exception as error:  # the handler decides, in the consumer's thread
        return None, error


def _value(outcome: tuple[Any, Exception | None]) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value
