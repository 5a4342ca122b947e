"""Keyed hashes and permutations, from which orders are made: vectorised, without state, and the same on every machine.

`docs/order.md` specifies them for other languages.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from bushel import kernels

from .arrays import I64, U32, U64

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
