"""The arrays of block files in a sidecar, such as `__blocks__.0.start`, with the number of the block file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bushel.storage.blocks import Blocks, Side

Array = np.ndarray


class Arrays(Protocol):
    """The arrays of a sidecar."""

    @property
    def path(self) -> str:
        """The path of the sidecar."""
        ...

    def get(self, name: str, dtype: type[np.generic], size: int | None = None) -> Array:
        """Return the array of a name, dtype and size, or raise a `FormatError`."""
        ...

    def optional(self, name: str, dtype: type[np.generic], size: int | None = None) -> Array | None:
        """Return the array as `get` does, or None if no array has this name."""
        ...


def arrays_of_blocks(blocks: Sequence[Blocks]) -> dict[str, Array]:
    """Return the arrays of the block files of a shard, by name.

    They are `start` (int64[blocks + 1]), `file` (int32[blocks]), `offset` and `length`
    (int64[blocks]), `filter` (uint8[blocks]), and where there are some `held` (uint8[bytes]),
    `side_offsets` and `side` (uint8[bytes]).
    """
    arrays: dict[str, Array] = {}
    for number, block_file in enumerate(blocks):
        name = f"__blocks__.{number}"
        arrays |= {f"{name}.start": block_file.start, f"{name}.file": block_file.file}
        arrays |= {
            f"{name}.offset": block_file.offset,
            f"{name}.length": block_file.length,
            f"{name}.filter": block_file.filter,
        }
        if block_file.held is not None:
            arrays[f"{name}.held"] = block_file.held
        if block_file.side is not None:
            arrays |= {
                f"{name}.side_offsets": block_file.side.offsets.astype(np.uint64),
                f"{name}.side": block_file.side.data,
            }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def blocks_in(arrays: Arrays, number: int, filters: Sequence[str], sizes: Sequence[int]) -> Blocks:
    """Return the blocks of a block file. `number` is its number, `sizes` are the sizes of the files of the shard.

    Raises:
        FormatError: The arrays do not describe blocks that are inside these files.
    """
    name, get = f"__blocks__.{number}", arrays.get
    file = get(f"{name}.file", np.int32)
    count = len(file)
    side = None
    if (data := arrays.optional(f"{name}.side", np.uint8)) is not None:
        side = Side(get(f"{name}.side_offsets", np.uint64, count + 1), data)
    return Blocks(
        get(f"{name}.start", np.int64, count + 1),
        file,
        get(f"{name}.offset", np.int64, count),
        get(f"{name}.length", np.int64, count),
        get(f"{name}.filter", np.uint8, count),
        tuple(filters),
        side,
        arrays.optional(f"{name}.held", np.uint8),
    ).check(arrays.path, sizes)
