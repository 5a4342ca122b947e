"""One iterator of several: in turns, or at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

__all__ = ["random_samples", "round_robin_longest", "round_robin_shortest"]


def round_robin_shortest(*sources: Iterator[Any]) -> Iterator[Any]:
    """One sample of each source in turns, until one has none left."""
    while sources:
        for source in sources:
            try:
                sample = next(source)
            except StopIteration:
                return
            yield sample


def round_robin_longest(*sources: Iterator[Any]) -> Iterator[Any]:
    """One sample of each source in turns, until none has any left."""
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
    """Each sample from a source chosen by Python's global generator.

    Args:
        sources: The sources.
        probs: Weight of each; equal if not given.
        longest: Whether to go on until all are at their end, and not only one.

    Raises:
        ValueError: There are other numbers of weights and sources.
    """
    left = list(sources)
    weights = [1.0] * len(left) if probs is None else list(probs)
    if len(weights) != len(left):
        raise ValueError(f"{len(weights)} probabilities for {len(left)} datasets")
    while left:
        total = sum(weights)
        if total <= 0:
            return  # those that are left were not to be chosen
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
