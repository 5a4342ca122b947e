"""Bags and datasets of Granular 0.24.

Writers write generation C (`.bag` and `.idx` files) and continue where an earlier writer ended or
died. Readers read every generation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np

from bushel.compat.granular import bag, loader, sources
from bushel.compat.granular.base import (
    Closing,
    DamagedError,
    MismatchError,
    NoIndexError,
    OfSpec,
    UnknownTypeError,
    WrongTypeError,
    WrongUseError,
)
from bushel.compat.granular.formats import Codecs, bind_codecs, stored_bytes
from bushel.compat.granular.paths import LocalCopy, granular_path, make_folder, with_suffix
from bushel.compat.granular.reader import DatasetReader as AnyDatasetReader
from bushel.compat.granular.writer import ShardedDatasetWriter as NewShards
from bushel.compat.granular.writer import checked_point, checked_spec
from bushel.containers import WriteOptions
from bushel.containers.bag import encode_table, plan_layout
from bushel.errors import SpecError
from bushel.spec import Field
from bushel.storage import AnyPath, Sink, read_whole, write_whole


class _Appending(Closing):
    """A writer that buffers appended values until they are flushed."""

    _length: int

    def __len__(self) -> int:
        return self._length

    def flush(self) -> None:
        """Hand the buffered values to the operating system: records first, and then their ends.

        Raises:
            MismatchError: They differ from the values that an interrupted writer left. None of them
                is written.
        """

    def _added(self, flush: bool) -> int:
        self._length += 1
        if flush:
            self.flush()
        return self._length - 1


class BagWriter(_Appending):
    """Writes records to a `.bag`, and their ends to an `.idx`, or continues existing files.

    Flushed records can be read, and survive the death of this process. Bytes that an earlier writer
    left without an end in the index are compared with the next records, whose part they become. On
    other file systems, files are copied when they are closed.
    """

    def __init__(self, bag_path: Any, idx_path: Any = None) -> None:
        super().__init__()
        path = granular_path(bag_path)
        idx = with_suffix(path, ".idx") if idx_path is None else granular_path(idx_path)
        self.bag_path, self.idx_path = bag_path, idx
        self._copies = [LocalCopy(path), LocalCopy(idx)]
        ends = _committed(self._copies[1].path)
        self._end = int(ends[-1]) if len(ends) else 0
        size = self._copies[0].path.stat().st_size if self._copies[0].path.exists() else 0
        if size < self._end:
            hint = "run `bushel verify` on the dataset, or delete both files"
            raise DamagedError(
                f"the bag has {size} bytes, where {idx} expects {self._end}",
                file=str(path),
                hint=hint,
            )
        self._length, self._records = len(ends), list[bytes]()
        self._idx = Sink(self._copies[1].path, 8 * len(ends))
        self._bag = Sink(self._copies[0].path, size)

    @property
    def size(self) -> int:
        """Bytes of both files."""
        return self._end + sum(map(len, self._records)) + 8 * len(self)

    def append(self, record: bytes, flush: bool = True) -> int:
        """Append a record and return its number."""
        bag.check_record(record, self.closed, self._length)
        self._records.append(record)
        return self._added(flush)

    def flush(self) -> None:
        if self._records:
            self._bag.write(self._new_part(b"".join(self._records)))
            self._bag.flush()
            ends = self._end + np.cumsum([len(record) for record in self._records], dtype=np.int64)
            self._end = int(ends[-1])
            self._records.clear()
            self._idx.write(encode_table(ends, "C"))
            self._idx.flush()

    def _new_part(self, content: bytes) -> bytes:
        """Return the content without the bytes that an earlier writer left already; raise if they differ."""
        left = min(self._bag.position - self._end, len(content))
        if left <= 0:
            return content
        path = self._copies[0].path
        if content[:left] == np.fromfile(path, np.uint8, left, offset=self._end).tobytes():
            return content[left:]
        self.forget()
        raise MismatchError(
            f"{self.bag_path}: an interrupted writer left bytes {self._end} to "
            f"{self._bag.position}, and the next record does not match them: append the "
            f"same datapoints as before, or remove them (truncate -s {self._end} {path})"
        )

    def check(self) -> None:
        """Raise the error that `flush` would raise."""
        if self._bag.position > self._end:
            self._new_part(b"".join(self._records))

    def forget(self) -> None:
        """Drop the buffered records."""
        self._length -= len(self._records)
        self._records.clear()

    def record(self, number: int) -> bytes:
        """Return a flushed record."""
        first = max(number - 1, 0)
        ends = np.fromfile(
            self._copies[1].path, "<u8", number - first + 1, offset=8 * first
        ).tolist()
        start = ends[0] if number else 0
        return np.fromfile(self._copies[0].path, np.uint8, ends[-1] - start, offset=start).tobytes()

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
        finally:
            self.closed = True
            self._bag.close()
            self._idx.close()
        for copy in self._copies:
            copy.publish()


def _committed(path: Path) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the whole entries of an index."""
    if not path.exists():
        return np.zeros(0, "<u8")
    return np.fromfile(path, "<u8", path.stat().st_size // 8)


class BagReader(bag.BagReader):
    """Reads a bag of any generation: paths, or bytes. By default the `.idx` is the file beside the bag.

    `cache_index` and `cache_data` keep the table and the records in memory; `single_file` is
    detected too.
    """

    def __init__(
        self,
        bag_source: Any,
        idx_source: Any = None,
        cache_index: bool = True,
        cache_data: bool = False,
        single_file: bool = False,
    ) -> None:
        if single_file and idx_source is not None:
            raise WrongUseError("a single file has no idx_source")
        self._missing: AnyPath | None = None
        if (
            idx_source is None
            and not single_file
            and not isinstance(bag_source, bytes | bytearray | memoryview)
        ):
            table = with_suffix(granular_path(bag_source), ".idx")
            idx_source, self._missing = (table, None) if table.exists() else (None, table)
        try:
            super().__init__(bag_source, cache_index, cache_data, index=idx_source)
        except DamagedError as error:
            if idx_source is not None or single_file:
                raise
            raise NoIndexError(error.message, **cast("dict[str, Any]", error.details)) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_missing": self._missing}

    def __getitem__(self, index: Any) -> Any:
        """Return a record, or the records of a range. Without an `.idx`, a wrong index is a `NoIndexError`."""
        try:
            return super().__getitem__(index)
        except (WrongTypeError, WrongUseError) as error:
            if self._missing is None:
                raise
            raise NoIndexError(str(error), file=str(self._missing)) from error


class DatasetReader(AnyDatasetReader):
    """Reads a dataset of any generation. A range of datapoints may be longer than the dataset."""

    _clips = True


class DatasetWriter(OfSpec, _Appending):
    """Writes a dataset without sequences, with a `.bag` and an `.idx` for each key, or continues an existing one.

    Flushed datapoints can be read, and survive the death of this process. An existing dataset is
    continued after its last whole datapoint; later records of single keys must equal the datapoints
    that are appended next.
    """

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Codecs) -> None:
        super().__init__()
        self._spec = checked_spec(spec)
        if not self._spec:
            raise WrongUseError("a dataset needs at least one key")
        fields = {
            name: Field(name, "bytes", kind.endswith("[]")) for name, kind in self._spec.items()
        }
        fields.pop("__key__", None)
        try:
            plan_layout(
                fields, WriteOptions(keyed="__key__" in self._spec, generation="C", single=True)
            )
        except SpecError as error:
            if any(field.sequence for field in fields.values()):
                raise UnknownTypeError(error.message, **error.details) from error
            raise
        self._encoders = bind_codecs(encoders, self._spec)
        self.directory, path = directory, granular_path(directory)
        _put_spec(path, self._spec)
        with ExitStack() as opened:
            self._bags = {
                name: opened.enter_context(BagWriter(path / f"{name}.bag")) for name in self._spec
            }
            self._length = min(len(writer) for writer in self._bags.values())
            opened.pop_all()  # close() closes them

    @property
    def size(self) -> int:
        """Bytes of all bags and indices."""
        return sum(writer.size for writer in self._bags.values())

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Append a datapoint and return its number. If it cannot be encoded, nothing of it is stored.

        Raises:
            MismatchError: An interrupted writer left another record for one of the keys.
        """
        if self.closed:
            raise WrongUseError("the writer is closed")
        checked_point(datapoint, self._spec)
        records = {
            name: stored_bytes(name, kind, self._encoders[name], datapoint[name])
            for name, kind in self._spec.items()
        }
        names = {name for name, writer in self._bags.items() if len(writer) > self._length}
        for name in names:
            if self._bags[name].record(self._length) != records[name]:
                raise MismatchError(
                    "Record mismatch: an interrupted writer left another "
                    f"{name!r} for datapoint {self._length} of {self.directory}: "
                    "append the same datapoints as before, or delete the dataset"
                )
        for name in records.keys() - names:
            self._bags[name].append(records[name], flush=False)
        return self._added(flush)

    def flush(self) -> None:
        try:
            for writer in self._bags.values():
                writer.check()
        except MismatchError:
            for writer in self._bags.values():
                writer.forget()
            self._length = min(len(writer) for writer in self._bags.values())
            raise
        for writer in self._bags.values():
            writer.flush()

    def close(self) -> None:
        if self.closed:
            return
        with ExitStack() as closing:  # all, also if one fails
            for writer in self._bags.values():
                closing.callback(writer.close)
            self.closed = True
            self.flush()


def _put_spec(path: AnyPath, spec: Mapping[str, str]) -> None:
    """Write `spec.json`, or check that the existing one is the same."""
    target = path / "spec.json"
    if not target.exists():
        make_folder(path, parents=True)
        write_whole(target, json.dumps(spec).encode())
        return
    try:
        existing = json.loads(read_whole(target))
    except ValueError as error:
        raise SpecError(f"{target}: invalid JSON: {error}") from error
    if existing != spec:
        raise MismatchError(
            f"{path} has the spec {existing}: a writer with {dict(spec)} cannot continue it"
        )


class ShardedDatasetWriter(NewShards):
    """Writes a folder of datasets named by number, and continues after its last datapoint."""

    _writer = DatasetWriter
    _drops_empty = False  # the next writer continues it

    def _resume(self) -> None:
        while (self._path / f"{self.shardnum:06}" / "spec.json").exists():
            self._begin()
            if not self._full():
                break
            self._next()


class Loader(loader.BatchLoader):
    """Makes batches of the steps 0, 1, 2, …, of a source, without end.

    The source is callable with a step, or has `[index]`. Workers are threads, or processes of the
    context `mp`.
    """

    def __init__(
        self,
        source: Any,
        batch: int,
        prefetch: int = 8,
        workers: int = 32,
        recycle_after: int | bool = False,
        shard_id: int = 0,
        num_shards: int = 1,
        mp: Any = None,
    ) -> None:
        task = loader.Task(sources.convert(source), by_call=True)
        super().__init__(task, batch, prefetch, workers, recycle_after, shard_id, num_shards, mp)
        self.source = source

    def save(self) -> dict[str, int]:
        """Return the state for `load`: the number of datapoints given to all hosts together."""
        return {"step": self.consumed}
