"""Samples of several datasets in turns or at random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bushel.compat.webdataset.mixing import random_samples, round_robin_longest, round_robin_shortest
from bushel.compat.webdataset.pytorch import IterableDataset

__all__ = ["RandomMix", "RoundRobin", "random_samples", "round_robin_longest", "round_robin_shortest"]


class RoundRobin(IterableDataset):
    """Several datasets in turns.

    Args:
        datasets: What to iterate over.
        longest: Whether to go on until the longest is at its end, and not only the shortest.
    """

    def __init__(self, datasets: Sequence[Iterable[Any]], longest: bool = False) -> None:
        self.datasets, self.longest = datasets, longest

    def __iter__(self) -> Iterator[Any]:
        """The samples."""
        sources = [iter(d) for d in self.datasets]
        return round_robin_longest(*sources) if self.longest else round_robin_shortest(*sources)


class RandomMix(IterableDataset):
    """Several datasets, each sample from one chosen at random.

    Args:
        datasets: What to iterate over.
        probs: Weight of each; equal if not given.
        longest: Whether to go on until all are at their end, and not only one.
    """

    def __init__(
        self, datasets: Sequence[Iterable[Any]], probs: Sequence[float] | None = None, longest: bool = False
    ) -> None:
        self.datasets, self.probs, self.longest = datasets, probs, longest

    def __iter__(self) -> Iterator[Any]:
        """The samples."""
        return random_samples([iter(d) for d in self.datasets], self.probs, longest=self.longest)
