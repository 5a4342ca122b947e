"""The writer of `pack`."""

from __future__ import annotations

from bushel._writer.column_writer import ColumnWriter
from bushel._writer.shard_writer import ShardInProgress
from bushel.containers.base import Layout
from bushel.storage import leave_workplace, workplace

__all__ = ["PackWriter"]


class PackWriter(ColumnWriter):
    """The writer of `pack`, which can continue the last shard of a dataset."""

    _last_may_grow = False

    def close_incomplete(self) -> None:
        """Finish the last shard, and leave an incomplete dataset, which `mode="resume"` continues."""
        with self._lock:
            if self._current is None and not self._shards:
                self._start_shard(self._layout or self._decide_layout(keyed=False))
            if self._current is not None:
                self._finish_shard()
            self._closed = True
            self._settle(end=True)
            leave_workplace(self._root)
            self._marker.update(self._shards)

    def fill_last(self, since: int = 0) -> None:
        """Let the next samples go into the last shard if it is not full.

        Args:
            since: Position of a sample. A shard with samples before it is not changed.
        """
        with self._lock:
            fillable = self._options.sharded and self._current is None and workplace(self._root) and self._shards
            self._last_may_grow = bool(fillable) and self._samples - self._shards[-1].samples >= since

    def _new_shard(self, layout: Layout) -> ShardInProgress:
        return self._reopen_unfilled(layout) or super()._new_shard(layout)

    def _reopen_unfilled(self, layout: Layout) -> ShardInProgress | None:
        """Reopen the last shard if it was finished before it was full, as after too many errors."""
        may_grow, self._last_may_grow = self._last_may_grow, False
        if not may_grow or (self._limits.samples is not None and self._shards[-1].samples >= self._limits.samples):
            return None
        last = self._shards[-1]
        reopened = self._reopen_last(layout)
        if not self._limits.reached_by(reopened):
            return reopened
        reopened.discard()
        self._shards.append(last)
        return None
