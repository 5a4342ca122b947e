"""Granular 0.24: a dataset with one ``bytes`` column and a cached index. Each record is one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import granular
import numpy as np


def write(path: str, records: Iterable[bytes]) -> None:
    """Write a dataset to the directory ``path``."""
    with granular.DatasetWriter(path, {"data": "bytes"}, granular.encoders) as writer:
        for record in records:
            writer.append({"data": record}, flush=False)


def open(path: str) -> Any:
    """Open the dataset at ``path``."""
    return granular.DatasetReader(path, granular.decoders, cache_index=True)


def read_batch(handle: Any, indices: np.ndarray) -> list[bytes]:
    """Return the records at ``indices``."""
    return [handle[index]["data"] for index in indices.tolist()]
