"""Samples of several datasets, in turns or at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from .pytorch import IterableDataset


def round_robin_shortest(*sources: Iterator[Any]) -> Iterator[Any]:
    """Yield one sample of each source in turns, until one source ends."""
    while sources:
        for source in sources:
            try:
                sample = next(source)
            except StopIteration:
                return
            yield sample


def round_robin_longest(*sources: Iterator[Any]) -> Iterator[Any]:
    """Yield one sample of each source in turns, until all sources end."""
    left, i = list(sources), 0
    while left:
        i %= len(left)
        try:
            sample = next(left[i])
        except StopIteration:
            del left[i]
            continue
        i += 1
        yield sample


def random_samples(
    sources: Iterable[Iterator[Any]], probs: Iterable[float] | None = None, longest: bool = False
) -> Iterator[Any]:
    """Yield each sample from a source chosen at random, with weights `probs`, by Python's global generator.

    If `longest`, continue until all sources end, not only one.
    """
    left = list(sources)
    weights = [1.0] * len(left) if probs is None else list(probs)
    if len(weights) != len(left):
        raise ValueError(f"{len(weights)} probabilities for {len(left)} datasets")
    while left and (total := sum(weights)) > 0:
        chance = random.random()
        bounds = accumulate(weight / total for weight in weights)
        i = next((at for at, bound in enumerate(bounds) if chance <= bound), len(left) - 1)
        try:
            sample = next(left[i])
        except StopIteration:
            if not longest:
                return
            del left[i], weights[i]
            continue
        yield sample


class RoundRobin(IterableDataset):
    """Several datasets in turns: to the end of the shortest, or of the longest."""

    def __init__(self, datasets: Sequence[Iterable[Any]], longest: bool = False) -> None:
        self.datasets, self.longest = datasets, longest

    def __iter__(self) -> Iterator[Any]:
        return (round_robin_longest if self.longest else round_robin_shortest)(
            *map(iter, self.datasets)
        )


class RandomMix(IterableDataset):
    """Several datasets, each sample from one chosen at random; arguments as for `random_samples`."""

    def __init__(
        self,
        datasets: Sequence[Iterable[Any]],
        probs: Sequence[float] | None = None,
        longest: bool = False,
    ) -> None:
        self.datasets, self.probs, self.longest = datasets, probs, longest

    def __iter__(self) -> Iterator[Any]:
        return random_samples([iter(d) for d in self.datasets], self.probs, longest=self.longest)
