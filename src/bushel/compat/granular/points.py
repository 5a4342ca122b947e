"""Datapoints by number: what `DatasetReader` and `ShardedDatasetReader` share."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

import bushel
from bushel.compat.granular.bag import checked_index, checked_range
from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import OutOfRangeError, UnknownKeyError, WrongTypeError
from bushel.compat.granular.formats import Codecs, bind_codecs, of_generation
from bushel.compat.granular.keys import Key, Names
from bushel.compat.granular.records import Records, off_memory
from bushel.core.dataset.shards import OpenShard
from bushel.spec import KEY
from bushel.storage import AnyPath, FilePool

__all__ = ["PointReader"]

Datapoint = dict[str, Any]

_HELD = 4 << 20
"""Bags that are so small that those of all shards take no more bytes than this are held in memory unasked."""


class PointReader(Closing):
    """What both readers are: datapoints of a list of folders, each a dataset."""

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
            raise WrongTypeError(f"cache_keys is a tuple of keys, not {cache_keys!r}")
        self._folders, self._cache_index, self._parallel = list(folders), cache_index, parallel
        self.cache_keys = cache_keys
        self._open()
        unknown = set(cache_keys) - self._spec.keys() - {"refs"}
        if unknown:
            raise UnknownKeyError(f"cache_keys has {min(unknown)!r}; there are {', '.join(self._spec)} and refs")
        self.decoders = bind_codecs(self._bind(decoders), self._spec)
        self._connect()

    def _bind(self, decoders: Codecs) -> Codecs:
        """The decoders by the types as the spec has them."""
        return decoders

    # Opening

    def _open(self) -> None:
        opened = bushel.open(self._folders, container="bag", index="memory")
        if not self._cache_index:
            opened = bushel.Dataset([_off_memory(shard) for shard in opened.shards])
        self._dataset = opened
        self._starts = np.cumsum([0, *(shard.samples for shard in opened.shards)]).tolist()
        self._length = len(opened)
        spec = opened.spec
        if opened.info.keyed:
            spec[KEY] = "utf8"
        self._spec = dict(sorted(spec.items()))

    def _connect(self) -> None:
        """Find the records and the decoder of each key of each shard."""
        self._pool, self._threads, self._process = FilePool(), None, os.getpid()
        self._shards: list[dict[str, Key]] = []
        shards = self._dataset.shards
        for number, shard in enumerate(shards):
            keys = {}
            for name in self._spec:
                decode = self.decoders[name]
                if name == KEY:
                    names = cast("Records", Names(self._dataset, self._starts[number]))
                    keys[name] = Key(name, names, None, decode)
                    continue
                column = shard.index.columns[name]
                hold = name in self.cache_keys or shard.stamps[column.file].size * len(shards) <= _HELD
                records = Records(shard, column, self._pool, hold=hold)
                starts = None if column.starts is None else np.ascontiguousarray(column.starts).data
                keys[name] = Key(name, records, starts, of_generation(decode, column.codec))
            self._shards.append(keys)

    _threads: ThreadPoolExecutor | None

    def __getstate__(self) -> dict[str, Any]:
        names = ("_folders", "_cache_index", "_parallel", "cache_keys", "decoders", "closed")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
        self._connect()

    def copy(self) -> Self:
        """Another reader of the same files, for another thread or process."""
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

    # What it is

    @property
    def spec(self) -> dict[str, str]:
        """Keys to types, as they were written."""
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
        """What there is of a datapoint: True, or the range of a sequence.

        Raises:
            OutOfRangeError: There is no such datapoint.
        """
        shard, row = self._place(index)
        return {
            name: True if key.starts is None else range(key.starts[row + 1] - key.starts[row])
            for name, key in self._shards[shard].items()
        }

    # Reading

    def __getitem__(self, item: Any) -> Datapoint:
        """A datapoint; with a mask, parts of one; with a range, lists of the values of several.

        `reader[3]`, `reader[3, {"title": True, "frames": range(32, 42)}]`, `reader[3, ("title", "frames")]`,
        `reader[10:20, {"title": True}]`.

        Raises:
            OutOfRangeError: There is no such datapoint.
            UnknownKeyError: The mask has a key that there is not.
            WrongTypeError: A mask has a range for a key that is no sequence, or several datapoints are read with one.
        """
        index, chosen = item if type(item) is tuple else (item, None)
        mask = None if chosen is None else self._known(chosen)
        several = type(index) is slice or type(index) is range
        shard, row = (0, 0) if several else self._place(index)
        keys = self._shards[shard]
        if mask is not None and mask is not chosen:  # a tuple of keys, which says their order too
            keys = {name: keys[name] for name in mask}
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
            error.add_note(f"while reading key {name!r} of type {self._spec[name]!r}, datapoint {index}")
            raise
        return point

    def __iter__(self) -> Iterator[Datapoint]:
        return (self[number] for number in range(self._length))

    def points(self, indices: Iterable[int]) -> list[Datapoint]:
        """Many datapoints with one batched read, which is faster than one by one where data is not in memory yet.

        Raises:
            OutOfRangeError: One is not there.
        """
        positions = [checked_index(index) for index in indices]
        for index in (min(positions, default=0), max(positions, default=-1)):
            if positions and not 0 <= index < self._length:
                raise OutOfRangeError(f"datapoint {index} of a dataset of {self._length}")
        stored = self._dataset.read(positions, decode=False)
        places = [self._place(position) for position in positions]
        return [self._decoded(sample, shard) for sample, (shard, _) in zip(stored, places, strict=True)]

    def _decoded(self, stored: Datapoint, shard: int) -> Datapoint:
        point: Datapoint = {}
        for name, key in self._shards[shard].items():
            value = _stored(stored, name)
            if key.decode is not None:
                value = key.decode(value) if key.starts is None else [key.decode(each) for each in value]
            point[name] = value
        return point

    def _several(self, numbers: range, keys: dict[str, Key], mask: dict[str, Any] | None) -> Datapoint:
        if numbers.stop > self._length:
            raise OutOfRangeError(f"datapoints up to {numbers.stop} of a dataset of {self._length}")
        names = []
        for name, key in keys.items():
            if (part := True if mask is None else mask.get(name, False)) is False:
                continue
            if key.starts is not None or part is not True:
                raise WrongTypeError(f"key {name!r}: sequences and ranges are read of one datapoint at a time")
            names.append(name)
        values: dict[str, list[Any]] = {name: [] for name in names}
        stored = self._dataset.read(numbers, [name for name in names if name != KEY], decode=False)
        for position, sample in zip(numbers, stored, strict=True):
            own = self._shards[self._place(position)[0]]
            for name, column in values.items():
                value, decode = _stored(sample, name), own[name].decode
                column.append(value if decode is None else decode(value))
        return values

    def _at_once(self, keys: dict[str, Key], mask: dict[str, Any] | None, row: int) -> Datapoint:
        """Read what is not in memory with one request per key, all at the same time."""
        threads = self._threads
        if threads is None or self._process != os.getpid():  # threads do not survive a fork
            threads = self._threads = ThreadPoolExecutor(max(1, len(self._spec)), "granular-read")
            self._process = os.getpid()
        begun: dict[str, Future[Any]] = {}
        parts: dict[str, Any] = {}
        for name, key in keys.items():
            part = True if mask is None else mask.get(name, False)
            if part is not False:
                parts[name] = key.checked(part)
                if not key.records.held:
                    begun[name] = threads.submit(key.read, row, parts[name])
        return {
            name: begun[name].result() if name in begun else keys[name].read(row, part) for name, part in parts.items()
        }

    def _place(self, index: Any) -> tuple[int, int]:
        """The shard of a datapoint, and its number there."""
        number = index if type(index) is int else checked_index(index)
        if not 0 <= number < self._length:
            raise OutOfRangeError(f"datapoint {number} of a dataset of {self._length}")
        if len(self._shards) == 1:
            return 0, number
        shard = bisect_right(self._starts, number) - 1
        return shard, number - self._starts[shard]

    def _known(self, mask: Any) -> dict[str, Any]:
        """A mask as a dict whose keys there are."""
        if isinstance(mask, tuple | list):
            mask = dict.fromkeys(mask, True)
        elif not isinstance(mask, dict):
            raise WrongTypeError(f"a mask is a dict, or a tuple of keys, not {type(mask).__name__}")
        for name in mask:
            if name not in self._spec:
                raise UnknownKeyError(f"there is no key {name!r}; there are {', '.join(self._spec)}")
        known: dict[str, Any] = mask
        return known


def _stored(sample: Datapoint, name: str) -> Any:
    value = sample[name]
    return value.encode("utf-8", "surrogateescape") if name == KEY else value


def _off_memory(shard: OpenShard) -> OpenShard:
    return shard if shard.stored else replace(shard, _index=off_memory(shard.index))
