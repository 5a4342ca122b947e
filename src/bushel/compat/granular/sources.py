"""Sources of Granular 0.24: functions from a step to a datapoint, which can be nested and given to a `Loader`.

A source is anything callable with a step, or anything with `[index]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .base import WrongTypeError, WrongUseError

Source = Callable[[int], Any]


@lru_cache(maxsize=4)
def permutation(length: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return the order of an epoch, the same as in every version of Granular: int64[length]."""
    order: npt.NDArray[np.int64] = np.random.default_rng(seed=[seed, epoch]).permutation(
        np.arange(length)
    )
    return order


def shuffled(length: int, seed: int, step: int, shuffle: bool) -> int:
    """Return the index of a step in endless epochs of a source."""
    epoch, position = divmod(step, length)
    return int(permutation(length, seed, epoch)[position]) if shuffle else position


def convert(source: Any) -> Source:
    """Return a source as a function."""
    if callable(source):
        return source  # type: ignore[no-any-return]
    if hasattr(source, "__getitem__"):
        return source.__getitem__  # type: ignore[no-any-return]
    raise WrongTypeError(
        f"a source is callable with a step, or has [index]; {type(source).__name__} is neither"
    )


def _length(source: Any, length: int | None) -> int:
    size = len(source) if length is None else length
    if size < 1:
        raise WrongUseError(f"a source needs at least one datapoint, not {size}")
    return size


class Transform:
    """Applies `fn(datapoint, seed=[seed, step])`."""

    def __init__(self, source: Any, fn: Callable[..., Any], seed: int = 0) -> None:
        self.source, self.fn, self.seed = convert(source), fn, seed

    def __call__(self, step: int) -> Any:
        return self.fn(self.source(step), seed=[self.seed, step])


class Sample:
    """Draws with replacement, independently for each step."""

    def __init__(self, source: Any, length: int | None = None, seed: int = 0) -> None:
        self.length = _length(source, length)
        self.source, self.seed = convert(source), seed

    def __call__(self, step: int) -> Any:
        rng = np.random.default_rng(seed=[self.seed, step])
        return self.source(int(rng.choice(self.length)))


class Epochs:
    """Repeats a source, in a new order in each epoch. Granular up to 0.24.2 takes every `seed` for 0."""

    def __init__(
        self, source: Any, length: int | None = None, shuffle: bool = True, seed: int = 0
    ) -> None:
        self.length = _length(source, length)
        self.source, self.shuffle, self.seed = convert(source), shuffle, seed

    def __call__(self, step: int) -> Any:
        return self.source(shuffled(self.length, self.seed, step, self.shuffle))


class Truncate:
    """Repeats the first `limit` datapoints of a source."""

    def __init__(self, source: Any, limit: int, length: int | None = None) -> None:
        self.limit = min(_length(source, length), limit)
        self.source = convert(source)

    def __call__(self, step: int) -> Any:
        return self.source(step % self.limit)


class Interleave:
    """Takes one datapoint of each source in turn."""

    def __init__(self, sources: Sequence[Any]) -> None:
        self.sources = [convert(source) for source in sources]

    def __call__(self, step: int) -> Any:
        inner, outer = divmod(step, len(self.sources))
        return self.sources[outer](inner)


class Mix:
    """Draws a source for each step, by weights, and returns its datapoint of the same step."""

    def __init__(self, sources: Sequence[Any], weights: Sequence[float], seed: int = 0) -> None:
        if len(sources) != len(weights):
            raise WrongUseError(f"{len(sources)} sources and {len(weights)} weights")
        self.sources = [convert(source) for source in sources]
        self.weights = np.asarray(weights, np.float32)
        self.weights /= self.weights.sum()
        self.seed = seed

    def __call__(self, step: int) -> Any:
        rng = np.random.default_rng(seed=[self.seed, step])
        return self.sources[rng.choice(len(self.sources), p=self.weights)](step)
