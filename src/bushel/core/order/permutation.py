"""A keyed permutation of 0..n-1 in constant memory: an alternating Feistel network with cycle walking.

The network permutes the smallest power of two that holds n (Luby and Rackoff, 1988; the alternating, unbalanced form
is the one of NIST SP 800-38G). Its round function is a 32-bit integer hash (lowbias32 by C. Wellons, public domain).
Values that fall outside 0..n-1 are sent through the network again until they come back inside (Black and Rogaway,
2002), fewer than twice on average. `docs/order.md` specifies it for other languages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LIMIT", "Permutation", "derive", "fold_hash"]

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

LIMIT = 1 << 48
"""The largest set that can be permuted."""

_ROUNDS = 8
_SMALLEST_BITS = 6  # smaller networks have too few round functions to reach all permutations evenly
_CHUNK = 1 << 13  # values at a time, so that all temporaries stay in the core's own cache
_GOLDEN = 0x9E3779B97F4A7C15
_MASK64 = (1 << 64) - 1


def _mix64(word: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _MASK64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _MASK64
    return word ^ (word >> 31)


def derive(*words: int) -> int:
    """Hash words of 64 bits into one: the key of everything that depends on them."""
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
    """Hash non-negative int64 values with a 64-bit key into uint32: tweaks for `Permutation.take`."""
    wide = values.view(np.uint64)
    folded = (wide & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    folded ^= (wide >> np.uint64(32)).astype(np.uint32) * np.uint32(0x9E3779B9)
    folded ^= np.uint32(key >> 32)
    _hash32(folded, np.empty_like(folded))
    return folded


@dataclass(frozen=True, slots=True)
class Permutation:
    """A permutation of 0..size-1.

    Attributes:
        size: Number of values, 1 to `LIMIT`.
        key: 64-bit key from `derive`; another key is another permutation.
    """

    size: int
    key: int

    def take(self, values: I64, tweak: U32 | None = None) -> I64:
        """Where the permutation sends these values.

        Args:
            values: int64[n], each in 0..size-1.
            tweak: uint32[n], which permutation of a family to use for each value, or None.

        Returns:
            int64[n].
        """
        if self.size == 1:
            return np.zeros(len(values), np.int64)
        found = np.empty(len(values), np.int64)
        for first in range(0, len(values), _CHUNK):
            part = slice(first, first + _CHUNK)
            found[part] = self._walk(values[part], None if tweak is None else tweak[part], inverse=False)
        return found

    def find(self, value: int) -> int:
        """The value that `take` sends to this one (without a tweak)."""
        if self.size == 1:
            return 0
        return int(self._walk(np.array([value], np.int64), None, inverse=True)[0])

    def _walk(self, values: I64, tweak: U32 | None, *, inverse: bool) -> I64:
        found = self._encipher(values, tweak, inverse=inverse)
        outside = np.flatnonzero(found >= self.size)
        while len(outside):
            again = self._encipher(found[outside], None if tweak is None else tweak[outside], inverse=inverse)
            found[outside] = again
            outside = outside[again >= self.size]
        return found

    def _encipher(self, values: I64, tweak: U32 | None, *, inverse: bool) -> I64:
        bits = max(_SMALLEST_BITS, (self.size - 1).bit_length())
        low_bits = np.int64(bits - bits // 2)
        masks = np.uint32((1 << (bits // 2)) - 1), np.uint32((1 << int(low_bits)) - 1)
        halves = (values >> low_bits).astype(np.uint32), (values & np.int64(masks[1])).astype(np.uint32)
        hashed, scratch = np.empty_like(halves[0]), np.empty_like(halves[0])
        for number in reversed(range(_ROUNDS)) if inverse else range(_ROUNDS):
            key = np.uint32(_mix64((self.key + (number + 1) * _GOLDEN) & _MASK64) >> 32)
            target, source = number % 2, 1 - number % 2
            np.bitwise_xor(halves[source], key, out=hashed)
            if tweak is not None:
                np.bitwise_xor(hashed, tweak, out=hashed)
            _hash32(hashed, scratch)
            np.bitwise_and(hashed, masks[target], out=hashed)
            np.bitwise_xor(halves[target], hashed, out=halves[target])
        return (halves[0].astype(np.int64) << low_bits) | halves[1]
