"""MXNet ``MXIndexedRecordIO``: a seek and a read per record. Runs in the environment ``mxnet``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from mxnet.recordio import MXIndexedRecordIO


def write(path: str, records: Iterable[bytes]) -> None:
    """Write the file ``path`` and its index ``path + ".idx"``."""
    writer = MXIndexedRecordIO(path + ".idx", path, "w")
    for position, record in enumerate(records):
        writer.write_idx(position, record)
    writer.close()


def open(path: str) -> Any:
    """Open the file ``path``."""
    return MXIndexedRecordIO(path + ".idx", path, "r")


def read_batch(handle: Any, indices: np.ndarray) -> list[bytes]:
    """Return the records at ``indices``."""
    return [handle.read_idx(index) for index in indices.tolist()]
