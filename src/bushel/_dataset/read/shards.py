"""Shards of an open dataset: their tables, fields and files, and the names of their classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from bushel._dataset.open.caller_fields import NO_CALLER_FIELDS, CallerFields
from bushel._index.elements import Group
from bushel._index.names import Labels, join_labels
from bushel._index.shard import MANY_FILES, SMALL_FILE, FileStamp, Shard
from bushel._index.table import ShardIndex, block_file
from bushel._runtime.arrays import I64, LazySequence
from bushel.containers import register_container, registered_here
from bushel.errors import FormatError
from bushel.kernels import decimal_texts
from bushel.spec import Field, Spec, wider
from bushel.storage import AnyPath, File, is_object, open_known

if TYPE_CHECKING:
    from bushel._dataset.open.damage import Damage
    from bushel._index.shard_list import ShardList
    from bushel.containers.base import Section

    from .selection import Remaining


# shards up to this number are all asked for their columns; of more, the first and the last
_LOOK_AT = 1000
_LOOK_AT_REMOTE = 32
_AT_ONCE, _SECTION_BYTES = 32, 512 << 20
"""Number of remote tables that are loaded at once; and bytes of sections that are read to make some."""


class OpenShard(Struct):
    """One shard of an open dataset. Its table is loaded on first use."""

    container: str  # name of its container
    shard: Shard
    samples: int
    stamps: Sequence[FileStamp]  # its files as the index recorded them
    keyed: bool  # whether samples have keys of their own
    checksums: bool  # whether the CRC-32 of every field is known
    fields: tuple[Field, ...]
    # whether the index is in a sidecar, so that a copy in another process can map it again
    stored: bool
    labels: Labels = field(default_factory=dict)  # field to the names of its classes
    _index: ShardIndex | None = None
    damage: Damage | None = None  # the damage of the shard, if its structure is damaged
    asked: CallerFields = NO_CALLER_FIELDS  # the fields that the caller declares
    section: Section | None = None  # the part of the shard that it is; None for a whole shard
    # the digest of its table as manifest or sidecar record it; empty if none does
    recorded: str = ""
    narrow: OpenShard | None = None  # the shard with its own types, if other shards have wider ones

    @classmethod
    def of(
        cls,
        container: str,
        shard: Shard,
        index: ShardIndex,
        *,
        stored: bool,
        damage: Damage | None = None,
        asked: CallerFields = NO_CALLER_FIELDS,
        checked: bool = False,
    ) -> OpenShard:
        """Return a shard whose table is loaded: see the attributes.

        `checked` says that the table names no codec that runs code, as `load_index` and
        `build_table` give it.
        """
        if asked is not NO_CALLER_FIELDS or not checked:
            index = asked.table(index, shard)
        if len(index.files) > len(shard.files):
            shard = index.shard_with_files(shard)
        fields, checksums = [], True
        for extents in index.fields.values():
            fields.append(extents.field)
            checksums = checksums and extents.crc32 is not None
        facts = (index.samples, index.files, index.keys is not None, checksums, tuple(fields))
        recorded = index.digest if stored else ""
        return cls(
            container, shard, *facts, stored, index.labels, index, damage, asked, None, recorded
        )

    def __reduce__(self) -> tuple[Any, ...]:
        as_sent = replace(self, _index=None if self.stored else self._index)
        return _unpickled, (astuple(as_sent), registered_here(self.container))

    @property
    def index(self) -> ShardIndex:
        """The shard's table. It is mapped on first use.

        Raises:
            FormatError: The shard has changed since the manifest was written.
        """
        if self._index is None:
            if self.section is not None:
                from .sections import table_of_section

                index = table_of_section(self.container, self.shard, self.section, self.stamps[0])
            else:
                from bushel._dataset.open.tables import load_listed

                index = load_listed(self.shard, self.stamps, self.samples)
                self.stamps = index.files
            self._index = self.asked.table(index).select([field.name for field in self.fields])
        return self._index

    @property
    def digest(self) -> str:
        """The digest of its table: which data it holds. For a shard that is opened by sections, see `identity`."""
        if not self.recorded:
            from bushel._dataset.open.binding import digest_in_memory

            self.recorded = digest_in_memory(self.index, self.shard)
        return self.recorded

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

    def locate(self, file: int, offset: int, empty: int | None = None) -> tuple[str, int]:
        """Return the path of the file that holds a byte, and the offset there: see `ShardIndex.place`."""
        return self.shard.locate(self.index.place(file, offset, empty))

    def open(self, number: int, file_of: Callable[[int], File] | None = None) -> File:
        """Open one of its files or block files for reading.

        Args:
            number: Number of the file; the numbers after the last file belong to block files.
            file_of: Returns the open file of a number, for block files; by default this method.

        Raises:
            FormatError: The file has changed since it was indexed.
            OSError: The file cannot be read.
        """
        if number >= len(self.stamps):
            return block_file(self.index, number, file_of or cache(self.open), self.shard)
        stamp, forget = self.stamps[number], getattr(self.stamps, "forget", None)
        if self.section is not None:
            from .sections import file_of_section

            return file_of_section(self.shard, self.section, stamp)
        if (
            len(self.stamps) > MANY_FILES
            and stamp.mtime_ns
            and stamp.size <= SMALL_FILE
            and self.index.closes(number, self.shard)
        ):
            from bushel.storage.fileobject import SmallFile

            [path_text] = self.shard.path_texts([number])
            return SmallFile(path_text, stamp.size, stamp.mtime_ns, forget)
        file = open_known(path := self.path(number), stamp.size, stamp.mtime_ns)
        changed = stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns
        if changed and stamp.crc32 is not None and file.size == stamp.size and not is_object(path):
            from bushel._dataset.open.binding import stamp_of

            changed = stamp_of(file) != stamp.crc32
        if file.size != stamp.size or changed:
            from bushel.storage.fileobject import changed_since

            raise changed_since(str(path), file.size, stamp.size, forget)
        return file

    def check_readable(self, row: int, position: int) -> None:
        """Raise the `FormatError` of a sample that damage touches, given its number here and its position."""
        if self.damage is not None and not self.damage.whole[row]:
            keys = self.index.keys
            raise self.damage.error_of(row, str(position) if keys is None else keys[row])


def _unpickled(values: tuple[Any, ...], own: Any) -> OpenShard:
    """Return the shard of a pickle, whose container is registered in a worker process that was not forked."""
    if own is not None:
        register_container(own, replace=True)
    return OpenShard(*values)


class Listing(LazySequence[OpenShard]):
    """Very many shards of one kind. Each `OpenShard` is made when it is asked for; `listed` lists them."""

    listed: ShardList


def kinds(shards: Sequence[OpenShard]) -> Sequence[OpenShard]:
    """Return shards that have all containers, fields and labels of these shards."""
    if isinstance(shards, Listing):
        return shards[:1]
    return shards


def looked_at(shards: Sequence[OpenShard]) -> Sequence[OpenShard]:
    """Return the shards that are asked for their columns: the first and the last of very many."""
    if isinstance(shards, Listing) or (
        shards and len(shards) > (_LOOK_AT if shards[0].local else _LOOK_AT_REMOTE)
    ):
        return [shards[0], shards[-1]]
    return shards


def samples_of(shards: Sequence[OpenShard]) -> I64:
    """Return int64[shards], the number of samples of each shard."""
    if isinstance(shards, Listing):
        return shards.listed.samples
    return np.array([shard.samples for shard in shards], np.int64)


def any_keyed(shards: Sequence[OpenShard]) -> bool:
    """Return whether any sample has a key of its own."""
    if isinstance(shards, Listing):
        return shards.listed.any_keyed
    return any(shard.keyed for shard in shards)


class ShardRows:
    """The shards of a dataset in order, and the shard and row of each position.

    Attributes:
        shards: The shards.
        counted: Those whose samples are counted by positions: all, unless some are joined to them.
        starts: int64[counted + 1], position of each counted shard's first sample, and the number of
            samples.
        keyed: Whether any sample has a key of its own.
        fields: The fields of all shards, in order of first appearance.
        divisions: The shards of each dataset that was joined; without joins, all shards.
        remaining: The positions that remain if samples were removed; None if none was.
    """

    def __init__(self, shards: Sequence[OpenShard], remaining: Remaining | None = None) -> None:
        self.shards: Sequence[OpenShard] = shards if isinstance(shards, Listing) else tuple(shards)
        self.counted: Sequence[OpenShard] = self.shards
        self.divisions: Sequence[Sequence[OpenShard]] = [self.shards]
        self.starts = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum(samples_of(self.shards), out=self.starts[1:])
        self.keyed = any_keyed(self.shards)
        self.fields = union_of_fields(kinds(self.shards))
        self.remaining = remaining

    @property
    def whole(self) -> range | Remaining:
        """The positions of the whole dataset, without removed samples."""
        if self.remaining is None:
            return range(int(self.starts[-1]))
        return self.remaining

    @cached_property
    def local(self) -> bool:
        """Whether all files are in the file system of this machine."""
        return all(shard.local for shard in kinds(self.shards))

    @property
    def all(self) -> ShardRows:
        """All shards. Their samples are counted one after another."""
        return self

    def rows_of(self, name: str, positions: I64) -> I64:
        """Return the places of the values of a field, or of its columns, among the samples of all shards; -1 for none.

        Without joins, these are the positions.
        """
        return positions

    def group_of(self, position: int, name: str) -> Group | None:
        """Return the shard and row of a field of a sample; None if that shard lacks the field.

        Raises:
            FormatError: The structure of the shard is damaged, and the damage touches the sample.
        """
        groups = self.readable(np.array([position], np.int64), [name])
        return next((group for group in groups if name in group.index.fields), None)

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]:
        """Return the number of the shard that holds a sample, or this field of it, and its row there."""
        if len(self.starts) == 2:  # one shard needs no search, which `ds[i]` would repeat
            return 0, position
        number = int(self.starts.searchsorted(position, "right")) - 1
        return number, position - int(self.starts[number])

    def groups(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by shard; `names` are the fields that are needed, None for all."""
        if not len(positions):
            return []
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
        missing = [shard for number in present if not (shard := self.shards[number]).loaded]
        if len(missing) > 1 and not missing[0].local:
            from bushel._runtime.parallel import map_all

            largest = max((shard.section.size for shard in missing if shard.section), default=1)
            threads = max(1, min(_AT_ONCE, _SECTION_BYTES // largest))
            map_all(lambda shard: shard.index, missing, threads=threads, name="bushel-index")
        offsets = begins.tolist() + [len(order)]
        groups = []
        for at, number in enumerate(present):
            places = order[offsets[at] : offsets[at + 1]]
            groups.append(
                Group(
                    number,
                    self.shards[number].index,
                    positions[places] - self.starts[number],
                    places,
                )
            )
        return groups

    def readable(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by shard as `groups` does.

        Raises:
            FormatError: The structure of a shard is damaged, and the damage touches one of these
                samples.
        """
        groups = self.groups(positions, names)
        for group in groups:
            if (shard := self.shards[group.number]).damage is not None:
                places = group.places_in(len(positions))
                for row, position in zip(group.rows, positions[places].tolist(), strict=True):
                    shard.check_readable(int(row), position)
        return groups

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """Return the keys of these samples. A sample without a key has its position as text."""
        if not self.keyed:
            return decimal_texts(np.ascontiguousarray(positions))
        keys: list[str] = [""] * len(positions)
        for group in self.groups(positions) if groups is None else groups:
            if group.index.keys is None:
                keys_there = decimal_texts(positions[group.in_batch])
            else:
                try:
                    keys_there = group.index.keys.take(group.rows)
                except ValueError as error:
                    sidecar = str(self.shards[group.number].shard.sidecar)
                    hint = "run `bushel index --force` on the dataset"
                    raise FormatError(
                        f"the index is damaged: {error}", sidecar, hint=hint
                    ) from error
            if group.places is None:
                return keys_there
            for place, key in zip(group.places.tolist(), keys_there, strict=True):
                keys[place] = key
        return keys

    def key(self, position: int) -> str:
        """Return the key of one sample."""
        return self.keys(np.array([position], np.int64))[0]

    def location(self, position: int, name: str) -> tuple[str, int]:
        """Return the path of the file with a field of a sample, and the offset of its stored bytes.

        A shard without the field, as joined datasets may have, is named by its first file and 0.
        """
        number, sample = self.row_of(position, name)
        shard = self.shards[number]
        extents = shard.index.fields.get(name)
        if extents is None:
            return shard.locate(0, 0)
        row = int(sample if extents.starts is None else extents.starts[sample])
        if not 0 <= row < extents.rows:
            return shard.locate(extents.file, 0)
        empty = None
        if extents.length[row] == 0:
            at_the_same_place = extents.offset[:row] == extents.offset[row]
            empty = int(np.count_nonzero(at_the_same_place & (extents.length[:row] == 0)))
        return shard.locate(extents.file, int(extents.offset[row]), empty)


def union_of_fields(shards: Sequence[OpenShard]) -> dict[str, Field]:
    """Return the fields of all shards, in order of first appearance, each with a type that holds the values of all."""
    alike: dict[tuple[Field, ...], list[OpenShard]] = {}
    for shard in shards:
        if shard.samples:
            alike.setdefault(shard.fields, []).append(shard)
    alike = alike or {shard.fields: [shard] for shard in shards}
    fields: dict[str, Field] = {}
    sources: dict[str, list[OpenShard]] = {}
    for fields_alike, having in alike.items():
        for of_shard in fields_alike:
            before = fields.setdefault(of_shard.name, of_shard)
            having_before = sources.setdefault(of_shard.name, having)
            if before == of_shard or has_no_value(of_shard.name, having):
                continue
            if has_no_value(of_shard.name, having_before):
                fields[of_shard.name], sources[of_shard.name] = of_shard, having
            # lists of texts, some with nulls
            elif {before.type, of_shard.type} == {"json", "utf8[]"}:
                fields[of_shard.name] = Field(of_shard.name, "json")
            elif before.sequence != of_shard.sequence:
                raise FormatError(
                    f"field {of_shard.name!r} is a sequence in some shards and plain in others",
                    having[0].path(0),
                    hint="open the files one by one, write the field alike in all of "
                    f"them, or read lists of texts with spec={{{of_shard.name!r}: 'json'}}",
                )
            else:
                fields[of_shard.name] = wider(before, of_shard)
    return fields


def labels_of(shards: Sequence[OpenShard], fields: Spec) -> Labels:
    """Return the names of classes of a dataset with these shards.

    Raises:
        SpecError: Two shards give different names to the same number.
    """
    return join_labels(
        ((str(shard.path(0)), shard.labels) for shard in shards if shard.labels), fields
    )


def has_no_value(name: str, shards: Sequence[OpenShard]) -> bool:
    """Return whether the tables of shards, which are not loaded from a store for it, say that no sample has a field."""
    return all(
        (shard.local or shard.loaded) and shard.index.fields[name].lacks_all for shard in shards
    )
