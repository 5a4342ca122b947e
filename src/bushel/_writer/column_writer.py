"""A writer that takes many samples at once, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bushel._writer.columns import StoredBatch, encode_columns, length_of, list_of_keys
from bushel._writer.dataset_writer import DatasetWriter
from bushel._writer.keys import NumberedKeys, key_column
from bushel._writer.shard_writer import ShardInProgress
from bushel.containers.stored_column import StoredColumn
from bushel.spec import KEY

CHUNK = 1 << 19
"""Stored bytes that `extend` frames at once."""
# stored bytes that `extend` passes to the system at once if none of them have to be copied
_LARGE_CHUNK = 1 << 23


class ColumnWriter(DatasetWriter):
    """A `DatasetWriter` with `extend`."""

    def extend(self, columns: Mapping[str, Any], keys: Iterable[str] | None = None) -> range:
        """Add many samples, given as a column for each field. It writes what `append` would write, much faster.

        Values of `bytes` fields, and arrays whose codec can encode a column at once (`array`,
        `npy`, `int`, `i64`, `u64`, `float`, `f32`), need no Python object per sample; other columns
        are encoded value by value. Columns are checked and encoded before anything is written. If
        writing fails, samples that were written before stay.

        Args:
            columns: Field to column: an array (one sample per element of its first axis;
                `uint8[n, k]` for a `bytes` field), a list, an Arrow array, or `(data, offsets)`:
                stored bytes of all samples and int64[n + 1]. A column `__key__` holds the keys,
                unless `keys` is given.
            keys: The key of each sample, as a list, an array of text, or an Arrow array.

        Returns:
            The positions of the samples in the dataset.

        Raises:
            SpecError: A field is unknown or missing, lengths differ, or the container cannot hold
                the samples.
            CodecError: A value cannot be encoded.
            ValueError: A key is missing, not allowed, or in the dataset already; or the writer is
                closed.

        Examples:
            >>> with bushel.Writer("numbers.tar", {"x": "array", "y": "int"}) as writer:
            ...     writer.extend({"x": np.zeros((1000, 8), np.float32), "y": np.arange(1000)})
            range(0, 1000)
        """
        first, count, _ = self.write_columns(columns, keys)
        return range(first, first + count)

    def write_columns(
        self, columns: Mapping[str, Any], keys: Iterable[str] | None = None
    ) -> tuple[int, int, int]:
        """Add samples as `extend` does. Return the position of the first one, their number, and their stored bytes."""
        if isinstance(columns, Mapping):
            columns = dict(columns)
        if isinstance(columns, dict) and KEY in columns:
            column_of_keys = columns.pop(KEY)
            if keys is None:
                keys = column_of_keys
        texts: Sequence[str] | None = None if keys is None else list_of_keys(keys)
        with self._lock:
            self._pause()
            self._check_open()
            plan, current = self._plan, self._current
            count = length_of(columns, plan.fields, texts)
            layout = plan.decided(self._written.shards, keyed=texts is not None)
            texts = self._checked_keys(texts, count)
            plan.check_usual(columns)
            batch = encode_columns(columns, count, plan.fields, plan.container.name, layout)
            stored_keys = None if texts is None else key_column(texts)
            first, at = self._samples, 0
            alone_until = 0  # samples before it are written one by one
            while at < count:
                shard = current.shard or current.start(self._samples)
                shard.write_pending()
                written = 0
                if at >= alone_until:
                    written, alone_until = self._write_some(shard, batch, stored_keys, at)
                if not written:
                    shard.append(None if texts is None else texts[at], batch.sample(at))
                    written = 1
                if texts is not None:
                    plan.add_keys(texts[at : at + written])
                at += written
                self._samples += written
                if current.is_full:
                    self._finish_shard()
            return first, count, batch.size

    def _checked_keys(self, keys: Sequence[str] | None, count: int) -> Sequence[str] | None:
        """Return the keys of new samples; None if they have none of their own."""
        first, table = self._samples, self._plan.keys
        if table is None:
            if keys is not None and keys != [str(number) for number in range(first, first + count)]:
                raise ValueError(
                    f"keys such as {keys[0]!r} are not allowed: the samples before"
                    " them have no keys"
                )
            return None
        if keys is None:
            if not self._plan.container.needs_keys:
                raise ValueError(
                    "these samples have no keys, but the samples before them have one: pass keys="
                )
            number = self._options.first_number + first
            keys = NumberedKeys(range(number, number + count))
        table.check_all(keys)
        return keys

    def _write_some(
        self, shard: ShardInProgress, batch: StoredBatch, keys: StoredColumn | None, at: int
    ) -> tuple[int, int]:
        """Write samples from number `at` of a batch on, at most until the shard is full.

        Returns:
            The number of samples written, and the number of the next sample that may be written
            with others.
        """
        if batch.columns is None:
            return 0, batch.samples
        samples, size = self._plan.limits.room_in(shard)
        room = None if self._plan.limits.bytes is None else max(size, 1)
        end = batch.bytes_until(at, _LARGE_CHUNK if batch.is_large else CHUNK)
        end = min(end, at + samples)
        columns = {name: column.rows(at, end) for name, column in batch.columns.items()}
        written = shard.extend(None if keys is None else keys.rows(at, end), columns, room)
        # of large samples, one may be special
        return written, at + 1 if batch.is_large else end
