"""The writer of `pack`."""

from __future__ import annotations

from bushel.core.writer.dataset_writer import DatasetWriter
from bushel.storage import leave_workplace, workplace

__all__ = ["PackWriter"]


class PackWriter(DatasetWriter):
    """The writer of `pack`, which can continue the last shard of a dataset."""

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
            fillable = self._sharded and self._current is None and workplace(self._root) and self._shards
            self._last_may_grow = bool(fillable) and self._samples - self._shards[-1].samples >= since
