"""The public writer, which takes samples one by one, or many at once as columns."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bushel._runtime.public import names_near, public
from bushel.codecs.columns import without_arrow
from bushel.containers.stored_column import StoredColumn
from bushel.spec import KEY

from .dataset_plan import not_allowed
from .dataset_writer import DatasetWriter
from .options import Mode, WriterOptions
from .sample_values import StoredBatch, encode_columns, length_of, list_of_keys
from .shard_writer import ShardInProgress
from .written_shards import WrittenShards

_log = logging.getLogger("bushel")

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
                unless `keys` is given. A column of a field with `labels` may have names of classes.
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
        if isinstance(columns, Mapping) and KEY in columns:
            columns = dict(columns)
            column_of_keys = columns.pop(KEY)
            if keys is None:
                keys = column_of_keys
        texts: Sequence[str] | None = None if keys is None else list_of_keys(keys)
        with self._lock:
            self._pause()
            self._check_open()
            plan, finished = self._plan, self._written
            count = length_of(columns, plan.fields, texts)
            columns = {name: without_arrow(column) for name, column in columns.items()}
            if plan.numbers:
                columns = plan.with_numbers(columns)
            layout = plan.decided(finished.shards, keyed=texts is not None)
            stored_keys = self._checked_keys(texts, count)
            if plan.usual is not None:
                plan.usual.check(columns, plan.fields)
            batch = encode_columns(columns, count, plan.fields, plan.container.name, layout)
            first, at = self._samples, 0
            alone_until = 0  # samples before it are written one by one
            while at < count:
                shard = finished.current or finished.start_shard(self._samples)
                shard.write_pending()
                written = 0
                if at >= alone_until:
                    written, alone_until = self._write_some(shard, batch, stored_keys, at)
                if not written:
                    key = None
                    if stored_keys is not None:
                        [key] = stored_keys.rows(at, at + 1).texts
                    shard.append(key, batch.sample(at))
                    written = 1
                if plan.keys is not None:
                    plan.keys.add(texts and texts[at : at + written])
                at += written
                self._samples += written
                if 0 in plan.limits.room_after(shard.samples, shard.bytes):
                    self._finish_shard()
            return first, count, batch.size

    def _checked_keys(self, keys: Sequence[str] | None, count: int) -> StoredColumn | None:
        """Return the keys of new samples; None if the dataset stores none."""
        first, check = self._samples, self._plan.keys
        if check is not None:
            number = self._options.first_number + first
            return check.check_all(keys, range(number, number + count))
        if keys and keys != [str(number) for number in range(first, first + count)]:
            raise not_allowed(keys)
        return None

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
        samples, size = self._plan.limits.room_after(shard.samples, shard.bytes)
        room = None if self._plan.limits.bytes is None else max(size, 1)
        end = batch.bytes_until(at, _LARGE_CHUNK if batch.is_large else CHUNK)
        end = min(end, at + samples)
        columns = {name: column.rows(at, end) for name, column in batch.columns.items()}
        written = shard.extend(None if keys is None else keys.rows(at, end), columns, room)
        # of large samples, one may be special
        return written, at + 1 if batch.is_large else end


@public()
class Writer(ColumnWriter):
    """Writes a dataset: one sample at a time, or many as columns (`extend`).

    A shard gets its final name only when it is complete and on disk; until then it is staged in
    `.bushel/staging`. If the writer is killed, or the body of the `with` statement raises, finished
    shards stay, and `mode="resume"` continues after the last of them: the samples of the unfinished
    one have to be appended again. One file has no shards: writing it starts again, and appending to
    it leaves it as it was.

    Shards of a dataset in an object store are staged in a local folder (under `TMPDIR`, with space
    for two shards) and uploaded when they are complete, each while the next one is written.
    `mode="resume"` continues after the last uploaded shard.

    Threads may share a writer. Samples are written in the order in which `append` and `extend` are
    called. A second writer of the same path is refused until the first one is closed, also in other
    processes and on other machines.

    Args:
        path: Folder of the dataset, or, for tar, ffrecord and recordio, the name of the one file to
            write. A local path, or a URL: `s3://`, `gs://`, `az://`.
        spec: Field to type, such as `{"image": "jpg", "words": "utf8[]"}`. Can be left out if
            `path` has a dataset already, except with `overwrite`.
        container: `bag`, `tar`, `ffrecord`, `gulp` or `recordio`. Can be left out if the suffix of
            `path` or the existing dataset has it.
        mode: `create` refuses to write where a dataset is. `append` adds to a dataset, as new
            shards or in its one file. `resume` continues an interrupted write; `len(writer)` is
            then the number of samples that are kept. `overwrite` replaces a dataset of any
            container: the old one stays readable until `close` has completed the new one and swaps
            them. If the write fails or is killed, the old dataset stays. In an object store, only a
            dataset of one file can be overwritten.
        shard_samples: Number of samples after which a new shard is started.
        shard_bytes: Size of a shard after which a new one is started: a number of bytes, or text
            such as `"1GB"`; 0 for a folder of one shard. Without it and `shard_samples`, 1 GiB for
            a folder. A bag or gulp that is smaller has the layout that their tools give to one
            shard, and stays one when samples are appended.
        generation: Generation of a bag: `B` (the default; Granular 0.20 to 0.21) or `C` (from 0.22
            on).
        expected: Number of samples that will be appended, if known; with `mode="resume"`, of the
            whole dataset. It saves some containers a copy of the data.
        folders: Paths of empty folders, if samples are the files of a folder with their paths as
            keys. Only `ffrecord` keeps them, in the first shard that is written.
        sync: Whether to wait until a finished shard is on disk. If not, a power cut may lose
            finished shards.
        labels: Names of classes in the order of their numbers, by field:
            `{"label": ["cat", "dog"]}`. They are kept with the dataset, as
            `bushel.open(path).labels`. A dataset that is continued keeps its names; new ones
            follow. A sample may have the name of its class, which is stored as the number.
        seek: Make seek tables of plain JPEGs, with which crops decode faster: see
            docs/seek-tables.md. Each finished shard is read, and its images are decoded once.
            Samples that are added to a dataset with seek tables get theirs in any case.
        columns: Columns to record in the index, such as `["label", "image.width"]`, in which `auto`
            stands for the usual ones; `()` for none. By default the usual ones: numbers, texts of
            at most 32 bytes on average, and sizes of images (docs/columns.md); samples that are
            added to a dataset get the columns that it has.
        forget_removed: Whether `overwrite` drops the list of removed samples (docs/removal.md). By
            default it is kept: a removed sample that is written again stays removed.

    Raises:
        FileExistsError: `path` has a dataset or an unfinished write, or, in any mode except
            `overwrite`, a dataset in parts; with `overwrite`, the folder contains files that are
            not part of a dataset.
        InUseError: Another writer is open for `path`, in this process or elsewhere
            (docs/packing.md).
        FileNotFoundError: The dataset to append to does not exist.
        SpecError: The container cannot hold samples of this spec; the message names the reason, and
            the containers that can. Or `labels` are invalid, or a field cannot have a column.
        KeyError: A column does not belong to a field.
        StateError: The existing dataset has another spec or container, or numbers the classes in
            another way.

    Examples:
        >>> with bushel.Writer("out/", {"image": "jpg", "label": "int"}, container="tar") as writer:
        ...     writer.append({"image": Path("photo.jpg").read_bytes(), "label": 3}, key="first")
        ...     writer.append({"image": np.zeros((48, 64, 3), np.uint8), "label": 4}, key="second")
        0
        1
        >>> bushel.open("out/")["second"]["label"]
        4
    """

    @names_near
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
        columns: str | Iterable[str] | None = None,
        forget_removed: bool = False,
    ) -> None:
        super().__init__(path, spec, WriterOptions.of(locals()))
        unclosed = weakref.finalize(
            self,
            _say_unclosed,
            str(self._path),
            os.getpid(),
            self._written,
            overwrite=mode == "overwrite",
        )
        self._let_go.callback(unclosed.detach)


def _say_unclosed(path: str, process: int, written: WrittenShards, *, overwrite: bool) -> None:
    """Log that a writer with samples was never closed. It runs when the writer is collected, or the process ends."""
    if os.getpid() != process or written.current is None:
        return
    lost = "its last samples are not in the dataset; mode='resume' continues after its last shard"
    if overwrite:
        lost = "nothing was written"
    _log.warning(
        "%s: a Writer was not closed, so %s. Use it in a `with` statement, or call close()",
        path,
        lost,
    )
