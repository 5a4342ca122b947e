"""Mixtures: several datasets in fixed proportions, as one thing to load from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bushel.core.dataset.concat import concat
from bushel.core.dataset.dataset import Dataset
from bushel.core.order import Mixed

__all__ = ["Mixture", "Until", "mix", "share_block"]

Until = Literal["first", "all"] | int

BLOCK = 4096
"""Draws in which the proportions are kept to one sample."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Datasets in fixed proportions. Give it to a `Loader`.

    Attributes:
        dataset: All of them, one after another.
        order: What comes when.
    """

    dataset: Dataset
    order: Mixed

    def __len__(self) -> int:
        """Samples in an epoch."""
        return self.order.samples


def mix(datasets: Mapping[Dataset, float], *, seed: int = 0, until: Until = "first") -> Mixture:
    """Mix datasets by weight, so that in every 4096 samples each has its share to within one sample.

    Every dataset is gone through in an order of its own, again and again, each time another. What comes when is a pure
    function of (seed, epoch, position), so a loader over a mixture is resumed like any other.

    Args:
        datasets: Dataset to weight. Weights are above 0 and need not add up to 1; under 1/4096 they count as that.
        seed: 0 to 2**64 - 1.
        until: When an epoch ends: `"first"`: before the first dataset would begin again; `"all"`: when all have been
            gone through, the smaller ones more than once; or the number of samples. The next epoch goes on where
            this one ended.

    Raises:
        ValueError: A weight is not above 0, a dataset is empty, or there are none.
        FormatError: The datasets have a field of one name that is a sequence in only some of them.
    """
    weights = list(datasets.values())
    if not weights or not all(0 < weight < float("inf") for weight in weights):
        raise ValueError(f"a mixture is of datasets with weights above 0: {weights}")
    sizes = tuple(map(len, datasets))
    if 0 in sizes:
        raise ValueError(f"an empty dataset cannot have a share in a mixture: sizes {sizes}")
    shares = share_block(weights)
    samples = until if isinstance(until, int) else _length(Mixed(sizes, shares, 0, seed), until)
    return Mixture(concat(datasets), Mixed(sizes, shares, samples, seed))


def share_block(weights: list[float], block: int = BLOCK) -> tuple[int, ...]:
    """Share a block by weight: whole numbers that add up to it, each within 1 of its exact share but at least 1."""
    if len(weights) > block:
        raise ValueError(f"a mixture is of at most {block} datasets")
    exact = np.array(weights, np.float64) / sum(weights) * block
    shares = np.maximum(np.floor(exact).astype(np.int64), 1)
    while shares.sum() < block:
        shares[np.argmax(exact - shares)] += 1
    while shares.sum() > block:  # where small weights were raised to 1, the largest share gives way
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return tuple(shares.tolist())


def _length(order: Mixed, until: Literal["first", "all"]) -> int:
    """Draws until the first set, or the last, has been gone through once."""
    sizes, shares, block = np.array(order.sizes), np.array(order.shares), sum(order.shares)
    if until == "first":
        whole = int((sizes // shares).min())  # blocks that surely have no repetition
        sets, draws = order.draws(np.arange(whole * block, (whole + 1) * block, dtype=np.int64))
        return whole * block + int(np.argmax(draws >= sizes[sets]))
    if until == "all":
        whole = int((-(-sizes // shares) - 1).max())  # blocks after which some set is not through
        sets, draws = order.draws(np.arange(whole * block, (whole + 1) * block, dtype=np.int64))
        return whole * block + int(np.flatnonzero(draws == sizes[sets] - 1).max()) + 1
    raise ValueError(f'until is "first", "all" or a number of samples: {until!r}')
