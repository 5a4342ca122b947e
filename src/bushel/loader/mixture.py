"""Mixtures: several datasets in fixed proportions, loaded as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bushel._dataset.concat import concat
from bushel._dataset.dataset import Dataset
from bushel._runtime.order import Mixed
from bushel._runtime.public import public

__all__ = ["Mixture", "Until", "mix", "share_block"]

Until = Literal["first", "all"] | int

BLOCK = 4096
"""Number of draws within which each dataset has its share to within one sample."""


@public()
@dataclass(frozen=True, slots=True)
class Mixture:
    """Datasets in fixed proportions, as `mix` returns them. Give it to a `Loader`.

    Attributes:
        dataset: All of the datasets, one after another.
        order: The order of an epoch.

    Examples:
        >>> mixture = bushel.mix({ds[:6]: 0.5, ds[6:]: 0.5})
        >>> len(mixture.dataset)
        12
    """

    dataset: Dataset
    order: Mixed

    def __len__(self) -> int:
        """Number of samples in an epoch."""
        return self.order.samples

    def __repr__(self) -> str:
        block = sum(self.order.shares)
        parts = [
            f"{share / block:.3g} of {size} samples"
            for share, size in zip(self.order.shares, self.order.sizes, strict=True)
        ]
        return f"<bushel.Mixture: {', '.join(parts)}; {len(self)} samples per epoch, seed {self.order.seed}>"


@public()
def mix(datasets: Mapping[Dataset, float], *, seed: int = 0, until: Until = "first") -> Mixture:
    """Mix datasets by weight, so that in every 4096 samples each has its share to within one sample.

    Each dataset is read in a random order, pass after pass, another for each pass. The order is a pure function of
    (seed, epoch, position), so a loader over a mixture resumes like any other.

    Args:
        datasets: A mapping of datasets to weights. Weights are above 0 and need not add up to 1; a share is at least
            1/4096.
        seed: Seed of the order and of random transforms, 0 to 2**64 - 1.
        until: End of an epoch: `"first"` for the end of the first dataset to be read completely; `"all"` for the time
            when all datasets were read completely, the smaller ones more than once; or a number of samples. The next
            epoch continues where this one ends.

    Raises:
        ValueError: A weight is not above 0, a dataset is empty, or there are no datasets.
        FormatError: A field is a sequence in only some of the datasets.

    Examples:
        >>> cats, dogs = ds.where("label == 0"), ds.where("label == 1")
        >>> mixture = bushel.mix({cats: 0.75, dogs: 0.25})
        >>> loader = bushel.Loader(mixture, batch_size=4)
    """
    weights = list(datasets.values())
    if not weights or not all(0 < weight < float("inf") for weight in weights):
        raise ValueError(f"invalid weights {weights}: a mixture needs datasets with finite weights above 0")
    sizes = tuple(map(len, datasets))
    if 0 in sizes:
        raise ValueError(f"a dataset of the mixture is empty: the sizes are {sizes}")
    shares = share_block(weights)
    samples = until if isinstance(until, int) else _length(Mixed(sizes, shares, 0, seed), until)
    return Mixture(concat(datasets), Mixed(sizes, shares, samples, seed))


def share_block(weights: list[float], block: int = BLOCK) -> tuple[int, ...]:
    """Divide a block by weight into integers, each at least 1 and otherwise within 1 of its exact share."""
    if len(weights) > block:
        raise ValueError(f"a mixture of {len(weights)} datasets is too large: it has at most {block}")
    exact = np.array(weights, np.float64) / sum(weights) * block
    shares = np.maximum(np.floor(exact).astype(np.int64), 1)
    while shares.sum() < block:
        shares[np.argmax(exact - shares)] += 1
    while shares.sum() > block:  # shares of small weights were raised to 1
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return tuple(shares.tolist())


def _length(order: Mixed, until: Literal["first", "all"]) -> int:
    """Return the number of draws until the first set, or the last one, was read completely."""
    sizes, shares, block = np.array(order.sizes), np.array(order.shares), sum(order.shares)
    if until == "first":
        whole = int((sizes // shares).min())  # blocks without a repetition
        sets, draws = order.draws(np.arange(whole * block, (whole + 1) * block, dtype=np.int64))
        return whole * block + int(np.argmax(draws >= sizes[sets]))
    if until == "all":
        whole = int((-(-sizes // shares) - 1).max())  # blocks after which some set is not read completely
        sets, draws = order.draws(np.arange(whole * block, (whole + 1) * block, dtype=np.int64))
        return whole * block + int(np.flatnonzero(draws == sizes[sets] - 1).max()) + 1
    raise ValueError(f'unknown until={until!r}: expected "first", "all" or a number of samples')
