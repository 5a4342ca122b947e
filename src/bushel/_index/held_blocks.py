"""Values in memory, as a block file: bytes that lie in no file, and are held by the table."""

from __future__ import annotations

import numpy as np

from bushel._runtime.arrays import U8
from bushel.storage.blocks import IN_TABLE, Blocks

__all__ = ["blocks_in_table"]


def blocks_in_table(data: U8) -> Blocks:
    """Return the block file of bytes that a table holds itself."""
    one, zero = np.array([len(data)], np.int64), np.zeros(1, np.int64)
    start = np.concatenate([zero, one])
    return Blocks(start, np.full(1, IN_TABLE, np.int32), zero, one, np.zeros(1, np.uint8), ("stored",), held=data)
