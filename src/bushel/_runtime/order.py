"""Orders: the sample at each position of an epoch.

An order is a pure, vectorised function of (seed, epoch, position) without state, so any rank can
start anywhere in an epoch at no cost. `docs/order.md` specifies all orders for other languages,
with test vectors. The samples of an order never change under a version number: a change needs
another `ORDER_VERSION`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from bushel import kernels

from .arrays import F64, I64, U32, Array, check_count
from .permutation import LIMIT, Permutation, derive, fold_hash
from .public import public

ORDER_VERSION = 1

_EXACT, _BLOCKS, _WINDOWS, _MIXED, PART, _WEIGHTED = 1, 2, 3, 4, 5, 6
BUCKETS, TOGETHER, PACKS, WINDOWS = 7, 8, 9, 10
"""Uses of derived keys: the order of batches of similar samples, the samples of a bucket, rows of packs, and
random windows."""


def check_order(order: Any) -> None:
    """Check samples and seed of an order. Numbers of NumPy become Python's."""
    for name, most in (("samples", LIMIT), ("seed", (1 << 64) - 1)):
        value = getattr(order, name)
        number = check_count(name, value, most=most)
        if number is not value:
            force_setattr(order, name, number)


def check_positions(samples: int, epoch: int, positions: I64) -> None:
    if not 0 <= epoch < 1 << 64:
        raise ValueError(f"invalid epoch {epoch}: expected 0 to 2**64 - 1")
    if len(positions) and not (positions.min() >= 0 and positions.max() < samples):
        raise IndexError(
            f"positions {positions.min()} to {positions.max()}: "
            f"expected positions between 0 and {samples - 1}"
        )


BLOCK = 4096
"""Number of draws of a block of a mixture without names, in which each dataset has its share to within one sample."""


class _OncePerEpoch(Struct, frozen=True):
    """Base of the orders that contain every sample once in every epoch."""

    samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_order(self)

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        check_positions(self.samples, epoch, positions)
        if self.samples:
            return self._take(epoch, positions)
        return positions.copy()

    def look_up(self, table: U32, epoch: int, first: int, last: int, window: int = 1) -> U32:
        """Return the entries of a table of all samples, in the order of the positions from `first` to `last` - 1.

        Entries of the same `window` positions, counted from 0, may come in any order.
        """
        return table[self.take(epoch, np.arange(first, last))]

    def _take(self, epoch: int, positions: I64) -> I64:
        return positions.copy()


@public("bushel.loader")
class Sequential(_OncePerEpoch, Struct, frozen=True):
    """The stored order, in every epoch.

    Attributes:
        samples: Samples in an epoch.
        seed: Seed of the randomness of transforms; the order does not use it.

    Examples:
        >>> from bushel.loader import Sequential
        >>> Sequential(12).take(0, np.arange(4)).tolist()
        [0, 1, 2, 3]
    """

    @property
    def version(self) -> str:
        """Kind, parameters and version. A loader refuses a saved state of another version."""
        return f"sequential/{ORDER_VERSION}"

    def look_up(self, table: U32, epoch: int, first: int, last: int, window: int = 1) -> U32:
        """Return the entries of a table of all samples, in the order of the positions from `first` to `last` - 1."""
        return table[first:last]


@public("bushel.loader")
class Exact(_OncePerEpoch, Struct, frozen=True):
    """A random permutation of the whole dataset, another in every epoch.

    Attributes:
        samples: Samples in an epoch, up to 2**48.
        seed: 0 to 2**64 - 1.

    Examples:
        >>> from bushel.loader import Exact
        >>> Exact(12, seed=0).take(0, np.arange(4)).tolist()  # the first four samples of epoch 0
        [10, 0, 9, 4]
    """

    @property
    def version(self) -> str:
        """Kind, parameters and version. A loader refuses a saved state of another version."""
        return f"exact/{ORDER_VERSION}"

    def look_up(self, table: U32, epoch: int, first: int, last: int, window: int = 1) -> U32:
        """Return the entries of a table of all samples, in the order of the positions from `first` to `last` - 1."""
        return kernels.look_up(table, first, last - first, self._key(epoch))

    def _key(self, epoch: int) -> int:
        return derive(ORDER_VERSION, _EXACT, self.samples, self.seed, epoch)

    def _take(self, epoch: int, positions: I64) -> I64:
        return Permutation(self.samples, self._key(epoch)).take(positions)


