"""How much blocks expand for each byte that is read at random. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bushel._index.table import I64, ShardIndex

__all__ = ["expansion_of"]

_KEPT = 256_000_000
"""Bytes of expanded blocks that a process keeps unless it is told otherwise. If all fit, each is expanded once."""


def expansion_of(tables: Iterable[ShardIndex]) -> float:
    """Return how many bytes blocks expand to for each byte that is read, when samples are read in random order.

    Every value is taken to expand the blocks that it lies in, except for the part of all blocks that is kept.

    Args:
        tables: The tables of some shards.

    Returns:
        0 if no block has to be expanded.
    """
    returned = expanded = packed = 0
    for table in tables:
        sums = [
            np.concatenate([[0], np.cumsum(np.where(one.is_stored(np.arange(len(one))), 0, one.sizes))])
            for one in table.blocks
        ]
        packed += sum(int(one[-1]) for one in sums)
        for field in table.fields.values():
            rows = np.flatnonzero(field.length > 0)
            offset, length = field.offset[rows], field.length[rows]
            returned += int(length.sum())
            if (blocks := table.blocks_of(field.file)) is not None:
                sizes = sums[field.file - len(table.files)]
                expanded += int(_needed(blocks.start, sizes, offset, length).sum())
    if not packed or not returned:
        return 0.0
    return max(min(packed, expanded), expanded * (1 - _KEPT / packed)) / returned


def _needed(start: I64, sizes: I64, offset: I64, length: I64) -> I64:
    """Return the bytes that the blocks of each extent expand to, given the sums of those before each block."""
    first = start.searchsorted(offset, "right") - 1
    needed: I64 = sizes[start.searchsorted(offset + length, "left")] - sizes[first]
    return needed
