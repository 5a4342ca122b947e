"""MosaicML streaming: a local MDS of arrays, in a torch DataLoader with two worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from serve_columns import BATCH
from streaming import MDSWriter, StreamingDataset


def write(path: str, variant: str, rows: np.ndarray) -> None:
    """Write a sample per row."""
    with MDSWriter(out=path, columns={"data": f"ndarray:{rows.dtype}:{rows.shape[1]}"}) as writer:
        for row in rows:
            writer.write({"data": np.array(row)})


class Loader:
    """Loads epochs."""

    def __init__(self, path: str, variant: str, dtype: np.dtype, length: int) -> None:
        self._dataset = StreamingDataset(local=path, shuffle=True, batch_size=BATCH)

    def epoch(self, seed: int) -> Iterator[torch.Tensor]:
        """Yield shuffled batches; the dataset counts its epochs itself."""
        for batch in torch.utils.data.DataLoader(self._dataset, BATCH, num_workers=2):
            yield batch["data"]
