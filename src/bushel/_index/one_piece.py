"""Values of block files that are uncompressed in one piece of a real file. Pure: no I/O."""

from __future__ import annotations

import numpy as np

from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I32, I64


def in_one_piece(index: ShardIndex, extents: FieldExtents) -> tuple[I32, I64]:
    """Return where the values of a field are that are one piece of a real file.

    Returns:
        file: int32[rows], number of the file, -1 for other values.
        offset: int64[rows], bytes from its start; for other values as in `extents`.
    """
    blocks = index.blocks_of(extents.file)
    if blocks is None:
        return np.full(extents.rows, extents.file, np.int32), np.asarray(extents.offset)
    if not len(blocks):
        return np.full(extents.rows, -1, np.int32), np.asarray(extents.offset)
    block = np.clip(np.searchsorted(blocks.start, extents.offset, "right") - 1, 0, len(blocks) - 1)
    inside = extents.offset - blocks.start[block]
    whole = (extents.length >= 0) & (inside >= 0) & (extents.length <= blocks.sizes[block] - inside)
    whole &= blocks.is_stored(block)
    file = np.where(whole, blocks.file[block], np.int32(-1))
    return file, np.where(file >= 0, blocks.offset[block] + inside, extents.offset)
