"""Upper limit for records that are not in memory: advise the kernel of the batch, then read each record.

It reads the file and the offsets of `peer_slices`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from peer_slices import write

__all__ = ["open", "read_batch", "write"]


class Records(NamedTuple):
    """An open file of records, and their offsets."""

    descriptor: int
    offsets: np.ndarray


def open(path: str) -> Records:
    """Open the file ``path``."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead of neighbours
    return Records(descriptor, np.fromfile(path + ".offsets", dtype="<u8"))


def read_batch(handle: Records, indices: np.ndarray, *, header: int = 0) -> list[bytes]:
    """Return the records at ``indices``, without the ``header`` bytes before each."""
    descriptor, offsets = handle
    extents = [
        (start + header, stop - start - header)
        for start, stop in zip(offsets[indices].tolist(), offsets[indices + 1].tolist(), strict=True)
    ]
    for start, length in sorted(extents):
        os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)
    return [os.pread(descriptor, length, start) for start, length in extents]
