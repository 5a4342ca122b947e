"""The public writer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bushel.containers.base import StoredColumn
from bushel.core.writer.columns import (
    StoredBatch,
    encode_columns,
    key_column,
    length_of,
    list_of_keys,
    numbered_keys,
)
from bushel.core.writer.dataset_writer import CHECKPOINT_SECONDS, DatasetWriter, Mode
from bushel.core.writer.shard_writer import ShardInProgress
from bushel.spec import KEY

__all__ = ["Writer"]

CHUNK = 4 << 20
"""Stored bytes that `extend` frames at once."""


class Writer(DatasetWriter):
    """Writes a dataset: one sample at a time, or many as columns (`extend`).

    A shard gets its final name only when it is complete and on disk. Until then it is staged in `.bushel/staging`
    beside it, with a journal, so that `mode="resume"` continues after a kill without losing or doubling a sample. If
    the body of the `with` statement raises, finished shards stay, and the unfinished one is left for `mode="resume"`.

    Shards of a dataset in an object store are staged in a local folder (under `TMPDIR`, with space for two shards) and
    uploaded when they are complete, each while the next one is written. `mode="resume"` continues there; on another
    machine it continues after the last uploaded shard.

    Threads may share a writer. Samples are written in the order in which `append` and `extend` are called.

    Args:
        path: Folder of the dataset, or, for tar, ffrecord and recordio, the name of the one file to write. A local
            path, or a URL: `s3://`, `gs://`, `az://`.
        spec: Field to type, such as `{"image": "jpg", "words": "utf8[]"}`. Can be left out if there is a dataset
            already, except with `overwrite`.
        container: `bag`, `tar`, `ffrecord`, `gulp` or `recordio`. Can be left out if the suffix of `path` or the
            existing dataset tells it.
        mode: `create` refuses to write where a dataset is. `append` adds to a dataset, as new shards or in its one
            file. `resume` continues an interrupted write; `len(writer)` is then the number of samples that are kept.
            `overwrite` replaces a dataset of any container: the old one stays readable until `close` has completed the
            new one and swaps them. If the write fails or is killed, the old dataset stays. In an object store, only a
            dataset of one file can be overwritten.
        shard_samples: Number of samples after which a new shard is started.
        shard_bytes: Size of a shard after which a new one is started: a number of bytes, or text such as `"1GB"`.
        generation: Generation of a bag: `B` (the default; Granular 0.20 to 0.21) or `C` (from 0.22 on).
        expected: Number of samples that will be appended, if known. It saves some containers a copy of the data.
        folders: Paths of empty folders, if samples are the files of a folder with their paths as keys. Only `ffrecord`
            keeps them, in the first shard that is written.
        sync: Whether to wait until a finished shard is on disk. If not, a power cut may lose finished shards.
        labels: Names of classes in the order of their numbers, by field: `{"label": ["cat", "dog"]}`. They are kept
            with the dataset, as `bushel.open(path).labels`. A dataset that is continued keeps its names; new ones
            follow.
        seek: Make seek tables of plain JPEGs, with which crops and whole images decode faster: see
            docs/seek-tables.md. Each finished shard is read, and its images are decoded once. Samples that are added to
            a dataset with seek tables get theirs in any case.

    Raises:
        FileExistsError: There is a dataset or an unfinished write at `path`; with `overwrite`, the folder contains
            files that are not part of a dataset, or another process is overwriting it.
        FileNotFoundError: There is no dataset to append to.
        SpecError: The container cannot hold samples of this spec; the message says why, and which containers can. Or
            `labels` are invalid.
        StateError: The existing dataset has another spec or container, or numbers the classes in another way.
    """

    def __init__(
        self,
        path: object,
        spec: Mapping[str, str] | None = None,
        *,
        container: str | None = None,
        mode: Mode = "create",
        shard_samples: int | None = None,
        shard_bytes: int | str | None = None,
        generation: str | None = None,
        expected: int | None = None,
        folders: Iterable[str] | None = None,
        sync: bool = True,
        labels: Mapping[str, Sequence[str]] | None = None,
        seek: bool = False,
    ) -> None:
        super().__init__(
            path,
            spec,
            container=container,
            mode=mode,
            shard_samples=shard_samples,
            shard_bytes=shard_bytes,
            generation=generation,
            expected=expected,
            folders=folders,
            sync=sync,
            labels=labels,
            seek=seek,
        )

    def extend(self, columns: Mapping[str, Any], keys: Iterable[str] | None = None) -> range:
        """Add many samples, given as a column for each field. It writes what `append` would write, much faster.

        Values of `bytes` fields, and arrays whose codec can encode a column at once (`array`, `npy`, `int`, `i64`,
        `u64`, `float`, `f32`), need no Python object per sample; other columns are encoded value by value. Columns are
        checked and encoded before anything is written. If writing fails, samples that were written before stay.

        Args:
            columns: Field to column: an array (one sample per element of its first axis; `uint8[n, k]` for a `bytes`
                field), a list, an Arrow array, or `(data, offsets)`: stored bytes of all samples and int64[n + 1]. A
                column `__key__` holds the keys, unless `keys` is given.
            keys: The key of each sample, as a list, an array of text, or an Arrow array.

        Returns:
            The positions of the samples in the dataset.

        Raises:
            SpecError: A field is unknown or missing, lengths differ, or the container cannot hold the samples.
            CodecError: A value cannot be encoded.
            ValueError: A key is missing, not allowed, or in the dataset already; or the writer is closed.
        """
        columns = dict(columns) if isinstance(columns, Mapping) else columns
        if isinstance(columns, dict) and KEY in columns:
            own = columns.pop(KEY)
            keys = own if keys is None else keys
        texts = None if keys is None else list_of_keys(keys)
        with self._lock:
            if self._closed:
                raise ValueError("the writer is closed")
            if self._uploads.failed:
                self._fail()
            count = length_of(columns, self._fields, texts)
            layout = self._layout or self._decide_layout(keyed=texts is not None)
            texts = self._checked_keys(texts, count)
            batch = encode_columns(columns, count, self._fields, self._container.name, layout)
            stored_keys = None if texts is None else key_column(texts)
            first, at = self._samples, 0
            while at < count:
                shard = self._current or self._start_shard(layout)
                written = self._write_some(shard, batch, stored_keys, texts, at)
                if self._keys is not None and texts is not None:
                    self._keys.add_all(texts[at : at + written])
                at += written
                self._samples += written
                self._appended = True
                if self._is_full(shard):
                    self._finish_shard()
                elif time.monotonic() - self._checkpointed > CHECKPOINT_SECONDS:
                    self._checkpoint(shard)
            return range(first, first + count)

    def _checked_keys(self, keys: list[str] | None, count: int) -> list[str] | None:
        """Return the keys of new samples; None if they have none of their own."""
        first = self._samples
        if self._keys is None:
            if keys is not None and keys != [str(number) for number in range(first, first + count)]:
                raise ValueError(f"keys such as {keys[0]!r} are not allowed: the samples before them have no keys")
            return None
        if keys is None:
            if not self._container.needs_keys:
                raise ValueError("these samples have no keys, but the samples before them have one: pass keys=")
            keys = numbered_keys(first, count)
        self._keys.check_all(keys)
        return keys

    def _write_some(
        self, shard: ShardInProgress, batch: StoredBatch, keys: StoredColumn | None, texts: list[str] | None, at: int
    ) -> int:
        """Write samples from number `at` of a batch on, at most until the shard is full, and return how many."""
        room = None if self._limit_bytes is None else max(self._limit_bytes - shard.bytes, 1)
        if batch.columns is not None:
            end = batch.bytes_until(at, CHUNK)
            if self._limit_samples is not None:
                end = min(end, at + self._limit_samples - shard.samples)
            columns = {name: column.rows(at, end) for name, column in batch.columns.items()}
            if written := shard.extend(None if keys is None else keys.rows(at, end), columns, room):
                return written
        shard.append(None if texts is None else texts[at], batch.sample(at))
        return 1
