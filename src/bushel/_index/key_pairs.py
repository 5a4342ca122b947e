"""Match the samples of two datasets with the same key, by sorted hashes: ten million take seconds. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bushel._runtime.arrays import I64, U64


def equal_hashes(left: U64, right: U64) -> tuple[I64, I64]:
    """Return the places of equal hashes. Where one comes several times, the n-th is paired with the n-th.

    Args:
        left: uint64[n], in any order.
        right: uint64[m], in any order.

    Returns:
        Two int64[pairs]: places in `left`, ascending, and their partners in `right`.
    """
    places, order = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    sorted_left, sorted_right = left[places], right[order]
    # the n-th of equal hashes on the left may have the n-th of them on the right
    number = np.arange(len(left), dtype=np.int64) - np.searchsorted(
        sorted_left, sorted_left, side="left"
    )
    partner = np.searchsorted(sorted_right, sorted_left, side="left") + number
    inside = np.flatnonzero(partner < len(right))
    inside = inside[sorted_right[partner[inside]] == sorted_left[inside]]
    matched, partners = places[inside], order[partner[inside]]
    back = np.argsort(matched, kind="stable")
    return matched[back].astype(np.int64), partners[back].astype(np.int64)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Sorted hashes in which other hashes are looked up."""

    hashes: U64  # uint64[n], ascending
    order: I64  # int64[n], the place of each hash; ascending where hashes are equal

    @classmethod
    def of(cls, hashes: U64) -> LookedUp:
        """Return these hashes, in order."""
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], order)

    def repeated(self) -> tuple[I64, I64]:
        """Return the places of equal hashes that follow each other in order: of one, and of the next."""
        same = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        return self.order[same], self.order[same + 1]

    def find(self, wanted: LookedUp) -> I64:
        """Return int64[n], by the places of some hashes, the first place of the same hash here; -1 if it is missing."""
        partners = np.full(len(wanted.hashes), -1, np.int64)
        if len(self.hashes):
            at = np.minimum(self.hashes.searchsorted(wanted.hashes), len(self.hashes) - 1)
            is_equal = self.hashes[at] == wanted.hashes
            partners[wanted.order[is_equal]] = self.order[at[is_equal]]
        return partners

    def places(self, hash_: np.uint64) -> Iterator[int]:
        """Yield all places of a hash."""
        first = int(self.hashes.searchsorted(hash_))
        while first < len(self.hashes) and self.hashes[first] == hash_:
            yield int(self.order[first])
            first += 1
