"""Hugging Face datasets: an Arrow file of fixed-size lists, memory-mapped, with the numpy format."""

from __future__ import annotations

from collections.abc import Iterator

import datasets
import numpy as np
import pyarrow as pa
from serve_columns import BATCH


def write(path: str, variant: str, rows: np.ndarray) -> None:
    """Write one column of fixed-size lists."""
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    datasets.Dataset(pa.table({"data": values})).save_to_disk(path)


class Loader:
    """Loads epochs."""

    def __init__(self, path: str, variant: str, dtype: np.dtype, length: int) -> None:
        self._dataset = datasets.load_from_disk(path).with_format("numpy", dtype=dtype)

    def epoch(self, seed: int) -> Iterator[np.ndarray]:
        """Yield shuffled batches, by the rows of each."""
        order = np.random.default_rng(seed).permutation(len(self._dataset))
        for first in range(0, len(order), BATCH):
            yield self._dataset[order[first : first + BATCH]]["data"]
