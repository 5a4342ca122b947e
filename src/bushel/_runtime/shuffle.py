"""Orders that draw by shares or weights, and the order that `shuffle=` and `seed=` choose."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct

from bushel import kernels

from .arrays import F64, I64, Array
from .order import (
    LIMIT,
    MIXED,
    ORDER_VERSION,
    PART,
    WEIGHTED,
    Blocks,
    Exact,
    Sequential,
    check_order,
    check_positions,
    derive,
)
from .public import public

BLOCK = 4096
"""Number of draws of a block of a mixture without names, in which each dataset has its share to within one sample."""
_SUMS_OF_A_GUIDE = 8  # from one entry of the guide to the next
_BALANCED_BLOCK = 4096  # smallest number of draws in which every class has exactly its share


@public("bushel.loader")
class Mixed(Struct, frozen=True):
    """Several sets of samples, numbered consecutively, in fixed proportions.

    An endless sequence of draws is cut into blocks. Each block has `shares[i]` draws from set i, in
    random order. The draws from a set follow an `Exact` order, another for each pass through the
    set. An epoch is `samples` draws, and the next epoch continues where it ends, so no set starts
    again before all of its samples were drawn.

    Attributes:
        sizes: Samples in each set.
        shares: Draws from each set in a block, at least 1.
        samples: Draws in an epoch.
        seed: 0 to 2**64 - 1.

    Examples:
        >>> from bushel.loader import Mixed
        >>> order = Mixed(sizes=(6, 6), shares=(3, 1), samples=8)
        >>> sets, earlier = order.draws(np.arange(4))
        >>> sorted(sets.tolist())  # three of the first set, one of the second
        [0, 0, 0, 1]
    """

    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_order(self)
        if (
            not self.sizes
            or len(self.sizes) != len(self.shares)
            or min(self.sizes) < 1
            or min(self.shares) < 1
        ):
            raise ValueError(
                f"sizes {self.sizes}, shares {self.shares}: expected one of each per set, 1 or more"
            )

    @property
    def version(self) -> str:
        """Kind, parameters and version. A loader refuses a saved state of another version."""
        sizes, shares = (",".join(map(str, numbers)) for numbers in (self.sizes, self.shares))
        return f"mixed({sizes};{shares};{self.samples})/{ORDER_VERSION}"

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        check_positions(self.samples, epoch, positions)
        if (epoch + 1) * self.samples > LIMIT:
            raise ValueError(f"epoch {epoch} of a mixture ends beyond 2**48 draws")
        sets, draws = self.draws(positions + epoch * self.samples)
        sizes = np.array(self.sizes, np.int64)
        return kernels.draw_samples(sets, draws, sizes, derive(ORDER_VERSION, PART), self.seed)

    def draws(self, positions: I64) -> tuple[I64, I64]:
        """Return the set of each draw of the endless sequence, and the number of earlier draws from that set."""
        state = derive(ORDER_VERSION, MIXED, sum(self.shares), self.seed)
        return kernels.mixed_draws(positions, np.array(self.shares, np.int64), state)


def share_block(weights: list[float]) -> tuple[int, ...]:
    """Divide a block by weight into integers, each at least 1 and otherwise within 1 of its exact share."""
    if len(weights) > BLOCK:
        raise ValueError(
            f"a mixture of {len(weights)} datasets is too large: it has at most {BLOCK}"
        )
    exact = np.array(weights, np.float64) / sum(weights) * BLOCK
    shares = np.maximum(np.floor(exact).astype(np.int64), 1)
    while shares.sum() < BLOCK:
        shares[np.argmax(exact - shares)] += 1
    while shares.sum() > BLOCK:  # shares of small weights were raised to 1
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return tuple(shares.tolist())


def draws_until(order: Mixed, until: Literal["first", "all"]) -> int:
    """Return the number of draws until the first set, or the last one, was read completely."""
    sizes, shares, block = np.array(order.sizes), np.array(order.shares), sum(order.shares)
    if until == "first":
        whole = int((sizes // shares).min())  # blocks without a repetition
        sets, draws = order.draws(np.arange(whole * block, (whole + 1) * block))
        return whole * block + int(np.argmax(draws >= sizes[sets]))
    if until == "all":
        # blocks after which some set is not read completely
        whole = int((-(-sizes // shares) - 1).max())
        sets, draws = order.draws(np.arange(whole * block, (whole + 1) * block))
        return whole * block + int(np.flatnonzero(draws == sizes[sets] - 1).max()) + 1
    raise ValueError(f'unknown until={until!r}: expected "first", "all" or a number of samples')


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

    It is a `Mixed` order of the classes, in which all have the same share.
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
        return self.members[self._mixed.take(epoch, positions)]

    @property
    def _mixed(self) -> Mixed:
        share = max(1, -(-_BALANCED_BLOCK // len(self.sizes)))
        return Mixed(self.sizes, (share,) * len(self.sizes), self.samples, self.seed)


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


Order = Sequential | Exact | Blocks | Mixed | Weighted | Balanced

Shuffle = bool | Literal["exact", "blocks"] | Sequential | Exact | Blocks | None
"""The values of `shuffle=`, which mean the same in `Loader`, `pack` and `split`:

- False or None: as stored;
- True or `"exact"`: a permutation of all samples;
- `"blocks"`: blocks of neighbouring samples in random order, mixed within a window;
- an order object, such as `Blocks(len(dataset), seed=7, size=1024, window=8)`.
"""


_WRITE = 'write False, True, "exact", "blocks" or an order such as Blocks(len(dataset), size=1024)'

_KINDS: dict[object, type[Sequential | Exact | Blocks]] = {
    None: Sequential,
    False: Sequential,
    True: Exact,
    "exact": Exact,
    "blocks": Blocks,
}


def make_order(shuffle: Shuffle, samples: int, seed: int = 0) -> Order:
    """Return the order that a user asks for with `shuffle=` and `seed=`.

    Args:
        shuffle: See `Shuffle`.
        samples: Number of samples to order.
        seed: 0 to 2**64 - 1. An order object has its own seed, so `seed` must then be 0 or equal to
            it.

    Raises:
        TypeError: `shuffle` is neither a bool, a str, None nor an order; or it is the order of a
            mixture.
        ValueError: The name of the order is unknown, or an order object has another number of
            samples or another seed than the arguments.
    """
    if shuffle is None or isinstance(shuffle, bool | str):
        if shuffle not in _KINDS:
            raise ValueError(f"unknown order shuffle={shuffle!r}: {_WRITE}")
        return _KINDS[shuffle](samples, seed)
    if isinstance(shuffle, Mixed):
        raise TypeError(
            "a Mixed order is for mixtures only: write Loader(bushel.mix(...)) without shuffle="
        )
    if not isinstance(shuffle, Sequential | Exact | Blocks):
        if isinstance(shuffle, int):
            hint = f"to give a seed, write shuffle=True, seed={shuffle}"
        else:
            hint = _WRITE
        raise TypeError(f"shuffle={shuffle!r} is not an order: {hint}")
    if shuffle.samples != samples:
        raise ValueError(
            f"shuffle= is an order of {shuffle.samples} samples, but there are {samples}"
        )
    if seed not in (0, shuffle.seed):
        raise ValueError(
            f"shuffle= is an order with seed {shuffle.seed}, but seed={seed}: leave out seed="
        )
    return shuffle
