"""Upper limit: records of one length as rows of a memory-mapped array, gathered by one NumPy call per batch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np


def write(path: str, records: Iterable[bytes]) -> None:
    """Write the file ``path``; every record must be as long as the first, whose length goes to ``path + ".length"``."""
    length = 0
    with Path(path).open("wb") as file:
        for record in records:
            length = length or len(record)
            if len(record) != length:
                raise ValueError(f"records of {length} and of {len(record)} bytes: a gather needs one length")
            file.write(record)
    Path(path + ".length").write_text(str(length))


def open(path: str) -> np.ndarray:
    """Map the file ``path`` as an array of shape (records, length)."""
    length = int(Path(path + ".length").read_text())
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, length).view(np.ndarray)


def read_batch(handle: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the records at ``indices`` as the rows of a new array."""
    return np.take(handle, indices, axis=0)
