"""ArrayRecord with one record per group, as it advises for random access, and no compression; ``read(indices)``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter


def write(path: str, records: Iterable[bytes]) -> None:
    """Write the file ``path``."""
    writer = ArrayRecordWriter(path, "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()


def open(path: str) -> Any:
    """Open the file ``path`` without read-ahead, with a persistent thread pool."""
    return ArrayRecordReader(path, "readahead_buffer_size:0")


def read_batch(handle: Any, indices: np.ndarray) -> list[bytes]:
    """Return the records at ``indices``."""
    records: list[bytes] = handle.read(indices.tolist())
    return records
