"""Counts of an epoch in the user's cache of tables: with them, later processes answer `who` and `when` at once.

The rows of packs and chunks depend on the lengths of all documents before them. Counting these takes longer than the
question itself. So a process that has counted leaves its counts for later ones, and so does the first rank of a
training run when it saves its state: then `who` knows nearly all steps before that state.
"""

from __future__ import annotations

import hashlib
import json
from typing import TypeVar

import numpy as np
import numpy.typing as npt

NEW_ENOUGH = 64
"""Counts are kept again when this part of the windows of an epoch is new, so that training seldom writes."""

_LAYOUT = 1
_LARGE = 8
"""Counts may take this part of the cache at most."""

Number = TypeVar("Number", np.int32, np.int64)

Identity = tuple[str, int, int, int]
"""The version of an order, its number of documents, its seed, and the epoch."""


def kept_counts(
    identity: Identity, number: int, dtype: type[Number], *, least: int, most: int
) -> npt.NDArray[Number] | None:
    """Return counts that were kept. Each must be in `least` to `most`. None if nothing was kept.

    Args:
        identity: The dataset, order and epoch that they belong to.
        number: Which of its arrays they are.
        dtype: The type of the counts.
        least: The smallest possible count.
        most: The largest possible one.
    """
    from bushel._index.table_cache import cache_of_tables

    cache = cache_of_tables()
    if cache is None or (data := cache.get(_name(identity), number)) is None:
        return None
    item = np.dtype(dtype).itemsize
    if data.nbytes % item:
        return None
    found = np.frombuffer(data, dtype)
    return found if not len(found) or (found.min() >= least and found.max() <= most) else None


def keep_counts(identity: Identity, number: int, counts: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> None:
    """Keep counts, if there is a cache that is large enough. If the cache is not writable, a warning is given once."""
    from bushel._index.table_cache import cache_of_tables

    cache = cache_of_tables()
    if cache is not None and counts.nbytes <= cache.limit // _LARGE:
        cache.put(_name(identity), number, np.ascontiguousarray(counts).view(np.uint8).data)


def _name(identity: Identity) -> str:
    return hashlib.sha256(json.dumps(["counts", _LAYOUT, *identity]).encode()).hexdigest()[:40]
