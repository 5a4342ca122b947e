"""Writing datasets of generations A and B: `DatasetWriter` and `ShardedDatasetWriter` of Granular 0.20."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgpack

from bushel.compat.granular.bag import MOST_RECORDS
from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import ExistsError, WrongTypeError, WrongUseError
from bushel.compat.granular.formats import Codecs, bind_codecs, stored_bytes
from bushel.compat.granular.paths import granular_path, make_folder
from bushel.containers import get_container
from bushel.containers.bag.writer import plan_layout
from bushel.containers.base import Column, Layout, WriteOptions
from bushel.core.index.table import ColumnBuilder, IndexBuilder
from bushel.spec import KEY, Field
from bushel.storage import AnyPath, Staging

__all__ = ["DatasetWriter", "ShardedDatasetWriter", "Shards", "checked_point", "checked_spec"]


class DatasetWriter(Closing):
    """Writes a dataset: one folder with a bag for each key.

    The files get their names when the writer is closed, all of them; until then they are in `.bushel/staging` in the
    folder. Closing happens at the end of the `with` body too when that raised, with the datapoints so far.

    Args:
        directory: The folder, which must not be there yet. Its parent must.
        spec: Keys to types, such as `{"image": "jpg", "words": "utf8[]"}`. Any text is a type.
        encoders: Types to functions from a value to bytes; None for bytes.

    Raises:
        ExistsError: The folder is there already.
        KeyError: A type has no encoder.
        WrongUseError: A key or type does not begin with a lower-case letter or `_`.
        SpecError: A key cannot be the name of a file.
    """

    _generation = "B"
    _parents = False

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Codecs) -> None:
        super().__init__()
        self._spec = checked_spec(spec)
        self.encoders = bind_codecs(encoders, self._spec)
        path = granular_path(directory)
        if path.exists():
            raise ExistsError(f"{path} is there already: choose another folder, or delete it")
        options, layout = _layout(self._spec, self._generation)
        make_folder(path, parents=self._parents)
        self.directory = directory
        container = get_container("bag")
        shard = container.shard(path, layout, 0, None)
        self._staging = Staging(path, "dataset")
        columns = [ColumnBuilder(column.field, column.codec, column.file) for column in layout.columns]
        self._builder = IndexBuilder("bag", columns, keyed=options.keyed)
        self._writer = container.writer(layout, shard, self._staging, self._builder)
        self._refs_bytes = 0
        self._final_size: int | None = None

    @property
    def spec(self) -> dict[str, str]:
        """Keys to types, in the order of the keys."""
        return dict(self._spec)

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
        """Add one datapoint, or, if that fails, nothing of it.

        Args:
            datapoint: A value for every key; of a sequence any iterable, which is taken one value at a time.
            flush: Taken for the sake of Granular; what is not closed cannot be read in any case.

        Returns:
            Its number.

        Raises:
            WrongTypeError: It is no dict, or an encoder gives something else than bytes.
            WrongUseError: Its keys are not those of the spec; or the writer is closed.
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
                key = stored_bytes(name, kind, self.encoders[name], datapoint[name]).decode("utf-8", "surrogateescape")
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
                raise WrongUseError(f"key {name!r} is full: a bag has less than {MOST_RECORDS} records")
            yield stored_bytes(name, kind, encode, value)

    def _last_refs(self) -> list[Any]:
        """What the last datapoint's record in `refs.bag` will say."""
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
        """Hand what was written to the operating system."""
        self._staging.flush()

    def close(self) -> None:
        """Write the tables, and give the files their names."""
        if self.closed:
            return
        self._final_size = self.size
        names = list(self._writer.finish())
        self._staging.seal([])
        self._staging.commit(names)
        self.closed = True


