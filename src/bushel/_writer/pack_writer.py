"""The writer of `pack`."""

from __future__ import annotations

from bushel._writer.column_writer import ColumnWriter
from bushel.storage import workplace


class PackWriter(ColumnWriter):
    """The writer of `pack`, which can continue the last shard of a dataset."""

    @property
    def was_unfinished(self) -> bool:
        """Whether the dataset was incomplete when it was opened."""
        return self._written.was_unfinished

    def close_incomplete(self) -> None:
        """Finish the last shard, and leave an incomplete dataset, which `mode="resume"` continues."""
        with self._lock:
            samples = self._pause()
            if self._current.shard is None and not self._written.shards:
                self._current.start(samples)
            self._finish_shard()
            self._closed = True
            self._written.leave_incomplete()

    def fill_last(self, since: int = 0) -> None:
        """Let the next samples go into the last shard if it is not full.

        A shard with samples before the position `since` is not changed.
        """
        with self._lock:
            shards, divided = self._written.shards, self._options.sharded and self._current.shard is None
            fillable = divided and workplace(self._written.target.root) and shards
            self._current.last_may_grow = bool(fillable) and len(self) - shards[-1].samples >= since
