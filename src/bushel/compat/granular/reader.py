"""Reading datasets: `DatasetReader` and `ShardedDatasetReader`, of Granular 0.20 and 0.24 alike."""

from __future__ import annotations

import copy
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import numpy as np
from msgspec.structs import replace

import bushel
from bushel.compat.errors import raised_as
from bushel.spec import KEY
from bushel.storage import AnyPath, FilePool, absolute

from .bag import Records, checked_index, checked_range, mapped
from .base import (
    DamagedError,
    NoDatasetError,
    NoFolderError,
    OfSpec,
    OutOfRangeError,
    UnknownKeyError,
    WrongTypeError,
    WrongUseError,
)
from .formats import Codecs, bind_codecs, of_generation
from .paths import granular_path

Datapoint = dict[str, Any]

# if the bags of a key take no more bytes than this in all shards, they are held in memory by
# default
_HELD = 4 << 20


@dataclass
class Key:
    """One key of one shard, and its records; a sequence has `starts`: the number of each datapoint's first record."""

    name: str
    records: Records
    starts: memoryview | None
    decode: Callable[[bytes], Any]

    def read(self, row: int, part: Any = True) -> Any:
        """Return the value of a datapoint, or the elements of a sequence that a range selects."""
        if self.starts is None:
            return self.decode(self.records.one(row))
        first, last = self.starts[row], self.starts[row + 1]
        if part is not True:
            selected = checked_range(part)
            first, last = first + selected.start, min(first + selected.stop, last)
        return self.decoded(self.records.many(first, last))

    def decoded(self, stored: Any) -> Any:
        """Return the value of a record, or the elements of a sequence's records."""
        if self.starts is None:
            return self.decode(stored)
        return [self.decode(record) for record in stored]

    def checked(self, part: Any) -> Any:
        """Return a mask's value for this key, if it is valid."""
        if part is True or (self.starts is not None and isinstance(part, slice | range)):
            return part
        allowed = "True, False, a slice or a range" if self.starts is not None else "True or False"
        raise WrongTypeError(f"the mask of key {self.name!r} must be {allowed}, not {part!r}")


class _Names:
    """The keys that a sample has under `__key__`, which is a field like any other in Granular."""

    held = True

    def __init__(self, dataset: bushel.Dataset, shard: int) -> None:
        self._shard = dataset.shards[shard]
        self._start = sum(before.samples for before in dataset.shards[:shard])

    def one(self, row: int) -> bytes:
        keys = self._shard.index.keys
        return (str(self._start + row) if keys is None else keys[row]).encode(
            "utf-8", "surrogateescape"
        )


