"""Bagz without compression, its limits cached in memory; batched ``read_indices``.

One thread: left alone it starts up to 100 for every batch, which makes it 50 times slower on records of 200 bytes that
are in memory, and no faster on records of 8 KB that are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bagz
import numpy as np


def write(path: str, records: Iterable[bytes]) -> None:
    """Write the file ``path``, which must end in ``.bag``."""
    with bagz.Writer(path, bagz.Writer.Options(compression=bagz.CompressionNone())) as writer:
        for record in records:
            writer.write(record)


def open(path: str) -> Any:
    """A reader of the file ``path``."""
    return bagz.Reader(
        path,
        bagz.Reader.Options(
            compression=bagz.CompressionNone(), limits_storage=bagz.LimitsStorage.IN_MEMORY, max_parallelism=1
        ),
    )


def read_batch(handle: Any, indices: np.ndarray) -> list[bytes]:
    """The records at ``indices``."""
    records: list[bytes] = handle.read_indices(indices)
    return records
