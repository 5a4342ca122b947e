"""Orders: the sample at each position of an epoch.

An order is a pure, vectorised function of (seed, epoch, position) without state, so any rank can
start anywhere in an epoch at no cost. `docs/order.md` specifies all orders for other languages,
with test vectors. The samples of an order never change under a version number: a change needs
another `ORDER_VERSION`. Orders are made from keyed hashes and permutations, which are vectorised and
without state, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from bushel import kernels

from .arrays import I64, U32, U64, check_count
from .public import public

LIMIT = 1 << 48
"""The largest number of samples in an order."""

_GOLDEN = 0x9E3779B97F4A7C15
_MASK64 = (1 << 64) - 1


def _mix64(word: int) -> int:
    """Return the finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _MASK64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _MASK64
    return word ^ (word >> 31)


def derive(*words: int) -> int:
    """Hash 64-bit words into one 64-bit key."""
    state = 0
    for word in words:
        state = _mix64(((state ^ word) + _GOLDEN) & _MASK64)
    return state


def _hash32(values: U32, scratch: U32) -> None:
    """Hash every value in place."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        np.right_shift(values, np.uint32(shift), out=scratch)
        np.bitwise_xor(values, scratch, out=values)
        np.multiply(values, np.uint32(factor), out=values)
    np.right_shift(values, np.uint32(16), out=scratch)
    np.bitwise_xor(values, scratch, out=values)


def fold_hash(values: I64, key: int) -> U32:
    """Hash non-negative int64 values with a 64-bit key into uint32 tweaks for `Permutation.take`."""
    wide = values.view(np.uint64)
    folded = (wide & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    folded ^= (wide >> np.uint64(32)).astype(np.uint32) * np.uint32(0x9E3779B9)
    folded ^= np.uint32(key >> 32)
    _hash32(folded, np.empty_like(folded))
    return folded


def hash_words(values: I64, key: int) -> U64:
    """Hash non-negative int64 values with a 64-bit key into uint64: mix64(key + (value + 1) * the golden ratio)."""
    words = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) + np.uint64(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


class Permutation(Struct, frozen=True):
    """A keyed permutation of 0..size-1 in constant memory: an alternating Feistel network with cycle walking.

    The network permutes the smallest power of two, at least 64, that holds `size` (Luby and
    Rackoff, 1988; the alternating, unbalanced form is defined in NIST SP 800-38G). Its round
    function is a 32-bit integer hash (lowbias32 by C. Wellons, public domain). A value outside
    0..size-1 goes through the network again until it is inside (Black and Rogaway, 2002), fewer
    than two times on average.
    """

    size: int  # number of values, 1 to `LIMIT`
    key: int  # 64-bit key from `derive`; each key gives another permutation

    def take(self, values: I64, tweak: U32 | None = None) -> I64:
        """Return the images of values under the permutation.

        Args:
            values: int64[n], each in 0..size-1.
            tweak: uint32[n], the member of a family of permutations to use for each value; None for
                the first.

        Returns:
            int64[n].
        """
        return kernels.permute(np.ascontiguousarray(values), self.size, self.key, tweak)

    def find(self, value: int, tweak: U32 | None = None) -> int:
        """Return the value whose image is `value`: the inverse of `take`. The tweak is uint32[1], or None."""
        return int(
            kernels.permute(np.array([value], np.int64), self.size, self.key, tweak, inverse=True)[
                0
            ]
        )


ORDER_VERSION = 1

_EXACT, _BLOCKS, _WINDOWS, BALANCED, _PART, WEIGHTED = 1, 2, 3, 4, 5, 6
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


def draws_of_epoch(samples: int, epoch: int, positions: I64) -> I64:
    """Return the draws at positions of an epoch of `samples` draws, which continues where the last one ended."""
    check_positions(samples, epoch, positions)
    if (epoch + 1) * samples > LIMIT:
        raise ValueError(f"epoch {epoch} of {samples} draws ends beyond 2**48 draws")
    return positions + epoch * samples


def draw_samples(sets: I64, earlier: I64, sizes: Sequence[int], seed: int) -> I64:
    """Return the samples of draws from sets that are numbered one after another, each in random order, pass after pass.

    Args:
        sets: int64[n], the set of each draw.
        earlier: int64[n], the number of earlier draws from that set.
        sizes: Samples of each set.
        seed: The seed.
    """
    sizes_of_sets = np.array(sizes, np.int64)
    return kernels.draw_samples(sets, earlier, sizes_of_sets, derive(ORDER_VERSION, _PART), seed)


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


OncePerEpoch = Sequential | Exact | Blocks

Shuffle = bool | Literal["exact", "blocks"] | OncePerEpoch | None
"""The values of `shuffle=`, which mean the same in `Loader`, `pack` and `split`:

- False or None: as stored;
- True or `"exact"`: a permutation of all samples;
- `"blocks"`: blocks of neighbouring samples in random order, mixed within a window;
- an order object, such as `Blocks(len(dataset), seed=7, size=1024, window=8)`.
"""


_WRITE = 'write False, True, "exact", "blocks" or an order such as Blocks(len(dataset), size=1024)'

_KINDS: dict[object, type[OncePerEpoch]] = {
    None: Sequential,
    False: Sequential,
    True: Exact,
    "exact": Exact,
    "blocks": Blocks,
}


def make_order(shuffle: Shuffle, samples: int, seed: int = 0) -> OncePerEpoch:
    """Return the order that a user asks for with `shuffle=` and `seed=`.

    Args:
        shuffle: See `Shuffle`.
        samples: Number of samples to order.
        seed: 0 to 2**64 - 1. An order object has its own seed, so `seed` must then be 0 or equal to
            it.

    Raises:
        TypeError: `shuffle` is neither a bool, a str, None nor an order.
        ValueError: The name of the order is unknown, or an order object has another number of
            samples or another seed than the arguments.
    """
    if shuffle is None or isinstance(shuffle, bool | str):
        if shuffle not in _KINDS:
            raise ValueError(f"unknown order shuffle={shuffle!r}: {_WRITE}")
        return _KINDS[shuffle](samples, seed)
    if not isinstance(shuffle, OncePerEpoch):
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
