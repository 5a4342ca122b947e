"""How far to work ahead: enough that the trainer does not wait, and no more than memory allows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Ahead", "count_bytes"]

_PATIENCE = 16  # batches that were all ready in a row before one fewer is worked on


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many batches to work on at a time.

    Attributes:
        least: Fewest batches.
        most: Most batches; the same as `least` for a fixed number.
        most_bytes: Bytes that they may have together. One batch is always worked on, whatever its size.
        wanted: What the trainer's waiting has led to so far.
        in_time: Batches in a row that were ready when they were asked for.
        idle: Whether all batches were ready at some time since the last increase, so that threads had nothing to do.
        largest: Bytes of the largest batch so far.
    """

    least: int
    most: int
    most_bytes: int
    wanted: int = 0
    in_time: int = 0
    idle: bool = False
    largest: int = 0

    @classmethod
    def of(cls, prefetch: int | None, most_bytes: int) -> Ahead:
        """A fixed number of batches, or (None) between 2 and 16."""
        least, most = (2, 16) if prefetch is None else (prefetch, prefetch)
        return cls(least, most, most_bytes, wanted=least)

    @property
    def batches(self) -> int:
        """How many batches to work on now."""
        fitting = self.most_bytes // self.largest if self.largest else self.wanted
        return max(1, min(self.wanted, fitting))

    def observe(self, *, ready: bool, all_ready: bool, fetched: bool, size: int) -> Ahead:
        """Learn from one batch.

        When the trainer has to wait because all threads are busy decoding, more batches would only take more memory.

        Args:
            ready: Whether it was ready when the trainer asked.
            all_ready: Whether all others that are worked on were too.
            fetched: Whether at least its stored bytes were there.
            size: Its bytes.
        """
        in_time = self.in_time + 1 if ready else 0
        wanted, idle = self.wanted, self.idle or all_ready
        if not ready and (idle or not fetched):
            wanted, idle = min(wanted + 1, self.most), False
        elif in_time == _PATIENCE:
            wanted, in_time = max(wanted - 1, self.least), 0
        return replace(self, wanted=wanted, in_time=in_time, idle=idle, largest=max(self.largest, size))


def count_bytes(value: Any) -> int:
    """Bytes of the arrays, bytes and text in a batch."""
    if isinstance(value, np.ndarray | memoryview):
        return value.nbytes
    if isinstance(value, bytes | bytearray | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(count_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(count_bytes, value))
    return 0
