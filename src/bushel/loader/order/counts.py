"""Sums over the windows of an epoch, which are counted from its start as far as they are needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.parallel import map_all
from bushel._runtime.threads import cpu_count

ALL = 1 << 62
"""More windows, or a larger sum, than an epoch has."""
_KEPT = 2  # epochs whose sums are kept


class WindowSums:
    """The sums before each window of an epoch, of the last epochs that were asked for. Thread-safe.

    Args:
        windows: Number of windows of an epoch.
        together: Number of windows that are counted by one call.
        count: Returns the sum of each of some windows, given the epoch, the first of them and the
            window after the last one.
    """

    def __init__(self, windows: int, together: int, count: Callable[[int, int, int], I64]) -> None:
        self.windows, self._together, self._count = windows, together, count
        self.kept: list[tuple[int, I64]] = []

    def before(self, epoch: int, windows: int = 0, total: int = 0) -> I64:
        """Return the sums before the first windows of an epoch, and after them: int64[n + 1].

        There are at least `windows` of them with at least this total, if the epoch has as many.
        """
        other_epochs = [sums for sums in self.kept if sums[0] != epoch]
        before = dict(self.kept).get(epoch, np.zeros(1, np.int64))
        while len(before) <= self.windows and (len(before) <= windows or before[-1] < total):
            # some for each processor, or as many as before
            first = len(before) - 1
            last = min(self.windows, first + max(self._together * cpu_count(), first))
            counts = self._counts(epoch, first, last)
            before = np.concatenate([before, before[-1] + np.cumsum(counts)])
        self.kept[:] = [(epoch, before), *other_epochs[: _KEPT - 1]]
        return before

    def _counts(self, epoch: int, first: int, last: int) -> I64:
        """Count some windows, in threads."""
        together = self._together

        def count(start: int) -> I64:
            return self._count(epoch, start, min(start + together, last))

        return np.concatenate(map_all(count, range(first, last, together), threads=cpu_count()))
