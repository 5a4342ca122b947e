"""Reading extents of objects through the block cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from bushel.storage.objects.blockcache import BLOCK, BlockCache
from bushel.storage.objects.remotefile import RemoteFile
from bushel.storage.objects.requests import Request, fetch_all

__all__ = ["plan_blocks", "read_through"]

I64 = npt.NDArray[np.int64]

_MOST_BLOCKS = 8
"""Blocks that one request may ask for."""


def plan_blocks(offset: I64, length: I64) -> dict[int, list[int]]:
    """The blocks of an object that hold these extents: numbers of blocks to numbers of extents. Pure."""
    blocks: dict[int, list[int]] = {}
    for row, (start, size) in enumerate(zip(offset.tolist(), length.tolist(), strict=True)):
        for block in range(start // BLOCK, -(-(start + size) // BLOCK)) if size > 0 else ():
            blocks.setdefault(block, []).append(row)
    return dict(sorted(blocks.items()))


def read_through(
    cache: BlockCache,
    files: Sequence[RemoteFile],
    file: npt.NDArray[np.int32],
    offset: I64,
    length: I64,
    put: Callable[[int, int, memoryview], None],
) -> None:
    """Read extents that are known to lie in their objects: blocks that are kept from the disk, others are fetched.

    Args:
        cache: Where blocks are kept.
        files: The objects that `file` counts; their stamps are known.
        file: int32[n].
        offset: int64[n].
        length: int64[n].
        put: As for `read_rows`, but called once for each block that has bytes of an extent.
    """
    names = [cache.identity(each.path, each.size, each.mtime_ns) for each in files]
    rows_of: dict[tuple[int, int], list[int]] = {}

    def give(number: int, block: int, data: memoryview) -> None:
        begin = block * BLOCK
        for row in rows_of[number, block]:
            start = int(offset[row])
            first, last = max(start, begin), min(start + int(length[row]), begin + len(data))
            put(row, first - start, data[first - begin : last - begin])

    missing: list[Request] = []
    for number in np.unique(file).tolist():
        own = np.flatnonzero(file == number)
        run: list[int] = []
        for block, places in plan_blocks(offset[own], length[own]).items():
            rows_of[number, block] = own[places].tolist()
            data = cache.get(names[number], block)
            if data is not None and len(data) == min(BLOCK, files[number].size - block * BLOCK):
                give(number, block, data)
                continue
            if run and (block != run[-1] + 1 or len(run) == _MOST_BLOCKS):
                missing.append(_request(number, run, files[number]))
                run = []
            run.append(block)
        if run:
            missing.append(_request(number, run, files[number]))

    def share(request: Request, data: Buffer) -> None:
        view = memoryview(data)
        for block in request.rows:
            part = view[block * BLOCK - request.start :][:BLOCK]
            cache.put(names[request.file], block, part)
            give(request.file, block, part)

    fetch_all(files, missing, share)


def _request(number: int, blocks: Sequence[int], file: RemoteFile) -> Request:
    return Request(number, blocks[0] * BLOCK, min((blocks[-1] + 1) * BLOCK, file.size), tuple(blocks))
