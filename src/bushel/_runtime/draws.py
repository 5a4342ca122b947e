"""Orders that draw by classes or weights."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from bushel import kernels

from .arrays import F64, I64, Array
from .order import (
    BALANCED,
    ORDER_VERSION,
    WEIGHTED,
    OncePerEpoch,
    check_order,
    check_positions,
    derive,
    draw_samples,
    draws_of_epoch,
)

_SUMS_OF_A_GUIDE = 8  # from one entry of the guide to the next
_BALANCED_BLOCK = 4096  # smallest number of draws in which every class has exactly its share


class Weighted(Struct, frozen=True, eq=False, dict=True):
    """Random samples with replacement. The probability of a sample is proportional to its weight."""

    # float64[samples], the sums of the weights up to each sample, ascending; the last one is above
    # 0
    sums: F64
    seed: int = 0  # 0 to 2**64 - 1

    def __post_init__(self) -> None:
        check_order(self)

    @property
    def samples(self) -> int:
        """Draws in an epoch: as many as there are samples."""
        return len(self.sums)

    @property
    def version(self) -> str:
        """Kind, CRC-32 of the sums, and version. A loader refuses a saved state of another version."""
        return f"weighted({kernels.crc32(np.ascontiguousarray(self.sums)):08x})/{ORDER_VERSION}"

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        check_positions(self.samples, epoch, positions)
        if not self.samples:
            return positions.copy()
        key = derive(ORDER_VERSION, WEIGHTED, self.samples, self.seed, epoch)
        drawn = kernels.draw_by_weight(self.sums, self._guide, key, positions)
        # of those with a weight above 0
        last = np.searchsorted(self.sums, self.sums[-1:], side="left")
        return np.minimum(drawn, last)

    @cached_property
    def _guide(self) -> I64:
        """Where to look for a number in the sums."""
        return kernels.guide_sums(self.sums, max(1, self.samples // _SUMS_OF_A_GUIDE))


class Balanced(Struct, frozen=True, eq=False):
    """Samples of every class equally often. A class repeats its samples only after all of them were drawn.

    An endless sequence of draws is cut into blocks, in which every class has the same share, in
    random order. The draws from a class follow an `Exact` order, another for each pass through it.
    """

    members: I64  # int64[n], the samples of the first class, then the samples of the second one, …
    sizes: tuple[int, ...]  # number of samples in each class, 1 or more
    samples: int  # draws in an epoch
    seed: int = 0  # 0 to 2**64 - 1

    def __post_init__(self) -> None:
        check_order(self)

    @property
    def version(self) -> str:
        """Kind, CRC-32 of the members and sizes, and version. A loader refuses a saved state of another version."""
        sum_of_sizes = kernels.crc32(np.array(self.sizes, np.int64))
        return f"balanced({kernels.crc32(np.ascontiguousarray(self.members), sum_of_sizes):08x})/{ORDER_VERSION}"

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        draws = draws_of_epoch(self.samples, epoch, positions)
        # of each class in a block
        share = -(-_BALANCED_BLOCK // len(self.sizes))
        shares = np.full(len(self.sizes), share, np.int64)
        state = derive(ORDER_VERSION, BALANCED, int(shares.sum()), self.seed)
        classes, earlier = kernels.mixed_draws(draws, shares, state)
        return self.members[draw_samples(classes, earlier, self.sizes, self.seed)]


def weighted_order(weights: Array, seed: int) -> Weighted:
    """Return the order that draws samples by weight.

    Args:
        weights: Numbers [samples], finite and not negative, at least one above 0.
        seed: The seed.
    """
    if weights.ndim != 1 or weights.dtype.kind not in "biuf":
        raise ValueError(
            "weights= must be one number for each sample, "
            f"not {weights.dtype} of shape {weights.shape}"
        )
    probabilities = weights.astype(np.float64)
    sums = np.cumsum(probabilities)
    if len(probabilities) and not (
        np.isfinite(probabilities).all() and (probabilities >= 0).all() and 0 < sums[-1] < np.inf
    ):
        raise ValueError("weights must be finite and 0 or more, and one of them above 0")
    return Weighted(sums, seed)


def balanced_order(classes: Array, name: str, seed: int) -> Balanced:
    """Return the order that draws every class equally often.

    Args:
        classes: [samples], the class of each sample. Masked ones are never drawn.
        name: Name of the column, for errors.
        seed: The seed.
    """
    with_class = np.flatnonzero(~np.ma.getmaskarray(classes))
    _, numbers, sizes = np.unique(
        np.ma.getdata(classes)[with_class], return_inverse=True, return_counts=True
    )
    if len(classes) and not len(with_class):
        raise ValueError(f"balance={name!r}: no sample has a value in this column")
    members = with_class[np.argsort(numbers.reshape(-1), kind="stable")].astype(np.int64)
    return Balanced(members, tuple(sizes.tolist()), len(classes), seed)


Order = OncePerEpoch | Weighted | Balanced
