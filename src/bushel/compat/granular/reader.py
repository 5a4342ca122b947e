"""Reading datasets: `DatasetReader` and `ShardedDatasetReader`, of Granular 0.20 and 0.24 alike."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import numpy as np
from msgspec.structs import replace

import bushel
from bushel.compat.errors import raised_as
from bushel.spec import KEY
from bushel.storage import AnyPath, FilePool

from .bag import Records, checked_index, checked_range, mapped
from .base import (
    Closing,
    DamagedError,
    NoDatasetError,
    NoFolderError,
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


@dataclass(slots=True)
class Key:
    """One key of one shard, and its records; a sequence has `starts`: the number of each datapoint's first record."""

    name: str
    records: Records
    starts: memoryview | None
    decode: Callable[[bytes], Any] | None

    def read(self, row: int, mask: Any = True) -> Any:
        """Return the value of a datapoint, or the elements of a sequence that the mask selects."""
        if self.starts is None:
            value = self.records.one(row)
            return value if self.decode is None else self.decode(value)
        first, last = self.starts[row], self.starts[row + 1]
        if mask is not True:
            selected = checked_range(mask)
            first, last = first + selected.start, min(first + selected.stop, last)
        values = self.records.many(first, last)
        return values if self.decode is None else [self.decode(value) for value in values]

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


class PointReader(Closing):
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
        self._folders, self._cache_index, self._parallel = list(folders), cache_index, parallel
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
        info = opened.info
        self._removed = info.removed > 0
        if (
            not self._cache_index
            and not self._removed
            and not all(shard.stored for shard in opened.shards)
        ):
            shards = opened.shards
            columns = iter(
                mapped([column for shard in shards for column in shard.index.fields.values()])
            )
            tables = []
            for shard in shards:
                fields = {name: next(columns) for name in shard.index.fields}
                tables.append((shard.shard, replace(shard.index, fields=fields)))
            opened = bushel.Dataset.from_tables("bag", tables)
        self._dataset = opened
        self._starts = np.cumsum([0, *(shard.samples for shard in opened.shards)]).tolist()
        self._length = len(opened)
        spec = opened.spec
        if info.keyed:
            spec[KEY] = "utf8"
        self._spec = dict(sorted(spec.items()))

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
        new = type(self).__new__(type(self))
        new.__setstate__(self.__getstate__())
        return new

    def close(self) -> None:
        """Close the files. Reading opens them again."""
        if self._threads is not None and self._process == os.getpid():
            self._threads.shutdown()
        self._threads = None
        self._pool.close()
        self._dataset.close()
        super().close()

    @property
    def spec(self) -> dict[str, str]:
        """The type of each key, as written."""
        return dict(self._spec)

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
        index, chosen = item if type(item) is tuple else (item, None)
        mask = None if chosen is None else self._known(chosen)
        several = type(index) is slice or type(index) is range
        shard, row = (0, 0) if several else self._place(index)
        keys = self._keys(shard)
        if mask is not None and mask is not chosen:  # a tuple of keys also defines their order
            keys = {name: keys[name] for name in mask}
        # the originals put keys in memory after the keys that they request
        if self._parallel and self.cache_keys:
            keys = dict(sorted(keys.items(), key=lambda item: item[0] in self.cache_keys))
        if several:
            return self._several(checked_range(index), keys, mask)
        if self._parallel:
            return self._at_once(keys, mask, row)
        point = {}
        name = ""
        try:
            for name, key in keys.items():
                part = True if mask is None else mask.get(name, False)
                if part is True and key.starts is None:
                    value = key.records.one(row)
                    point[name] = value if key.decode is None else key.decode(value)
                elif part is not False:
                    point[name] = key.read(row, key.checked(part))
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
        for index in (min(positions, default=0), max(positions, default=-1)):
            if positions and not 0 <= index < self._length:
                raise OutOfRangeError(f"datapoint {index} of a dataset of {self._length}")
        stored = self._dataset.read(positions, decode=False)
        places = [self._place(position) for position in positions]
        return [
            self._decoded(sample, shard) for sample, (shard, _) in zip(stored, places, strict=True)
        ]

    def _decoded(self, stored: Datapoint, shard: int) -> Datapoint:
        point: Datapoint = {}
        for name, key in self._keys(shard).items():
            value = _stored(stored, name)
            if key.decode is not None:
                value = (
                    key.decode(value)
                    if key.starts is None
                    else [key.decode(element) for element in value]
                )
            point[name] = value
        return point

    def _several(
        self, numbers: range, keys: dict[str, Key], mask: dict[str, Any] | None
    ) -> Datapoint:
        if self._clips and numbers.start <= self._length:
            numbers = numbers[: self._length - numbers.start]
        if numbers.stop > self._length:
            raise OutOfRangeError(f"datapoints up to {numbers.stop} of a dataset of {self._length}")
        names = []
        for name, key in keys.items():
            if (part := True if mask is None else mask.get(name, False)) is False:
                continue
            if key.starts is not None or part is not True:
                raise WrongTypeError(
                    f"key {name!r}: sequences and ranges are read of one datapoint at a time"
                )
            names.append(name)
        values: dict[str, list[Any]] = {name: [] for name in names}
        stored = self._dataset.read(numbers, [name for name in names if name != KEY], decode=False)
        for position, sample in zip(numbers, stored, strict=True):
            keys_of_shard = self._keys(self._place(position)[0])
            for name, column in values.items():
                value, decode = _stored(sample, name), keys_of_shard[name].decode
                column.append(value if decode is None else decode(value))
        return values

    def _at_once(self, keys: dict[str, Key], mask: dict[str, Any] | None, row: int) -> Datapoint:
        """Read the keys that are not in memory with one request each, at the same time."""
        threads = self._threads
        if threads is None or self._process != os.getpid():  # threads do not survive a fork
            threads = self._threads = ThreadPoolExecutor(max(1, len(self._spec)), "granular-read")
            self._process = os.getpid()
        started: dict[str, Future[Any]] = {}
        parts: dict[str, Any] = {}
        for name, key in keys.items():
            part = True if mask is None else mask.get(name, False)
            if part is not False:
                parts[name] = key.checked(part)
                if not key.records.held:
                    started[name] = threads.submit(key.read, row, parts[name])
        return {
            name: started[name].result() if name in started else keys[name].read(row, part)
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
    folders = {
        int(entry.name): entry.name for entry in directory.iterdir() if entry.name.isdecimal()
    }
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
