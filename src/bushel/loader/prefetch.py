"""The number of batches to prefetch: enough that the trainer does not wait, within a memory limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["PrefetchWindow", "count_bytes"]

_PATIENCE = 16  # batches that were all ready in a row before the window shrinks by one


@dataclass(frozen=True, slots=True)
class PrefetchWindow:
    """The number of batches that are worked on at a time, adapted to how long the trainer waits.

    Attributes:
        least: Minimum number of batches.
        most: Maximum number; the same as `least` for a fixed number.
        most_bytes: Maximum size of them together, in bytes. One batch is always worked on, whatever its size.
        wanted: The number without the limit on bytes.
        in_time: Number of batches in a row that were ready when the trainer asked for them.
        idle: Whether all batches were ready at some time since the last increase, so that threads had nothing to do.
        largest: Size of the largest batch so far, in bytes.
    """

    least: int
    most: int
    most_bytes: int
    wanted: int = 0
    in_time: int = 0
    idle: bool = False
    largest: int = 0

    @classmethod
    def of(cls, prefetch: int | None, most_bytes: int) -> PrefetchWindow:
        """Return a window of `prefetch` batches, or (None) of between 2 and 16."""
        least, most = (2, 16) if prefetch is None else (prefetch, prefetch)
        return cls(least, most, most_bytes, wanted=least)

    @property
    def batches(self) -> int:
        """The number of batches to work on now."""
        fitting = self.most_bytes // self.largest if self.largest else self.wanted
        return max(1, min(self.wanted, fitting))

    def observe(self, *, ready: bool, all_ready: bool, fetched: bool, size: int) -> PrefetchWindow:
        """Return the window after one batch.

        It does not grow while all threads are busy decoding: more batches would then only take more memory.

        Args:
            ready: Whether the batch was ready when the trainer asked for it.
            all_ready: Whether all batches of the window were.
            fetched: Whether at least its stored bytes were read.
            size: Its size in bytes.
        """
        in_time = self.in_time + 1 if ready else 0
        wanted, idle = self.wanted, self.idle or all_ready
        if not ready and (idle or not fetched):
            wanted, idle = min(wanted + 1, self.most), False
        elif in_time == _PATIENCE:
            wanted, in_time = max(wanted - 1, self.least), 0
        return replace(self, wanted=wanted, in_time=in_time, idle=idle, largest=max(self.largest, size))


def count_bytes(value: Any) -> int:
    """Return the size of the arrays, bytes and text in a batch, in bytes."""
    if isinstance(value, np.ndarray | memoryview):
        return value.nbytes
    if isinstance(value, bytes | bytearray | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(count_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(count_bytes, value))
    return 0
