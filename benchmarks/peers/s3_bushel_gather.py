"""Bushel: `gather`, which reads a batch into one buffer."""

from __future__ import annotations

from itertools import pairwise

from s3_bushel import open

import bushel

__all__ = ["open", "read_batch"]


def read_batch(dataset: bushel.Dataset, batch: list[tuple[int, str, int, int]]) -> list[memoryview]:
    """Return the records of a batch as parts of one buffer."""
    buffer, offsets = dataset.gather([position for position, *_ in batch], "bin")
    return [buffer[first:last].data for first, last in pairwise(offsets.tolist())]
