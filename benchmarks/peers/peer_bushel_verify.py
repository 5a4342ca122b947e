"""Bushel's batched `read` with every record's CRC-32 compared."""

from __future__ import annotations

import peer_bushel
from peer_bushel import read_batch, write

from bushel._dataset.views.dataset import Dataset

__all__ = ["open", "read_batch", "write"]


def open(path: str) -> Dataset:
    """Open the dataset at ``path``."""
    return peer_bushel.open(path, verify=True)
