"""Orders: which sample comes at which position of an epoch.

An order is a pure, vectorised function of (seed, epoch, position) and keeps nothing in memory, so an epoch can be
entered anywhere, by any rank, at no cost. `docs/order.md` specifies all of them with test vectors. What an order
yields never changes under a version number: change `ORDER_VERSION` with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bushel.core.order.permutation import LIMIT, Permutation, derive, fold_hash

__all__ = ["ORDER_VERSION", "Blocks", "Exact", "Mixed", "Order", "Sequential", "Shuffle", "check_mixed", "make_order"]

I64 = npt.NDArray[np.int64]

ORDER_VERSION = 1

_EXACT, _BLOCKS, _WINDOWS, _MIXED, _PART = 1, 2, 3, 4, 5  # purposes, so that no two uses of the permutation share a key


def _check(samples: int, seed: int) -> None:
    if not 0 <= samples <= LIMIT:
        raise ValueError(f"an order is over 0 to 2**48 samples, not {samples}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed lies between 0 and 2**64 - 1: {seed}")


def _check_positions(samples: int, epoch: int, positions: I64) -> None:
    if not 0 <= epoch < 1 << 64:
        raise ValueError(f"an epoch lies between 0 and 2**64 - 1: {epoch}")
    if len(positions) and not (positions.min() >= 0 and positions.max() < samples):
        raise IndexError(f"positions of an epoch lie between 0 and {samples - 1}")


@dataclass(frozen=True, slots=True)
class Sequential:
    """The samples as they are stored, in every epoch.

    Attributes:
        samples: Samples in an epoch.
        seed: Not used by the order; it keys the randomness of transforms.
    """

    samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.samples, self.seed)

    @property
    def version(self) -> str:
        """Kind, parameters and version: a saved state carries it, and is refused under any other."""
        return f"sequential/{ORDER_VERSION}"

    def take(self, epoch: int, positions: I64) -> I64:
        """The samples at these positions of an epoch: int64[n] to int64[n]."""
        _check_positions(self.samples, epoch, positions)
        return positions.copy()


@dataclass(frozen=True, slots=True)
class Exact:
    """Every permutation of the whole dataset is as likely as any other, in every epoch anew.

    Attributes:
        samples: Samples in an epoch, up to 2**48.
        seed: 0 to 2**64 - 1.
    """

    samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.samples, self.seed)

    @property
    def version(self) -> str:
        """Kind, parameters and version: a saved state carries it, and is refused under any other."""
        return f"exact/{ORDER_VERSION}"

    def take(self, epoch: int, positions: I64) -> I64:
        """The samples at these positions of an epoch: int64[n] to int64[n]."""
        _check_positions(self.samples, epoch, positions)
        if not self.samples:
            return positions.copy()
        key = derive(ORDER_VERSION, _EXACT, self.samples, self.seed, epoch)
        return Permutation(self.samples, key).take(positions)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of neighbours in random order, then the samples of a window of such blocks mixed.

    At any time only about `window` blocks are being read, each of them a stretch of neighbours: what disks and
    object stores are good at. The price is that two samples of a block always meet within one window.

    Attributes:
        samples: Samples in an epoch, up to 2**48.
        seed: 0 to 2**64 - 1.
        size: Samples in a block. The last block of the dataset holds the rest.
        window: Blocks' worth of samples that are mixed with one another.
    """

    samples: int
    seed: int = 0
    size: int = 256
    window: int = 16

    def __post_init__(self) -> None:
        _check(self.samples, self.seed)
        if self.size < 1 or self.window < 1 or self.size * self.window > LIMIT:
            raise ValueError(f"blocks have size >= 1, windows >= 1 block: size={self.size}, window={self.window}")

    @property
    def version(self) -> str:
        """Kind, parameters and version: a saved state carries it, and is refused under any other."""
        return f"blocks({self.size},{self.window})/{ORDER_VERSION}"

    def take(self, epoch: int, positions: I64) -> I64:
        """The samples at these positions of an epoch: int64[n] to int64[n]."""
        _check_positions(self.samples, epoch, positions)
        if not self.samples:
            return positions.copy()
        return self._unblock(epoch, self._mix(epoch, positions))

    def _mix(self, epoch: int, positions: I64) -> I64:
        """Permute positions inside their windows; the last window may be shorter than the others."""
        width = self.size * self.window
        key = derive(ORDER_VERSION, _WINDOWS, self.samples, self.seed, epoch)
        numbers = positions // width
        starts = numbers * width
        inside, tweaks = positions - starts, fold_hash(numbers, key)
        whole = starts + width <= self.samples
        mixed = np.empty_like(positions)
        for chosen, length in ((whole, width), (~whole, self.samples % width)):
            if chosen.any():
                mixed[chosen] = starts[chosen] + Permutation(length, key).take(inside[chosen], tweaks[chosen])
        return mixed

    def _unblock(self, epoch: int, positions: I64) -> I64:
        """Go from positions in the permuted blocks to samples."""
        blocks = -(-self.samples // self.size)
        lacking = blocks * self.size - self.samples  # samples that the dataset's last block has too few
        permuted = Permutation(blocks, derive(ORDER_VERSION, _BLOCKS, self.samples, self.seed, epoch))
        behind_short = permuted.find(blocks - 1) * self.size + self.size - lacking
        positions = np.where(positions >= behind_short, positions + lacking, positions)
        return permuted.take(positions // self.size) * self.size + positions % self.size


@dataclass(frozen=True, slots=True)
class Mixed:
    """Several sets of samples, numbered one after another, in fixed proportions.

    The endless sequence of draws is cut into blocks. Every block has `shares[i]` draws from set i, in random order.
    The draws from a set go through it in an `Exact` order, pass after pass, each pass another. An epoch is a stretch of
    `samples` draws, and the next epoch goes on where it ended, so no set is ever begun anew before it is through.

    Attributes:
        sizes: Samples in each set.
        shares: Draws from each set in a block, at least 1.
        samples: Draws in an epoch.
        seed: 0 to 2**64 - 1.
    """

    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.samples, self.seed)
        if not self.sizes or len(self.sizes) != len(self.shares) or min(self.sizes) < 1 or min(self.shares) < 1:
            raise ValueError(f"a mixture is of sets that have samples and shares: {self.sizes}, {self.shares}")

    @property
    def version(self) -> str:
        """Kind, parameters and version: a saved state carries it, and is refused under any other."""
        return (
            f"mixed({','.join(map(str, self.sizes))};{','.join(map(str, self.shares))};{self.samples})/{ORDER_VERSION}"
        )

    def take(self, epoch: int, positions: I64) -> I64:
        """The samples at these positions of an epoch: int64[n] to int64[n]."""
        _check_positions(self.samples, epoch, positions)
        if (epoch + 1) * self.samples > LIMIT:
            raise ValueError(f"epoch {epoch} of a mixture goes beyond 2**48 draws")
        sets, draws = self.draws(positions + epoch * self.samples)
        found = np.empty_like(positions)
        start = 0
        for number, size in enumerate(self.sizes):
            mine = np.flatnonzero(sets == number)
            passes, there = np.divmod(draws[mine], size)
            for one in np.unique(passes).tolist():
                chosen = passes == one
                key = derive(ORDER_VERSION, _PART, size, self.seed, one, number)
                found[mine[chosen]] = start + Permutation(size, key).take(there[chosen])
            start += size
        return found

    def draws(self, positions: I64) -> tuple[I64, I64]:
        """Which set each draw of the endless sequence is from, and how many draws from that set came before."""
        block, shares = sum(self.shares), np.array(self.shares, np.int64)
        numbers, inside = np.divmod(positions, block)
        sets, draws = np.empty_like(positions), np.empty_like(positions)
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            in_block, before = self._block(number)
            sets[chosen] = in_block[inside[chosen]]
            draws[chosen] = number * shares[sets[chosen]] + before[inside[chosen]]
        return sets, draws

    def _block(self, number: int) -> tuple[I64, I64]:
        """Which set each draw of a block is from, and how many draws of the block before it are from that set."""
        block, ends = sum(self.shares), np.cumsum(self.shares)
        key = derive(ORDER_VERSION, _MIXED, block, self.seed, number)
        sets = np.searchsorted(ends, Permutation(block, key).take(np.arange(block, dtype=np.int64)), side="right")
        before = np.empty(block, np.int64)
        before[np.argsort(sets, kind="stable")] = np.arange(block) - np.repeat(ends - self.shares, self.shares)
        return sets, before


Order = Sequential | Exact | Blocks | Mixed

Shuffle = bool | Literal["exact", "blocks"] | Sequential | Exact | Blocks | None
"""The values of `shuffle=`, which mean the same in `Loader`, `pack` and `split`:

- False or None: as stored;
- True or `"exact"`: a permutation of all samples;
- `"blocks"`: blocks of neighbouring samples in random order, mixed within a window;
- an order object, such as `Blocks(len(dataset), seed=7, size=1024, window=8)`.
"""

_WRITE = 'write False, True, "exact", "blocks" or an order such as Blocks(len(dataset), size=1024)'


def make_order(shuffle: Shuffle, samples: int, seed: int = 0) -> Order:
    """Return the order that a user asks for with `shuffle=` and `seed=`.

    Args:
        shuffle: See `Shuffle`.
        samples: Number of samples to order.
        seed: 0 to 2**64 - 1. An order object has its own seed, so `seed` must then be 0 or equal to it.

    Raises:
        TypeError: `shuffle` is neither a bool, a str, None nor an order; or it is the order of a mixture.
        ValueError: The name of the order is unknown, or an order object has another number of samples or another seed
            than the arguments say.
    """
    if shuffle is None or isinstance(shuffle, bool):
        return Exact(samples, seed) if shuffle else Sequential(samples, seed)
    if isinstance(shuffle, str):
        if shuffle not in ("exact", "blocks"):
            raise ValueError(f"unknown order shuffle={shuffle!r}: {_WRITE}")
        return Exact(samples, seed) if shuffle == "exact" else Blocks(samples, seed)
    if isinstance(shuffle, Mixed):
        raise TypeError("a Mixed order is for mixtures only: write Loader(bushel.mix(...)) without shuffle=")
    if not isinstance(shuffle, Sequential | Exact | Blocks):
        hint = f"to give a seed, write shuffle=True, seed={shuffle}" if isinstance(shuffle, int) else _WRITE
        raise TypeError(f"shuffle={shuffle!r} is not an order: {hint}")
    if shuffle.samples != samples:
        raise ValueError(f"shuffle= is an order of {shuffle.samples} samples, but there are {samples}")
    if seed not in (0, shuffle.seed):
        raise ValueError(f"shuffle= is an order with seed {shuffle.seed}, but seed={seed}: leave out seed=")
    return shuffle


def check_mixed(order: Mixed, shuffle: Shuffle, seed: int) -> Mixed:
    """Return the order of a mixture, unless `shuffle` or `seed` asks for another one.

    Raises:
        ValueError: `shuffle` is not True or None, or `seed` is neither 0 nor the mixture's seed.
    """
    if shuffle not in (None, True):
        raise ValueError(f"a mixture has its own order: leave out shuffle={shuffle!r}")
    if seed not in (0, order.seed):
        raise ValueError(f"the mixture has seed {order.seed}, but seed={seed}: leave out seed=")
    return order
