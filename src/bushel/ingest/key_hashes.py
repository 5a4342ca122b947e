"""Find keys that several parts have, with files of hashes instead of a table of all keys in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bushel.core.index.table import U64, Keys

__all__ = ["KeyHashes", "taken_keys"]

_BITS = 6


class KeyHashes:
    """Hashes of keys in files, each with an equal share of all possible hashes. Threads may add at the same time.

    Args:
        folder: A folder for the files.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"keys-{number:02d}" for number in range(1 << _BITS)]
        self._lock = threading.Lock()

    def add(self, each: Sequence[U64]) -> None:
        """Add the hashes of some shards: 8 bytes on disk for each key."""
        hashes = np.sort(np.concatenate([*each, np.zeros(0, np.uint64)]))
        bounds = np.arange(1, 1 << _BITS, dtype=np.uint64) << np.uint64(64 - _BITS)
        pieces = np.split(hashes, np.searchsorted(hashes, bounds))
        with self._lock:
            for path, piece in zip(self._paths, pieces, strict=True):
                if len(piece):
                    with open(path, "ab") as file:
                        piece.tofile(file)

    def repeated(self) -> U64:
        """Return the hashes that were added more than once, ascending. One file at a time is in memory."""
        found = [np.zeros(0, np.uint64)]
        for path in self._paths:
            if path.exists():
                hashes = np.sort(np.fromfile(path, np.uint64))
                found.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
        return np.concatenate(found)


def taken_keys(hashes: U64, shards: Iterable[tuple[int, Keys]]) -> dict[int, dict[str, int]]:
    """Return the keys of each part that an earlier part has, with the number of the first part that has them.

    Args:
        hashes: Hashes of keys that several parts may have, ascending.
        shards: The keys of each shard, with the number of its part, in order.
    """
    first: dict[str, int] = {}
    taken: dict[int, dict[str, int]] = {}
    for number, keys in shards:
        rows = keys.order[np.isin(keys.hashes, hashes)]
        for key in keys.take(np.sort(rows)) if len(rows) else ():
            if first.setdefault(key, number) != number:
                taken.setdefault(number, {})[key] = first[key]
    return taken
