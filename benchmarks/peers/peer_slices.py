"""Upper limit: records in one file, read as slices of a memory map and copied to bytes objects.

The offsets (u64, one more than there are records) are in ``path + ".offsets"``, so records may differ in length.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Slices(NamedTuple):
    """The mapped records, and their offsets."""

    content: mmap.mmap
    offsets: np.ndarray


def write(path: str, records: Iterable[bytes]) -> None:
    """Write the file ``path`` and its offsets."""
    with Path(path).open("wb") as file:
        lengths = [0, *map(file.write, records)]
    np.cumsum(lengths, dtype="<u8").tofile(path + ".offsets")


def open(path: str) -> Slices:
    """Map the file ``path``."""
    with Path(path).open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Slices(content, np.fromfile(path + ".offsets", dtype="<u8"))


def read_batch(handle: Slices, indices: np.ndarray) -> list[bytes]:
    """Return the records at ``indices``."""
    content, offsets = handle
    return [content[a:b] for a, b in zip(offsets[indices].tolist(), offsets[indices + 1].tolist(), strict=True)]
