"""LitData's token loader: blocks of one long stream of tokens, with two worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import litdata
import numpy as np
import torch
from serve_columns import BATCH


def write(path: str, variant: str, rows: np.ndarray) -> None:
    """Write all tokens one after another."""
    os.makedirs(path)
    writer = litdata.streaming.writer.BinaryWriter(
        path, chunk_bytes="64MB", item_loader=litdata.TokensLoader(rows.shape[1])
    )
    for number, row in enumerate(rows):
        writer.add_item(number, torch.from_numpy(np.array(row)))
    writer.done()
    writer.merge(1)


class Loader:
    """Loads epochs."""

    def __init__(self, path: str, variant: str, dtype: np.dtype, length: int) -> None:
        self._path, self._length = path, length

    def epoch(self, seed: int) -> Iterator[torch.Tensor]:
        """Yield shuffled batches."""
        dataset = litdata.StreamingDataset(
            self._path, item_loader=litdata.TokensLoader(self._length), shuffle=True, seed=seed
        )
        yield from litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=2)
