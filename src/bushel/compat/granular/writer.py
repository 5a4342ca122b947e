"""Writing datasets of generations A and B: `DatasetWriter` and `ShardedDatasetWriter` of Granular 0.20."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack

from bushel.containers import (
    FieldBuilder,
    IndexBuilder,
    Layout,
    LayoutField,
    WriteOptions,
    get_writable,
)
from bushel.containers.bag import plan_layout
from bushel.spec import KEY, Field
from bushel.storage import Staging

from .bag import MOST_RECORDS
from .base import ExistsError, OfSpec, WrongTypeError, WrongUseError
from .formats import Codecs, bind_codecs, stored_bytes
from .paths import granular_path, make_folder
from .reader import check_shards


class DatasetWriter(OfSpec):
    """Writes a dataset into a new folder, with a bag for each key. Any text is a type.

    The files get their names when the writer is closed, all at once; until then they are in
    `.bushel/staging` in the folder. The end of a `with` body closes the writer, also if it raised,
    with the datapoints so far.
    """

    _generation = "B"
    _parents = False

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Codecs) -> None:
        super().__init__()
        self._spec = self._checked(spec)
        self.encoders = bind_codecs(encoders, self._spec)
        path = granular_path(directory)
        if path.exists():
            raise ExistsError(f"{path} exists already: choose another folder, or delete it")
        options, layout = _layout(self._spec, self._generation)
        make_folder(path, parents=self._parents)
        self.directory, self._path = directory, path
        container = get_writable("bag")
        shard = container.shard(path, layout, (), None)
        self._staging = Staging(path, "dataset")
        columns = [
            FieldBuilder(column.field, column.codec, column.file) for column in layout.columns
        ]
        self._builder = IndexBuilder("bag", columns, keyed=options.keyed)
        self._writer = container.writer(layout, shard, self._staging, self._builder)
        self._refs_bytes = 0
        self._final_size: int | None = None

    def _checked(self, spec: Mapping[str, str]) -> dict[str, str]:
        """Return a spec with sorted keys, or raise an error if it is not one."""
        return checked_spec(spec)

    @property
    def size(self) -> int:
        """Bytes of all bags, with their tables."""
        if self._final_size is not None:
            return self._final_size
        records = sum(len(column.offset) for column in self._builder.columns.values()) + len(self)
        tables = 8 * (records + (len(self._spec) + 1) * (self._generation == "A"))
        return sum(self._staging.positions.values()) + self._refs_bytes + tables

    def __len__(self) -> int:
        return self._builder.samples

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Append a datapoint and return its number. If that fails, nothing of it is stored.

        A sequence is any iterable, which is read one value at a time. `flush` has no effect: an
        open dataset cannot be read.
        """
        if self.closed:
            raise WrongUseError("the writer is closed")
        checked_point(datapoint, self._spec)
        positions, samples = self._staging.positions, self._builder.samples
        values: dict[str, Any] = {}
        key: str | None = None
        for name, kind in self._spec.items():
            if kind.endswith("[]"):
                values[name] = self._elements(name, kind, datapoint[name])
            elif name == KEY:
                key = stored_bytes(name, kind, self.encoders[name], datapoint[name]).decode(
                    "utf-8", "surrogateescape"
                )
            else:
                values[name] = stored_bytes(name, kind, self.encoders[name], datapoint[name])
        try:
            self._writer.append(key, values)
        except BaseException:
            self._staging.truncate(positions)
            self._builder.truncate(samples)
            raise
        self._refs_bytes += len(msgpack.packb(self._last_refs()))
        return samples

    def _elements(self, name: str, kind: str, values: Any) -> Iterator[bytes]:
        encode = self.encoders[name]
        for value in values:
            if len(self._builder.columns[name].offset) >= MOST_RECORDS:
                raise WrongUseError(
                    f"key {name!r} is full: a bag has fewer than {MOST_RECORDS} records"
                )
            yield stored_bytes(name, kind, encode, value)

    def _last_refs(self) -> list[Any]:
        """Return the content of the last datapoint's record in `refs.bag`."""
        refs: list[Any] = []
        for name in self._spec:
            starts = None if name == KEY else self._builder.columns[name].starts
            if starts is None:
                refs.append(len(self) - 1)
            else:
                first, last = starts[-2:]
                refs.append([first, last - first] if last > first else [])
        return refs

    def flush(self) -> None:
        self._staging.flush()

    def discard(self) -> None:
        """Leave nothing of the dataset."""
        self._staging.discard()
        if isinstance(self._path, Path):
            self._path.rmdir()
        self.closed = True

    def close(self) -> None:
        """Write the tables, and give the files their names."""
        if self.closed:
            return
        self._final_size = self.size
        names = list(self._writer.finish())
        self._staging.seal()
        self._staging.commit(names)
        self.closed = True


