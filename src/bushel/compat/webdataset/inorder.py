"""Samples led through a function, by several threads at once where that is allowed, and in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from bushel.compat.webdataset.currying import pipelinefilter
from bushel.compat.webdataset.handlers import Handler, reraise_exception
from bushel.compat.webdataset.utils import pytorch_worker_info
from bushel.core.parallel import cpu_count, parallel_map

__all__ = ["map", "map_ahead"]

_AHEAD = 4
"""Samples on their way, for each thread."""
_MOST_THREADS = 16


def _map(data: Iterable[Any], f: Callable[[Any], Any], handler: Handler = reraise_exception) -> Iterator[Any]:
    """Lead samples through a function. Where it makes None of one, that is left out.

    A dict that becomes a dict keeps its `__key__`.

    Args:
        data: The source.
        f: The function. One with a true attribute `concurrent` is called by several threads, some samples ahead.
        handler: What to do about an exception of the function.
    """
    for sample, result in _results(data, f, handler):
        if result is None:
            continue
        if isinstance(sample, dict) and isinstance(result, dict):
            result["__key__"] = sample.get("__key__")
        yield result


map = pipelinefilter(_map)


def map_ahead(data: Iterable[Any], f: Callable[[Any], Any], handler: Handler = reraise_exception) -> Iterator[Any]:
    """As `map`, of what the function makes as it is."""
    for _, result in _results(data, f, handler):
        yield result


def _results(data: Iterable[Any], f: Callable[[Any], Any], handler: Handler) -> Iterator[tuple[Any, Any]]:
    threads = _threads() if getattr(f, "concurrent", False) else 1
    if threads == 1:
        outcomes = (_call(f, sample) for sample in data)
    else:
        call, limit = partial(_call, f), threads * _AHEAD
        outcomes = parallel_map(call, data, workers=threads, limit=limit, name="bushel-webdataset")
    with closing(outcomes):
        for sample, result, error in outcomes:
            if error is None:
                yield sample, result
            elif not handler(error):
                return


def _threads() -> int:
    """One for each processor; in a worker of a PyTorch loader, of which there are several, none besides its own."""
    if pytorch_worker_info()[3] > 1:
        return 1
    return min(cpu_count(), _MOST_THREADS)


_Outcome = tuple[Any, Any, Exception | None]


def _call(f: Callable[[Any], Any], sample: Any) -> _Outcome:
    try:
        return sample, f(sample), None
    except Exception as error:  # the handler decides, in the consumer's thread
        return sample, None, error