class PointReader(OfSpec):
    """Base class of both readers: datapoints of a list of folders, each a dataset."""

    _clips = False
    """Whether a range of datapoints ends with the last one, as in Granular 0.24; else it must not be longer."""

    def __init__(
        self,
        folders: Sequence[AnyPath],
        decoders: Codecs,
        cache_index: bool,
        cache_keys: Sequence[str],
        parallel: bool,
    ) -> None:
        super().__init__()
        if not isinstance(cache_keys, tuple | list):
            raise WrongTypeError(f"cache_keys must be a tuple of keys, not {cache_keys!r}")
        self._cache_index, self._parallel = cache_index, parallel
        self._folders = list(map(absolute, folders))
        self.cache_keys = cache_keys
        self._open()
        unknown = set(cache_keys) - self._spec.keys() - {"refs"}
        if unknown:
            raise UnknownKeyError(
                f"cache_keys has {min(unknown)!r}; the keys are {', '.join(self._spec)} and refs"
            )
        self.decoders = bind_codecs(self._bind(decoders), self._spec)
        self._connect()

    def _bind(self, decoders: Codecs) -> Codecs:
        """Return the decoders by the types of the spec."""
        return decoders

    def _open(self) -> None:
        with raised_as(DamagedError):
            opened = bushel.open(self._folders, container="bag", index="memory", on_damage="raise")
        shards = opened.shards
        self._starts = np.cumsum([0, *(shard.samples for shard in shards)]).tolist()
        self._length = len(opened)
        self._removed = self._length < self._starts[-1]
        if (
            not self._cache_index
            and not self._removed
            and not all(shard.stored for shard in shards)
        ):
            columns = iter(
                mapped([column for shard in shards for column in shard.index.fields.values()])
            )
            tables = []
            for shard in shards:
                fields = {name: next(columns) for name in shard.index.fields}
                tables.append((shard.shard, replace(shard.index, fields=fields)))
            opened = bushel.Dataset.from_tables("bag", tables)
        self._dataset = opened
        spec = opened.spec
        if any(shard.keyed for shard in shards):
            spec[KEY] = "utf8"
        self._spec = dict(sorted(spec.items()))
        self._whole = self._held_last(dict.fromkeys(self._spec, True))

    def _connect(self) -> None:
        self._pool, self._threads, self._process = FilePool(), None, os.getpid()
        self._shards: list[dict[str, Key] | None] = [None] * len(self._dataset.shards)

    def _keys(self, number: int) -> dict[str, Key]:
        """Return the records and the decoder of each key of a shard."""
        if (keys := self._shards[number]) is not None:
            return keys
        shards = self._dataset.shards
        shard, keys = shards[number], {}
        for name in self._spec:
            decode = self.decoders[name]
            if name == KEY:
                names = cast("Records", _Names(self._dataset, number))
                keys[name] = Key(name, names, None, decode)
                continue
            column = shard.index.fields[name]
            hold = name in self.cache_keys or shard.stamps[column.file].size * len(shards) <= _HELD
            path = shard.shard.path(column.file)
            records = Records(column, self._pool, path, partial(shard.open, column.file), hold=hold)
            starts = None if column.starts is None else np.ascontiguousarray(column.starts).data
            keys[name] = Key(name, records, starts, of_generation(decode, column.codec))
        self._shards[number] = keys
        return keys

    _threads: ThreadPoolExecutor | None

    def __getstate__(self) -> dict[str, Any]:
        names = ("_folders", "_cache_index", "_parallel", "cache_keys", "decoders", "closed")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
        self._connect()

    def copy(self) -> Self:
        """Return another reader of the same files, for another thread or process."""
        return copy.copy(self)

    def close(self) -> None:
        """Close the files. Reading opens them again."""
        if self._threads is not None and self._process == os.getpid():
            self._threads.shutdown()
        self._threads = None
        self._pool.close()
        self._dataset.close()
        super().close()

    @property
    def size(self) -> int:
        """Bytes of all bags, with their tables."""
        return sum(
            stamp.size
            for shard in self._dataset.shards
            for stamp in shard.stamps
            if not stamp.name.endswith("spec.json")
        )

    def __len__(self) -> int:
        return self._length

    def available(self, index: int) -> dict[str, bool | range]:
        """Return which keys a datapoint has: True, or the range of a sequence."""
        shard, row = self._place(index)
        return {
            name: True if key.starts is None else range(key.starts[row + 1] - key.starts[row])
            for name, key in self._keys(shard).items()
        }

    # Reading

    def __getitem__(self, item: Any) -> Datapoint:
        """Return a datapoint; with a mask, parts of it; with a range, lists of the values of several datapoints.

        `reader[3]`, `reader[3, {"title": True, "frames": range(32, 42)}]`,
        `reader[3, ("title", "frames")]`, `reader[10:20, {"title": True}]`.
        """
        index, mask = item if type(item) is tuple else (item, None)
        if type(index) is slice or type(index) is range:
            return self._several(checked_range(index), self._parts(mask))
        shard, row = self._place(index)
        keys, parts = self._keys(shard), self._parts(mask)
        if self._parallel:
            return self._at_once(keys, parts, row)
        point = {}
        name = ""
        try:
            for name, part in parts.items():
                point[name] = keys[name].read(row, keys[name].checked(part))
        except Exception as error:
            error.add_note(
                f"while reading key {name!r} of type {self._spec[name]!r}, datapoint {index}"
            )
            raise
        return point

    def __iter__(self) -> Iterator[Datapoint]:
        return (self[number] for number in range(self._length))

    def points(self, indices: Iterable[int]) -> list[Datapoint]:
        """Return many datapoints with one batched read, which is faster if the data is not in memory yet."""
        positions = [checked_index(index) for index in indices]
        shards = [self._place(position)[0] for position in positions]
        stored = self._dataset.read(positions, decode=False)
        return [
            self._decoded(sample, shard, self._spec)
            for sample, shard in zip(stored, shards, strict=True)
        ]

    def _decoded(self, stored: Datapoint, shard: int, names: Iterable[str]) -> Datapoint:
        keys = self._keys(shard)
        return {name: keys[name].decoded(_stored(stored, name)) for name in names}

    def _several(self, numbers: range, parts: Mapping[str, Any]) -> Datapoint:
        if self._clips and numbers.start <= self._length:
            numbers = numbers[: self._length - numbers.start]
        if numbers.stop > self._length:
            raise OutOfRangeError(f"datapoints up to {numbers.stop} of a dataset of {self._length}")
        for name, part in parts.items():
            if self._spec[name].endswith("[]") or part is not True:
                raise WrongTypeError(
                    f"key {name!r}: sequences and ranges are read of one datapoint at a time"
                )
        stored = self._dataset.read(numbers, [name for name in parts if name != KEY], decode=False)
        points = [
            self._decoded(sample, self._place(number)[0], parts)
            for number, sample in zip(numbers, stored, strict=True)
        ]
        return {name: [point[name] for point in points] for name in parts}

    def _at_once(self, keys: dict[str, Key], parts: Mapping[str, Any], row: int) -> Datapoint:
        """Read the keys that are not in memory with one request each, at the same time."""
        threads = self._threads
        if threads is None or self._process != os.getpid():  # threads do not survive a fork
            threads = self._threads = ThreadPoolExecutor(max(1, len(self._spec)), "granular-read")
            self._process = os.getpid()
        started: dict[str, Future[Any]] = {}
        for name, part in parts.items():
            if not keys[name].records.held:
                started[name] = threads.submit(keys[name].read, row, keys[name].checked(part))
        return {
            name: started[name].result()
            if name in started
            else keys[name].read(row, keys[name].checked(part))
            for name, part in parts.items()
        }

    def _place(self, index: Any) -> tuple[int, int]:
        """Return the shard of a datapoint, and its number there."""
        number = index if type(index) is int else checked_index(index)
        if not 0 <= number < self._length:
            raise OutOfRangeError(f"datapoint {number} of a dataset of {self._length}")
        if self._removed:
            return self._dataset.row_of(number)
        if len(self._shards) == 1:
            return 0, number
        shard = bisect_right(self._starts, number) - 1
        return shard, number - self._starts[shard]

    def _parts(self, mask: Any) -> Mapping[str, Any]:
        """Return the keys that a mask selects, in the order of reading: True, or a range of a sequence."""
        if mask is None:
            return self._whole
        known = self._known(mask)
        names = self._spec if known is mask else known  # a tuple of keys also defines their order
        selected = {name: known[name] for name in names if known.get(name, False) is not False}
        return self._held_last(selected)

    def _held_last(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Return the keys in the order of the originals, which read keys in memory after requesting the others."""
        if not self._parallel:
            return parts
        return dict(sorted(parts.items(), key=lambda part: part[0] in self.cache_keys))

    def _known(self, mask: Any) -> dict[str, Any]:
        """Return a mask as a dict, all of whose keys exist."""
        if isinstance(mask, tuple | list):
            mask = dict.fromkeys(mask, True)
        elif not isinstance(mask, dict):
            raise WrongTypeError(f"a mask is a dict, or a tuple of keys, not {type(mask).__name__}")
        for name in mask:
            if name not in self._spec:
                raise UnknownKeyError(f"unknown key {name!r}; the keys are {', '.join(self._spec)}")
        selection: dict[str, Any] = mask
        return selection


def _stored(sample: Datapoint, name: str) -> Any:
    value = sample[name]
    return value.encode("utf-8", "surrogateescape") if name == KEY else value


class DatasetReader(PointReader):
    """Reads a dataset of any generation: one folder with a bag for each key.

    `cache_index` keeps the tables in memory, 16 bytes per record, rather than mapped from temporary
    files; `cache_keys` are the keys whose bags are read into memory; `parallel` reads the keys of a
    datapoint at the same time. `pool_name` has no effect.
    """

    def __init__(
        self,
        directory: Any,
        decoders: Codecs,
        cache_index: bool = True,
        cache_keys: Sequence[str] = (),
        parallel: bool = False,
        pool_name: str | None = None,
    ) -> None:
        folder = granular_path(directory)
        if not (folder / "spec.json").exists():
            kind = NoFolderError if folder.exists() and not folder.is_dir() else NoDatasetError
            raise kind(f"{folder} is not a dataset: it has no spec.json")
        super().__init__([folder], decoders, cache_index, cache_keys, parallel)


class ShardedDatasetReader(PointReader):
    """Reads a folder of datasets named by number: every `shardstep`-th from `shardstart`. See `DatasetReader`."""

    def __init__(
        self,
        directory: Any,
        decoders: Codecs,
        cache_index: bool = True,
        cache_keys: Sequence[str] = (),
        parallel: bool = False,
        shardstart: int = 0,
        shardstep: int = 1,
    ) -> None:
        check_shards(shardstart, shardstep)
        folder = granular_path(directory)
        folders = _shard_folders(folder, shardstart, shardstep)
        if (shardstart, shardstep) == (0, 1):
            folders = [folder]  # one listing finds all shards
        super().__init__(folders, decoders, cache_index, cache_keys, parallel)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self._shards)


def check_shards(start: int, step: int) -> None:
    """Raise a `WrongUseError` if no shards have these numbers."""
    if start < 0 or step < 1:
        raise WrongUseError(
            f"shardstart must be at least 0 and shardstep at least 1, not {start} and {step}"
        )


def _shard_folders(directory: AnyPath, start: int, step: int) -> list[AnyPath]:
    """Return the folders of every `step`-th shard from `start`. Names that are not numbers are ignored."""
    names = (entry.name for entry in directory.iterdir())
    folders = {int(name): name for name in names if name.isdecimal()}
    numbers = sorted(
        number for number in folders if number >= start and (number - start) % step == 0
    )
    if not numbers:
        raise NoDatasetError(f"{directory} has no shard {start:06d}")
    for number, expected in zip(numbers, range(start, numbers[-1] + 1, step), strict=False):
        if number != expected:
            raise DamagedError(
                f"shard {expected:06d} is missing, although there is a shard {number:06d}",
                file=str(directory),
                hint="wait until its writer is done, or restore the folder",
            )
    return [directory / folders[number] for number in numbers]
