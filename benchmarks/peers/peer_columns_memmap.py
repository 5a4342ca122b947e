"""Rows of a ``numpy.memmap`` in the order of a permutation: what people write by hand for tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from serve_columns import BATCH


class Loader:
    """Loads epochs by indexing, or by ``numpy.take``."""

    def __init__(self, path: str, variant: str, dtype: np.dtype, length: int) -> None:
        self._rows, self._takes = np.memmap(path, dtype, "r").reshape(-1, length), variant == "take"

    def epoch(self, seed: int) -> Iterator[np.ndarray]:
        """Yield shuffled batches."""
        rows, order = self._rows, np.random.default_rng(seed).permutation(len(self._rows))
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            yield np.take(rows, chosen, axis=0) if self._takes else rows[chosen]
