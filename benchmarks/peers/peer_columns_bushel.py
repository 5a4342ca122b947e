"""Bushel's Loader. The variant is the container, the number of worker threads, and `keys` for batches with keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from serve_columns import BATCH

import bushel


def write(path: str, variant: str, rows: np.ndarray) -> None:
    """Write the rows: tokens as arrays, records as bytes."""
    kind = "bytes" if rows.dtype == np.uint8 else "array"
    with bushel.Writer(path, {"data": kind}, container=variant.split()[0]) as writer:
        for first in range(0, len(rows), 5000):
            writer.extend({"data": np.ascontiguousarray(rows[first : first + 5000])})


class Loader:
    """Loads epochs."""

    def __init__(self, path: str, variant: str, dtype: np.dtype, length: int) -> None:
        _, threads, *keys = variant.split()
        self._dataset, self._threads, self._keys = bushel.open(path), int(threads), bool(keys)

    def epoch(self, seed: int) -> Iterator[np.ndarray]:
        """Yield shuffled batches."""
        loader = bushel.Loader(
            self._dataset,
            BATCH,
            shuffle=True,
            seed=seed,
            threads=self._threads,
            keys=self._keys,
            collate={"data": "stack"},
        )
        for batch in loader:
            yield batch["data"]
