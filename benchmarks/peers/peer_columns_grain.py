"""Grain over an ArrayRecord of raw numbers, in its threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from serve_columns import BATCH


def write(path: str, variant: str, rows: np.ndarray) -> None:
    """Write a record per row."""
    writer = ArrayRecordWriter(path, "group_size:1,uncompressed")
    for row in rows:
        writer.write(row.tobytes())
    writer.close()


class Loader:
    """Loads epochs."""

    def __init__(self, path: str, variant: str, dtype: np.dtype, length: int) -> None:
        self._source, self._dtype = grain.sources.ArrayRecordDataSource([path]), dtype

    def epoch(self, seed: int) -> Iterator[np.ndarray]:
        """Yield shuffled batches."""
        dataset = grain.MapDataset.source(self._source).seed(seed).shuffle()
        decoded = dataset.map(partial(np.frombuffer, dtype=self._dtype)).batch(BATCH)
        yield from decoded.to_iter_dataset()
