"""Bushel's `gather`: the field of a batch in one buffer, with offsets."""

from __future__ import annotations

import numpy as np
from peer_bushel import open, write

from bushel._dataset.views.dataset import Dataset

__all__ = ["open", "read_batch", "write"]


def read_batch(handle: Dataset, indices: np.ndarray) -> np.ndarray:
    """Return the records at ``indices``, which have one length, as the rows of an array."""
    (field,) = handle.spec
    buffer, offsets = handle.gather(indices, field)
    return buffer.reshape(len(offsets) - 1, -1)
