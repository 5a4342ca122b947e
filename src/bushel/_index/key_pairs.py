"""Which samples of two datasets have the same key: by sorted hashes, so that ten million take seconds. Pure: no I/O."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["equal_hashes"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


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
    number = np.arange(len(left), dtype=np.int64) - np.searchsorted(sorted_left, sorted_left, side="left")
    partner = np.searchsorted(sorted_right, sorted_left, side="left") + number
    inside = np.flatnonzero(partner < len(right))
    inside = inside[sorted_right[partner[inside]] == sorted_left[inside]]
    found, partners = places[inside], order[partner[inside]]
    back = np.argsort(found, kind="stable")
    return found[back].astype(np.int64), partners[back].astype(np.int64)