class Shards(OfSpec):
    """Writes shard after shard with a `_writer`, each a dataset in a folder named by its number."""

    _writer: Any
    _parents = False
    _drops_empty = True
    """Whether a shard whose first datapoint is refused leaves nothing: an empty one cannot be opened."""

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Codecs,
        shardlen: int | None,
        shardstart: int,
        shardstep: int,
    ) -> None:
        super().__init__()
        check_shards(shardstart, shardstep)
        self.directory, self.encoders, self._spec = directory, encoders, dict(spec)
        self.shardlength, self.shardstart, self.shardnum, self.shardstep = (
            shardlen,
            shardstart,
            shardstart,
            shardstep,
        )
        self.prevshards = self.prevsize = self.prevlength = 0
        self.writer: Any = None
        self._path = granular_path(directory)
        if not self._parents:  # else the first shard makes it
            make_folder(self._path)

    @property
    def shards(self) -> int:
        """Number of shards so far."""
        return self.prevshards + (self.writer is not None)

    @property
    def size(self) -> int:
        """Bytes of all shards so far."""
        return int(self.prevsize + (0 if self.writer is None else self.writer.size))

    def __len__(self) -> int:
        return int(self.prevlength + (0 if self.writer is None else len(self.writer)))

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Append a datapoint and return its number in this writer."""
        if self.closed:
            raise WrongUseError("the writer is closed")
        if self.writer is None:
            self._begin()
        try:
            self.writer.append(datapoint, flush)
        except BaseException:
            if self._drops_empty and not len(self.writer):
                self.writer.discard()
                self.writer = None
            raise
        if self._full():
            self._next()
        return len(self) - 1

    def _begin(self) -> None:
        """Start the next shard."""
        self.writer = self._writer(self._path / f"{self.shardnum:06}", self._spec, self.encoders)

    def _full(self) -> bool:
        return bool(self.shardlength) and len(self.writer) >= (self.shardlength or 0)

    def _next(self) -> None:
        """Close the shard."""
        self.writer.close()
        self.prevshards += 1
        self.prevsize += self.writer.size
        self.prevlength += len(self.writer)
        self.writer = None
        self.shardnum += self.shardstep

    def flush(self) -> None:
        if self.writer is not None:
            self.writer.flush()

    def close(self) -> None:
        if self.writer is not None and not self.closed:
            self.writer.close()
        super().close()


class ShardedDatasetWriter(Shards):
    """Writes a folder of datasets named by number, of `shardlen` datapoints each. Some 10 GB make a good shard."""

    _writer: Any = DatasetWriter

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Codecs,
        shardlen: int | None = None,
        shardstart: int = 0,
        shardstep: int = 1,
    ) -> None:
        if (shardstart > 0 or shardstep > 1) and not shardlen:
            raise WrongUseError(
                "shardstart and shardstep need a shardlen, "
                "or all datapoints go into the first shard"
            )
        bind_codecs(encoders, checked_spec(spec))
        super().__init__(directory, spec, encoders, shardlen, shardstart, shardstep)
        self._resume()

    def _resume(self) -> None:
        """Continue after the shards that exist. Here a shard that exists is an error when the writer gets there."""


def checked_spec(spec: Mapping[str, str]) -> dict[str, str]:
    """Return a spec with sorted keys, if its keys and types begin with a lower-case letter or `_`."""
    for text in (*spec.keys(), *spec.values()):
        if not isinstance(text, str):
            raise WrongTypeError(f"keys and types are text, and {text!r} is not")
        if not re.match("[a-z_]", text):
            raise WrongUseError(
                f"keys and types must begin with a lower-case letter or '_', and {text!r} does not"
            )
    return dict(sorted(spec.items()))


def checked_point(datapoint: Mapping[str, Any], spec: Mapping[str, str]) -> None:
    """Raise an error unless a datapoint has exactly the keys of the spec."""
    if not isinstance(datapoint, Mapping):
        raise WrongTypeError(f"a datapoint is a dict, not {type(datapoint).__name__}")
    if datapoint.keys() != spec.keys():
        raise WrongUseError(
            f"a datapoint with the keys {', '.join(datapoint)}, where {', '.join(spec)} are needed"
        )


def _layout(spec: Mapping[str, str], generation: str) -> tuple[WriteOptions, Layout]:
    """Return the container's layout for the dataset, but with any type, since values are encoded already."""
    keyed = spec.get(KEY) == "utf8"
    options = WriteOptions(keyed=keyed, generation=generation, single=True)
    names = {name: kind for name, kind in spec.items() if not (keyed and name == KEY)}
    fields = {name: Field(name, "bytes", kind.endswith("[]")) for name, kind in names.items()}
    columns = []
    for column in plan_layout(fields, options).columns:
        kind = names[column.field.name].removesuffix("[]")
        columns.append(
            LayoutField(Field(column.field.name, kind, column.field.sequence), kind, column.file)
        )
    return options, Layout(tuple(columns), options)
