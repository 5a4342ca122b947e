"""Shards of an open dataset: their tables, fields and files, and the names of their classes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bushel._discovery.asked import AS_FILES_SAY, Asked
from bushel._index.class_names import Labels, labels_of_fields
from bushel._index.read_plan import Group
from bushel._index.sidecar import ManifestShard, load_index
from bushel._index.table import FileStamp, Keys, Shard, ShardIndex
from bushel.containers import get_container, register_container, registered_here
from bushel.containers.abilities import PromisesChecksums
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath, File, is_object, open_known
from bushel.storage.base import FROM_TAG

if TYPE_CHECKING:
    from bushel._discovery.damaged import Damage
    from bushel._index.shard_list import ShardList
    from bushel.containers.sections import Section

__all__ = [
    "Listing",
    "OpenShard",
    "ShardRows",
    "any_keyed",
    "kinds",
    "samples_of",
    "union_of_fields",
]

I64 = npt.NDArray[np.int64]

_log = logging.getLogger("bushel")

_MANY_FILES, _SMALL = 64, 1 << 20
"""A shard of more files than this keeps small ones, of up to 1 MiB, closed between reads."""

_AT_ONCE, _SECTION_BYTES = 32, 512 << 20
"""Number of remote indexes that are fetched at once; and bytes of sections that are read to make some."""


@dataclass(slots=True)
class OpenShard:
    """One shard of an open dataset. Its table is loaded on first use.

    Attributes:
        container: Name of its container.
        shard: Its files.
        samples: Number of samples.
        stamps: Its files as the index recorded them.
        keyed: Whether samples have keys of their own.
        checksums: Whether the CRC-32 of every field is known.
        fields: Its fields.
        stored: Whether the index is in a sidecar, so that a copy in another process can map it again.
        labels: Field to the names of its classes.
        damage: The damage of the shard, if its structure is damaged.
        asked: What the caller says about the fields.
        section: The part of the shard that it is; None for a whole shard.
    """

    container: str
    shard: Shard
    samples: int
    stamps: Sequence[FileStamp]
    keyed: bool
    checksums: bool
    fields: tuple[Field, ...]
    stored: bool
    labels: Labels = field(default_factory=dict)
    _index: ShardIndex | None = field(default=None, repr=False)
    damage: Damage | None = None
    asked: Asked = AS_FILES_SAY
    section: Section | None = None

    @classmethod
    def of(
        cls,
        container: str,
        shard: Shard,
        index: ShardIndex,
        *,
        stored: bool,
        damage: Damage | None = None,
        asked: Asked = AS_FILES_SAY,
        checked: bool = False,
    ) -> OpenShard:
        """Return a shard whose table is loaded: see the attributes.

        `checked` says that the table names no codec that runs code, as `load_index` and `build_table` give it.
        """
        if asked is not AS_FILES_SAY or not checked:
            index = asked.table(index)
        fields, checksums = [], True
        for extents in index.fields.values():
            fields.append(extents.field)
            checksums = checksums and extents.crc32 is not None
        if len(index.files) > len(shard.files):
            shard = shard.with_files_of(index)
        known = (index.samples, index.files, index.keys is not None, checksums, tuple(fields))
        return cls(container, shard, *known, stored, index.labels, index, damage, asked)

    @classmethod
    def listed(
        cls,
        container: str,
        shard: Shard,
        entry: ManifestShard,
        fields: tuple[Field, ...],
        labels: Labels,
        asked: Asked = AS_FILES_SAY,
    ) -> OpenShard:
        """Return a shard whose table is not loaded yet, as the manifest lists it."""
        known = (entry.samples, entry.recorded, entry.keyed, entry.checksums, fields)
        return cls(container, shard, *known, True, labels, asked=asked)

    @classmethod
    def unchanged(cls, container: str, shard: Shard, asked: Asked) -> OpenShard | None:
        """Return a local shard with the table of its sidecar, if the files have the names, sizes and times in it.

        That is the usual case. What all others mean, `tables.table_to_read` finds out.
        """
        if len(shard.files) > _MANY_FILES and not shard.sidecar.exists():
            return None
        sidecar, paths = shard.sidecar, list(map(shard.path, range(len(shard.files))))
        try:
            index = load_index(sidecar)
            if len(index.files) != len(paths):
                return None
            for name, path, known in zip(shard.files, paths, index.files, strict=True):
                stat = path.stat()
                if (name, stat.st_size, stat.st_mtime_ns) != (known.name, known.size, known.mtime_ns):
                    return None
        except (OSError, FormatError):
            return None
        return cls.of(container, shard, index, stored=True, asked=asked, checked=True)

    def __getstate__(self) -> tuple[Any, ...]:
        own = registered_here(self.container)
        index = None if self.stored else self._index
        known = (self.samples, self.stamps, self.keyed, self.checksums, self.fields)
        said = (self.damage, self.asked, self.section)
        return self.container, self.shard, *known, self.stored, self.labels, index, *said, own

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.container, self.shard, self.samples, self.stamps, self.keyed, self.checksums = state[:6]
        self.fields, self.stored, self.labels, self._index, self.damage, self.asked, self.section, own = state[6:]
        if own is not None:  # in a worker process that was not forked
            register_container(own, replace=True)

    @property
    def index(self) -> ShardIndex:
        """The shard's table. It is mapped on first use.

        Raises:
            FormatError: The shard has changed since the manifest was written.
        """
        if self._index is None:
            self._index = self._map()
        return self._index

    def _map(self) -> ShardIndex:
        if self.section is not None:
            from bushel._reader.section_tables import table_of_section

            index = table_of_section(self.container, self.shard, self.section, self.stamps[0])
            return self.asked.table(index).select([field.name for field in self.fields])
        from bushel._discovery.tables import bind, same_files, stamps_of

        now = self.stamps
        # times made of ETags need no look: each response of the store is compared with them
        if not all(stamp.mtime_ns >= FROM_TAG for stamp in now):
            now = stamps_of(self.shard)
        try:
            index = load_index(self.shard.sidecar)
        except FileNotFoundError as error:
            raise FormatError(
                "the index of the shard is missing",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            ) from error
        if index.samples != self.samples or not same_files(index.files, self.stamps):
            raise FormatError(
                f"this index does not belong to {self.path(0)} as the manifest lists it",
                file=str(self.shard.sidecar),
                hint="run `bushel index` on the dataset, then open it again",
            )
        files = bind(index.files, now, self.shard)
        if files is None:
            raise FormatError(
                "the shard has changed since it was indexed",
                file=str(self.path(0)),
                hint="run `bushel index` on the dataset, then open it again",
            )
        index = replace(index, files=files)
        self.stamps = files
        return self.asked.table(index).select([field.name for field in self.fields])

    @property
    def promises_checksums(self) -> bool:
        """Whether the container stores checksums that its own reader always compares."""
        return isinstance(get_container(self.container), PromisesChecksums)

    @property
    def unvalidated(self) -> bool:
        """Whether a file may be replaced unnoticed: its server says neither ETag nor time, by which that is seen.

        That is known when the table is loaded.
        """
        return not self.local and any(stamp.mtime_ns == 0 for stamp in self.stamps)

    @property
    def local(self) -> bool:
        """Whether its files are in the file system of this machine."""
        return isinstance(self.shard.root, Path)

    @property
    def loaded(self) -> bool:
        """Whether its table is loaded."""
        return self._index is not None

    def path(self, number: int) -> AnyPath:
        """Return the path of one of its files."""
        return self.shard.path(number)

    def locate(self, file: int, offset: int) -> tuple[str, int]:
        """Return the path of the file that holds a byte, and the offset there.

        Args:
            file: Number of a file or block file.
            offset: Offset in it.
        """
        return self.shard.locate(self.index.place(file, offset))

    def open(self, number: int, file_of: Callable[[int], File] | None = None) -> File:
        """Open one of its files or block files for reading.

        Args:
            number: Number of the file; numbers that follow those of the files are those of block files.
            file_of: Returns the open file of a number, for block files; by default this method.

        Raises:
            FormatError: The file has changed since it was indexed.
            OSError: The file cannot be read.
        """
        if number >= len(self.stamps):
            from bushel._index.opening import block_file

            return block_file(self.index, number, file_of or cache(self.open), self.locate(number, 0)[0])
        stamp, forget = self.stamps[number], getattr(self.stamps, "forget", None)
        if self.section is not None:
            from bushel._reader.section_tables import file_of_section

            return file_of_section(self.shard, self.section, stamp)
        if len(self.stamps) > _MANY_FILES and stamp.mtime_ns and stamp.size <= _SMALL and self._has_many_files:
            from bushel.storage.small_file import SmallFile

            return SmallFile(self.shard.path_text(number), stamp.size, stamp.mtime_ns, forget)
        file = open_known(path := self.path(number), stamp.size, stamp.mtime_ns)
        changed = stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns
        if changed and stamp.crc32 is not None and file.size == stamp.size and not is_object(path):
            from bushel._discovery.tables import stamp_of

            changed = stamp_of(file) != stamp.crc32
        if file.size != stamp.size or changed:
            from bushel.storage.small_file import changed_since

            raise changed_since(str(path), file.size, stamp.size, forget)
        return file

    @property
    def _has_many_files(self) -> bool:
        """Whether values lie in blocks of many local files, none of which should stay open."""
        first = len(self.stamps)
        return first > _MANY_FILES and self.local and all(own.file >= first for own in self.index.fields.values())

    def check_readable(self, row: int, position: int) -> None:
        """Raise the `FormatError` of a sample that damage touches, given its number here and its position."""
        if self.damage is not None and not self.damage.whole[row]:
            keys = self.index.keys
            raise self.damage.error_of(str(position) if keys is None else keys[row])

    def only(self, names: Collection[str]) -> OpenShard:
        """Return the shard with only these fields."""
        fields = tuple(field for field in self.fields if field.name in names)
        if fields == self.fields:
            return self
        index = None if self._index is None else self._index.select([field.name for field in fields])
        labels = labels_of_fields(self.labels, [field.name for field in fields])
        return replace(self, fields=fields, labels=labels, _index=index)

    def asking(self, asked: Asked) -> OpenShard:
        """Return the shard as it is read by a caller who says this about its fields."""
        index = None if self._index is None else asked.table(self._index)
        return replace(self, fields=tuple(map(asked.field, self.fields)), asked=asked, _index=index)


class Listing(Sequence[OpenShard]):
    """Very many shards of one kind, each of which is made when it is asked for; `listed` lists them."""

    listed: ShardList


def kinds(shards: Sequence[OpenShard]) -> Sequence[OpenShard]:
    """Return shards that have all containers, fields and labels of these shards."""
    return shards[:1] if isinstance(shards, Listing) else shards


def samples_of(shards: Sequence[OpenShard]) -> I64:
    """Return int64[shards], the number of samples of each shard."""
    return shards.listed.samples if isinstance(shards, Listing) else np.array([one.samples for one in shards], np.int64)


def any_keyed(shards: Sequence[OpenShard]) -> bool:
    """Return whether any sample has a key of its own."""
    return shards.listed.any_keyed if isinstance(shards, Listing) else any(shard.keyed for shard in shards)


class ShardRows:
    """The shards of a dataset in order, and the shard and row of each position.

    Attributes:
        shards: The shards.
        counted: Those whose samples are counted by positions: all, unless some are joined to them.
        starts: int64[counted + 1], position of each counted shard's first sample, and the number of samples.
        keyed: Whether any sample has a key of its own.
        fields: The fields of all shards, in order of first appearance.
    """

    def __init__(self, shards: Sequence[OpenShard]) -> None:
        self.shards: Sequence[OpenShard] = shards if isinstance(shards, Listing) else tuple(shards)
        self.counted: Sequence[OpenShard] = self.shards
        self.starts = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum(samples_of(self.shards), out=self.starts[1:])
        self.keyed = any_keyed(self.shards)
        self.fields = union_of_fields(kinds(self.shards))

    def promised(self) -> list[bool]:
        """Return whether the container of each shard stores checksums that its own reader always compares."""
        own = [shard.promises_checksums for shard in kinds(self.shards)]
        return own * len(self.shards) if isinstance(self.shards, Listing) else own

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]:
        """Return the number of the shard that holds a sample, or this field of it, and its row there."""
        number = int(self.starts.searchsorted(position, "right")) - 1 if len(self.shards) > 1 else 0
        return number, position - int(self.starts[number])

    def groups(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by shard; `names` are the fields that are needed, None for all."""
        if len(self.shards) == 1:
            return [Group(0, self.shards[0].index, positions, None)]
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))  # np.unique would import numpy.ma
        present = ordered[begins].tolist()
        if len(present) == 1:
            [number] = present
            return [Group(number, self.shards[number].index, positions - self.starts[number], None)]
        self._load(present)
        offsets = begins.tolist() + [len(order)]
        groups = []
        for at, number in enumerate(present):
            places = order[offsets[at] : offsets[at + 1]]
            groups.append(Group(number, self.shards[number].index, positions[places] - self.starts[number], places))
        return groups

    def readable(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by shard as `groups` does.

        Raises:
            FormatError: The structure of a shard is damaged, and the damage touches one of these samples.
        """
        groups = self.groups(positions, names)
        for group in groups:
            if (shard := self.shards[group.number]).damage is not None:
                own = positions if group.places is None else positions[group.places]
                for row, position in zip(group.rows.tolist(), own.tolist(), strict=True):
                    shard.check_readable(row, position)
        return groups

    def _load(self, numbers: Sequence[int]) -> None:
        """Load the indexes of these shards, many at once if each is a request to an object store."""
        missing = [shard for shard in map(self.shards.__getitem__, numbers) if not shard.loaded]
        if len(missing) > 1 and not missing[0].local:
            from bushel._runtime.parallel import map_all

            largest = max((each.section.size for each in missing if each.section), default=1)
            workers = max(1, min(_AT_ONCE, _SECTION_BYTES // largest))
            map_all(lambda shard: shard.index, missing, workers=workers, name="bushel-index")

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """Return the keys of these samples. A sample without a key has its position as text."""
        if not self.keyed:
            return [str(position) for position in positions.tolist()]
        keys: list[str] = [""] * len(positions)
        for group in self.groups(positions) if groups is None else groups:
            if group.index.keys is None:
                own = list(map(str, (positions if group.places is None else positions[group.places]).tolist()))
            else:
                own = self._own_keys(group, group.index.keys)
            if group.places is None:
                return own
            for place, key in zip(group.places.tolist(), own, strict=True):
                keys[place] = key
        return keys

    def _own_keys(self, group: Group, keys: Keys) -> list[str]:
        try:
            return keys.take(group.rows)
        except ValueError as error:
            sidecar = str(self.shards[group.number].shard.sidecar)
            hint = "run `bushel index --force` on the dataset"
            raise FormatError(f"the index is damaged: {error}", file=sidecar, hint=hint) from error

    def key(self, position: int) -> str:
        """Return the key of one sample."""
        return self.keys(np.array([position], np.int64))[0]

    def location(self, position: int, name: str) -> tuple[str, int]:
        """Return the path of the file with a field of a sample, and the offset of its stored bytes."""
        number, sample = self.row_of(position, name)
        shard = self.shards[number]
        own = shard.index.fields[name]
        row = int(sample if own.starts is None else own.starts[sample])
        return shard.locate(own.file, int(own.offset[row]) if 0 <= row < own.rows else 0)


def union_of_fields(shards: Sequence[OpenShard]) -> dict[str, Field]:
    """Return the fields of all shards, in order of first appearance."""
    fields: dict[str, Field] = {}
    for shard in {shard.fields: shard for shard in shards}.values():
        for one in shard.fields:
            if fields.setdefault(one.name, one).sequence != one.sequence:
                raise FormatError(
                    f"field {one.name!r} is a sequence in some shards and plain in others",
                    file=str(shard.path(0)),
                    hint="declare its type with spec=",
                )
    return fields