class Shards(Closing):
    """Writes shard after shard, each a dataset in a folder named by its number.

    A subclass says how a shard is begun.
    """

    def __init__(self, shardlen: int | None, shardstart: int, shardstep: int) -> None:
        super().__init__()
        if shardstart < 0 or shardstep < 1:
            raise WrongUseError(f"shardstart is at least 0 and shardstep at least 1, not {shardstart} and {shardstep}")
        self.shardlength, self.shardstart, self.shardnum, self.shardstep = shardlen, shardstart, shardstart, shardstep
        self.prevshards = self.prevsize = self.prevlength = 0
        self.writer: Any = None

    def _begin(self, name: str) -> Any:
        """A writer of the shard of this name."""
        raise NotImplementedError

    @property
    def shards(self) -> int:
        """Shards so far."""
        return self.prevshards + (self.writer is not None)

    @property
    def size(self) -> int:
        """Bytes of all shards so far."""
        return int(self.prevsize + (0 if self.writer is None else self.writer.size))

    def __len__(self) -> int:
        return int(self.prevlength + (0 if self.writer is None else len(self.writer)))

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Add one datapoint. Returns its number among those of this writer."""
        if self.closed:
            raise WrongUseError("the writer is closed")
        if self.writer is None:
            self.writer = self._begin(f"{self.shardnum:06}")
        self.writer.append(datapoint, flush)
        if self._full():
            self._next()
        return len(self) - 1

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
        """Hand what was written to the operating system."""
        if self.writer is not None:
            self.writer.flush()

    def close(self) -> None:
        """Close the last shard."""
        if self.writer is not None and not self.closed:
            self.writer.close()
        super().close()


class ShardedDatasetWriter(Shards):
    """Writes a folder of datasets named by number, or every so-manieth of them.

    Args:
        directory: The folder, which may be there already.
        spec: As of `DatasetWriter`.
        encoders: As of `DatasetWriter`.
        shardlen: Datapoints in a shard; some 10 GB make a good shard. None: one shard.
        shardstart: Number of the first shard.
        shardstep: How many numbers to go from one shard to the next.

    Raises:
        WrongUseError: `shardstart` or `shardstep` is given without `shardlen`.
        ExistsError: A shard is there already.
    """

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Codecs,
        shardlen: int | None = None,
        shardstart: int = 0,
        shardstep: int = 1,
    ) -> None:
        super().__init__(shardlen, shardstart, shardstep)
        if (shardstart > 0 or shardstep > 1) and not shardlen:
            raise WrongUseError("shardstart and shardstep need a shardlen, or all would go into the first shard")
        self._spec = checked_spec(spec)
        bind_codecs(encoders, self._spec)
        self.directory, self.encoders = directory, encoders
        self._path: AnyPath = granular_path(directory)
        make_folder(self._path)

    @property
    def spec(self) -> dict[str, str]:
        """Keys to types."""
        return dict(self._spec)

    def _begin(self, name: str) -> DatasetWriter:
        return DatasetWriter(self._path / name, self._spec, self.encoders)


def checked_spec(spec: Mapping[str, str]) -> dict[str, str]:
    """A spec, its keys sorted.

    Raises:
        WrongUseError: A key or a type does not begin with a lower-case letter or `_`.
    """
    for text in (*spec.keys(), *spec.values()):
        if not isinstance(text, str) or not re.match("[a-z_]", text):
            raise WrongUseError(f"keys and types begin with a lower-case letter or '_', and {text!r} does not")
    return dict(sorted(spec.items()))


def checked_point(datapoint: Mapping[str, Any], spec: Mapping[str, str]) -> None:
    """Make sure that a datapoint has the keys of the spec and no others.

    Raises:
        WrongTypeError: It is no dict.
        WrongUseError: It has other keys.
    """
    if not isinstance(datapoint, Mapping):
        raise WrongTypeError(f"a datapoint is a dict, not {type(datapoint).__name__}")
    if datapoint.keys() != spec.keys():
        raise WrongUseError(f"a datapoint with the keys {', '.join(datapoint)}, where {', '.join(spec)} are needed")


def _layout(spec: Mapping[str, str], generation: str) -> tuple[WriteOptions, Layout]:
    """How the dataset is stored: as the container does it, but with any type, since values come as bytes."""
    keyed = spec.get(KEY) == "utf8"
    options = WriteOptions(keyed=keyed, generation=generation, single=True)
    names = {name: kind for name, kind in spec.items() if not (keyed and name == KEY)}
    fields = {name: Field(name, "bytes", kind.endswith("[]")) for name, kind in names.items()}
    columns = []
    for column in plan_layout(fields, options).columns:
        kind = names[column.field.name].removesuffix("[]")
        columns.append(Column(Field(column.field.name, kind, column.field.sequence), kind, column.file))
    return options, Layout(tuple(columns), options)
