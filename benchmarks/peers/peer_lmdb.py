"""LMDB: big-endian positions as keys, one read transaction for a batch, values copied out as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

MAP_BYTES = 1 << 40  # an upper limit on the file's size: address space, not disk


def write(path: str, records: Iterable[bytes]) -> None:
    """Write a database into the directory ``path``."""
    Path(path).mkdir(parents=True)
    with lmdb.open(path, map_size=MAP_BYTES, sync=False) as database, database.begin(write=True) as transaction:
        for position, record in enumerate(records):
            transaction.put(position.to_bytes(8, "big"), record, append=True)


def open(path: str) -> Any:
    """Open the database at ``path``, read-only and without locks, as loaders do."""
    return lmdb.open(path, readonly=True, lock=False, readahead=False, meminit=False)


def read_batch(handle: Any, indices: np.ndarray) -> list[bytes]:
    """Return the records at ``indices``."""
    keys = indices.astype(">u8").tobytes()
    with handle.begin() as transaction:
        get = transaction.get
        return [get(keys[start : start + 8]) for start in range(0, len(keys), 8)]
