"""Pipelines: a source and the stages that its samples go through."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Self, cast

from .pytorch import DataLoader, IterableDataset
from .utils import PipelineStage


class DataPipeline(IterableDataset, PipelineStage):
    """A source (a dataset, a list, or a function without arguments), then stages.

    Stages are functions from an iterator to an iterator, or `PipelineStage` objects; a list holds
    several, None is skipped.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.pipeline: list[Any] = []
        self.length = -1
        self.repetitions = 1
        self.nsamples = -1
        for arg in args:
            self.pipeline += arg if isinstance(arg, list) else [] if arg is None else [arg]

    def close(self) -> None:
        """Close the stages that can be closed."""
        for step in self.pipeline:
            if hasattr(step, "close"):
                step.close()
        self.pipeline = []

    def invoke(self, f: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Return the iterator of a source, or of a stage over a source."""
        if isinstance(f, IterableDataset | DataLoader) and not args:
            return iter(cast("Iterable[Any]", f))
        if isinstance(f, PipelineStage):
            return f.run(*args, **kwargs)
        if isinstance(f, list):
            return iter(f)
        if callable(f):
            iterator: Iterator[Any] = f(*args, **kwargs)
            return iterator
        raise ValueError(f"{f}: not a valid pipeline stage")

    def run(self, *args: Any, **kw: Any) -> Iterator[Any]:
        """Yield the samples, as the source of another pipeline."""
        return iter(self)

    def iterator1(self) -> Iterator[Any]:
        """Iterate once through all stages."""
        if not self.pipeline:
            raise ValueError("this pipeline has no source: it is empty, or was closed")
        source = self.invoke(self.pipeline[0])
        for step in self.pipeline[1:]:
            source = self.invoke(step, source)
        return source

    def iterator(self) -> Iterator[Any]:
        """Iterate `repetitions` times through all stages; a pipeline without samples ends after the first time."""
        for _ in range(self.repetitions):
            empty = True
            for sample in self.iterator1():
                empty = False
                yield sample
            if empty:
                return

    def __iter__(self) -> Iterator[Any]:
        return islice(self.iterator(), self.nsamples) if self.nsamples > 0 else self.iterator()

    def stage(self, i: int) -> Any:
        return self.pipeline[i]

    def append(self, f: Any) -> None:
        self.pipeline.append(f)

    def compose(self, *args: Any) -> Self:
        """Return a copy of this pipeline with more stages."""
        result = copy.copy(self)
        result.pipeline = [*self.pipeline, *args]
        return result

    def with_length(self, n: int, silent: bool = False) -> Self:
        """Set the `len` of this pipeline, which some trainers need. The samples stay the same."""
        if not silent:
            warnings.warn(
                ".with_length() only sets the value of __len__ for compatibility with some "
                "training environments. It does not change the number of samples in an epoch.",
                stacklevel=2,
            )
        self.size = n
        self.__class__ = _with_len(cast("Hashable", type(self)))
        return self

    def with_epoch(self, nsamples: int = -1, nbatches: int = -1) -> Self:
        """Limit or repeat the pipeline so that an epoch has `nsamples` samples (or `nbatches` batches)."""
        self.repetitions = sys.maxsize
        self.nsamples = max(nsamples, nbatches)
        return self

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> Self:
        """Repeat all samples `nepochs` times (default: without end), up to `nbatches` samples or batches."""
        self.repetitions = nepochs if nepochs > 0 else sys.maxsize
        self.nsamples = nbatches
        return self


@lru_cache(maxsize=64)
def _with_len(kind: Any) -> type[Any]:
    """Return a subclass with a `len`, which pickles as the class that it comes from."""
    if hasattr(kind, "__len__"):
        return cast("type[Any]", kind)

    def length(self: Any) -> int:
        return int(self.size)

    def reduce(self: Any) -> tuple[Any, ...]:
        return _restore, (kind, self.__dict__)

    return type(f"{kind.__name__}_Length", (kind,), {"__len__": length, "__reduce__": reduce})


def _restore(kind: type[Any], state: dict[str, Any]) -> Any:
    restored = object.__new__(_with_len(cast("Hashable", kind)))
    restored.__dict__.update(state)
    return restored
