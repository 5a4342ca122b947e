"""Files of a shard of very many, which are opened for each read and closed after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bushel._index.file_stamps import FileStamps
from bushel._index.table import FileStamp, Shard
from bushel.storage import File
from bushel.storage.small_file import SmallFile

__all__ = ["SMALL", "closed_files"]

SMALL = 1 << 20
"""Bytes of the largest file that is closed between reads."""


def closed_files(
    shard: Shard, stamps: Sequence[FileStamp], file_of: Callable[[int], File], numbers: Sequence[int]
) -> list[File]:
    """Return files of a shard, of which the small ones are closed between reads.

    Args:
        shard: The shard, in a local folder.
        stamps: The facts that its table records of its files.
        file_of: Returns the open file of a number, for a file that is large, or whose time is unknown.
        numbers: The numbers of the files.
    """
    forget = None
    if isinstance(stamps, FileStamps):
        forget, rows = stamps.forget, np.array(numbers, np.int64)
        sizes, times = stamps.sizes[rows].tolist(), stamps.times[rows].tolist()
    else:
        sizes, times = [stamps[number].size for number in numbers], [stamps[number].mtime_ns for number in numbers]
    paths = shard.path_texts(numbers)
    return [
        SmallFile(path, size, time, forget) if time and size <= SMALL else file_of(number)
        for number, path, size, time in zip(numbers, paths, sizes, times, strict=True)
    ]