@public("bushel.loader")
class Blocks(_OncePerEpoch, Struct, frozen=True):
    """Blocks of neighbouring samples in random order, mixed within a window of blocks.

    Only about `window` blocks are read at a time, and each is one range of the files, which suits
    disks, and object stores with a block cache. In return, samples of one block always come within
    one window.

    Attributes:
        samples: Samples in an epoch, up to 2**48.
        seed: 0 to 2**64 - 1.
        size: Samples in a block. The last block of the dataset may be shorter.
        window: Number of blocks whose samples are mixed.

    Examples:
        >>> from bushel.loader import Blocks
        >>> order = Blocks(len(ds), seed=0, size=4, window=2)
        >>> loader = bushel.Loader(ds, batch_size=4, shuffle=order)
    """

    size: int = 256
    window: int = 16

    def __post_init__(self) -> None:
        _OncePerEpoch.__post_init__(self)
        for name, most in (("size", LIMIT), ("window", LIMIT // max(1, self.size))):
            count = check_count(name, getattr(self, name), least=1, most=most)
            force_setattr(self, name, count)

    @property
    def version(self) -> str:
        """Kind, parameters and version. A loader refuses a saved state of another version."""
        return f"blocks({self.size},{self.window})/{ORDER_VERSION}"

    def look_up(self, table: U32, epoch: int, first: int, last: int, window: int = 1) -> U32:
        """Return the entries of a table of all samples, as the other orders do."""
        positions = np.arange(first, last)
        check_positions(self.samples, epoch, positions)
        # else samples are mixed only with others of the same window
        mixes = window % (self.size * self.window)
        return table[self._unblock(epoch, self._mix(epoch, positions) if mixes else positions)]

    def _take(self, epoch: int, positions: I64) -> I64:
        return self._unblock(epoch, self._mix(epoch, positions))

    def _mix(self, epoch: int, positions: I64) -> I64:
        """Permute positions within their windows. The last window may be shorter than the others."""
        width = self.size * self.window
        key = derive(ORDER_VERSION, _WINDOWS, self.samples, self.seed, epoch)
        numbers = positions // width
        starts = numbers * width
        inside, tweaks = positions - starts, fold_hash(numbers, key)
        whole = starts + width <= self.samples
        mixed = np.empty_like(positions)
        for chosen, length in ((whole, width), (~whole, self.samples % width)):
            if chosen.any():
                mixed[chosen] = starts[chosen] + Permutation(length, key).take(
                    inside[chosen], tweaks[chosen]
                )
        return mixed

    def _unblock(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of the permuted blocks."""
        blocks = -(-self.samples // self.size)
        missing = blocks * self.size - self.samples  # from the last block of the dataset
        permuted = Permutation(
            blocks, derive(ORDER_VERSION, _BLOCKS, self.samples, self.seed, epoch)
        )
        short_block_end = permuted.find(blocks - 1) * self.size + self.size - missing
        positions = np.where(positions >= short_block_end, positions + missing, positions)
        slots = positions // self.size
        low, high = (int(slots.min()), int(slots.max())) if len(slots) else (0, 0)
        if high - low < len(slots):  # each block is permuted once
            permuted_slots = permuted.take(np.arange(low, high + 1))[slots - low]
        else:
            permuted_slots = permuted.take(slots)
        return permuted_slots * self.size + (positions - slots * self.size)


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
        state = derive(ORDER_VERSION, _MIXED, sum(self.shares), self.seed)
        return kernels.mixed_draws(positions, np.array(self.shares, np.int64), state)


def share_block(weights: list[float], block: int = BLOCK) -> tuple[int, ...]:
    """Divide a block by weight into integers, each at least 1 and otherwise within 1 of its exact share."""
    if len(weights) > block:
        raise ValueError(
            f"a mixture of {len(weights)} datasets is too large: it has at most {block}"
        )
    exact = np.array(weights, np.float64) / sum(weights) * block
    shares = np.maximum(np.floor(exact).astype(np.int64), 1)
    while shares.sum() < block:
        shares[np.argmax(exact - shares)] += 1
    while shares.sum() > block:  # shares of small weights were raised to 1
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
        key = derive(ORDER_VERSION, _WEIGHTED, self.samples, self.seed, epoch)
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


_SUMS_OF_A_GUIDE = 8  # from one entry of the guide to the next
_BALANCED_BLOCK = 4096  # smallest number of draws in which every class has exactly its share
Order = Sequential | Exact | Blocks | Mixed | Weighted | Balanced
