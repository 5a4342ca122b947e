"""Shards of an open dataset: each finds its index when it is first needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bushel.containers import get_container
from bushel.containers.base import Shard
from bushel.core.index.sidecar import ManifestShard, load_index
from bushel.core.index.table import FileStamp, ShardIndex
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import File, is_object, open_known
from bushel.storage.base import FROM_TAG

__all__ = ["OpenShard", "stamps_of", "still_fits", "unchanged"]


def stamps_of(shard: Shard) -> tuple[FileStamp, ...]:
    """The files of a shard as they are now.

    Raises:
        FormatError: A file is not there.
    """
    stamps = []
    for number, name in enumerate(shard.files):
        try:
            stat = shard.path(number).stat()
        except FileNotFoundError as error:
            raise FormatError(
                "a file of the dataset is missing",
                file=str(shard.path(number)),
                hint="put it back; or remove the other files of this shard, and `bushel index` the dataset",
            ) from error
        stamps.append(FileStamp(name, int(stat.st_size), int(getattr(stat, "st_mtime_ns", 0) or 0)))
    return tuple(stamps)


def unchanged(known: Sequence[FileStamp], now: Sequence[FileStamp]) -> bool:
    """Whether files are as an index knows them. A shard keeps its index when the folders above it change."""
    return [_own(stamp) for stamp in known] == [_own(stamp) for stamp in now]


def still_fits(known: Sequence[FileStamp], now: Sequence[FileStamp], shard: Shard) -> bool:
    """Whether a sidecar or manifest that knows a shard's files so still holds, now that they are so.

    Files that another tool copied to an object store, with their sidecars, have lost their times on the way. There, a
    sidecar holds that was put there after the data, if the sizes agree.

    Raises:
        OSError: An object store refuses, or cannot be reached.
    """
    if unchanged(known, now):
        return True
    sidecar = shard.sidecar
    if not is_object(sidecar) or any(stamp.mtime_ns >= FROM_TAG for stamp in known):
        return False
    if [_own(stamp)[:2] for stamp in known] != [_own(stamp)[:2] for stamp in now]:
        return False
    data = [path.stat().modified for path in map(shard.path, range(len(now))) if is_object(path)]
    return sidecar.stat().modified >= max(data)


def _own(stamp: FileStamp) -> tuple[str, int, int]:
    return stamp.name.rsplit("/", 1)[-1], stamp.size, stamp.mtime_ns


@dataclass(slots=True)
class OpenShard:
    """One shard of an open dataset.

    Attributes:
        container: Name of its container.
        shard: Its files.
        samples: Number of samples.
        stamps: Its files as the index knows them.
        keyed: Whether samples have keys of their own.
        checksums: Whether the CRC-32 of every field is known.
        fields: Its fields.
        stored: Whether the index lies in a sidecar, so that a copy in another process can map it again.
    """

    container: str
    shard: Shard
    samples: int
    stamps: tuple[FileStamp, ...]
    keyed: bool
    checksums: bool
    fields: tuple[Field, ...]
    stored: bool
    _index: ShardIndex | None = field(default=None, repr=False)

    @classmethod
    def of(cls, container: str, shard: Shard, index: ShardIndex, *, stored: bool) -> OpenShard:
        """A shard whose index is at hand."""
        entry = ManifestShard.of(shard.name, index)
        fields = tuple(column.field for column in index.columns.values())
        return cls(container, shard, index.samples, index.files, entry.keyed, entry.checksums, fields, stored, index)

    @classmethod
    def listed(cls, container: str, shard: Shard, entry: ManifestShard, fields: tuple[Field, ...]) -> OpenShard:
        """A shard that is only known from the manifest so far."""
        return cls(container, shard, entry.samples, entry.stamps, entry.keyed, entry.checksums, fields, True)

    def __getstate__(self) -> tuple[Any, ...]:
        index = None if self.stored else self._index
        known = (self.samples, self.stamps, self.keyed, self.checksums, self.fields)
        return self.container, self.shard, *known, self.stored, index

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.container, self.shard, self.samples, self.stamps, self.keyed, self.checksums = state[:6]
        self.fields, self.stored, self._index = state[6:]

    @property
    def index(self) -> ShardIndex:
        """The shard's table, mapped on first use.

        Raises:
            FormatError: The shard is no longer what the manifest says.
        """
        if self._index is None:
            self._index = self._map()
        return self._index

    def _map(self) -> ShardIndex:
        now = self.stamps
        if not all(stamp.mtime_ns >= FROM_TAG for stamp in now):  # else every answer of the store is compared with it
            now = stamps_of(self.shard)
        if not still_fits(self.stamps, now, self.shard):
            raise FormatError(
                "the shard has changed since it was indexed",
                file=str(self.shard.path(0)),
                hint="run `bushel index` on the dataset, then open it again",
            )
        try:
            index = load_index(self.shard.sidecar)
        except FileNotFoundError as error:
            raise FormatError(
                "the index of the shard is gone",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            ) from error
        if index.samples != self.samples or not still_fits(index.files, now, self.shard):
            raise FormatError(
                f"this is not the index of {self.shard.path(0)} as the manifest has it",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            )
        self.stamps = now
        return index.select([field.name for field in self.fields])

    @property
    def at_hand(self) -> bool:
        """Whether its index has been mapped already."""
        return self._index is not None

    def open(self, number: int) -> File:
        """Open one of its files for reading.

        Raises:
            FormatError: It is no longer the file that the index knows.
            OSError: It cannot be read.
        """
        path, stamp = self.shard.path(number), self.stamps[number]
        file = open_known(path, stamp.size, stamp.mtime_ns)
        if file.size != stamp.size or (stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns):
            raise FormatError(
                f"the file has changed since the dataset was opened: {file.size} bytes, then {stamp.size}",
                file=str(path),
                hint="open the dataset again",
            )
        return file

    def only(self, names: Collection[str]) -> OpenShard:
        """The same shard with only these fields."""
        fields = tuple(field for field in self.fields if field.name in names)
        if fields == self.fields:
            return self
        index = None if self._index is None else self._index.select([field.name for field in fields])
        return replace(self, fields=fields, _index=index)

    def join(self, raw: bytes) -> bytes:
        """The payload of a record stored in pieces."""
        return get_container(self.container).join(raw)
