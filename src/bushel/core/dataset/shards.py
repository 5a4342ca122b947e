"""Shards of an open dataset: their tables, fields and files, and the names of their classes."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bushel.containers import get_container
from bushel.containers.base import KeepsNames, Shard
from bushel.core.dataset.folders import above_parts
from bushel.core.dataset.tables import bind, same_files, stamp_of, stamps_of
from bushel.core.index.class_names import Labels, join_labels, labels_of_fields
from bushel.core.index.read_plan import Elements, Group
from bushel.core.index.sidecar import FOLDER, Manifest, ManifestShard, load_index, load_labels
from bushel.core.index.table import MISSING, Column, FileStamp, ShardIndex
from bushel.errors import FormatError
from bushel.kernels import ExtentError, read_samples
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, File, is_object, open_known
from bushel.storage.base import FROM_TAG

if TYPE_CHECKING:
    from bushel.core.dataset.damaged import Damage
    from bushel.core.index.shard_table import ShardTable

__all__ = [
    "Listing",
    "OpenShard",
    "any_keyed",
    "kinds",
    "labels_beside",
    "labels_of",
    "listed_labels",
    "listed_names",
    "manifest_path",
    "read_stored",
    "readable",
    "samples_of",
    "union_of_fields",
]

I64 = npt.NDArray[np.int64]

_log = logging.getLogger("bushel")


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
        damage: What is wrong with the shard, if its structure is damaged.
    """

    container: str
    shard: Shard
    samples: int
    stamps: tuple[FileStamp, ...]
    keyed: bool
    checksums: bool
    fields: tuple[Field, ...]
    stored: bool
    labels: Labels = field(default_factory=dict)
    _index: ShardIndex | None = field(default=None, repr=False)
    damage: Damage | None = None

    @classmethod
    def of(
        cls, container: str, shard: Shard, index: ShardIndex, *, stored: bool, damage: Damage | None = None
    ) -> OpenShard:
        """Return a shard whose table is loaded."""
        entry = ManifestShard.of(shard.name, index)
        fields = tuple(column.field for column in index.columns.values())
        known = (index.samples, index.files, entry.keyed, entry.checksums, fields)
        return cls(container, shard, *known, stored, index.labels, index, damage)

    @classmethod
    def listed(
        cls, container: str, shard: Shard, entry: ManifestShard, fields: tuple[Field, ...], labels: Labels
    ) -> OpenShard:
        """Return a shard whose table is not loaded yet, as the manifest lists it."""
        known = (entry.samples, entry.recorded, entry.keyed, entry.checksums, fields)
        return cls(container, shard, *known, True, labels)

    def __getstate__(self) -> tuple[Any, ...]:
        index = None if self.stored else self._index
        known = (self.samples, self.stamps, self.keyed, self.checksums, self.fields)
        return self.container, self.shard, *known, self.stored, self.labels, index, self.damage

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.container, self.shard, self.samples, self.stamps, self.keyed, self.checksums = state[:6]
        self.fields, self.stored, self.labels, self._index, self.damage = state[6:]

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
        return index.select([field.name for field in self.fields])

    @property
    def promises_checksums(self) -> bool:
        """Whether the container stores checksums that its own reader always compares."""
        return bool(getattr(get_container(self.container), "promises_checksums", False))

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

    def open(self, number: int) -> File:
        """Open one of its files for reading.

        Raises:
            FormatError: The file has changed since it was indexed.
            OSError: The file cannot be read.
        """
        path, stamp = self.path(number), self.stamps[number]
        file = open_known(path, stamp.size, stamp.mtime_ns)
        changed = stamp.mtime_ns and file.mtime_ns != stamp.mtime_ns
        if changed and stamp.crc32 is not None and file.size == stamp.size and not is_object(path):
            changed = stamp_of(file) != stamp.crc32
        if file.size != stamp.size or changed:
            raise FormatError(
                f"the file has changed since the dataset was opened: {file.size} bytes, then {stamp.size}",
                file=str(path),
                hint="open the dataset again",
            )
        return file

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

    def join(self, raw: bytes) -> bytes:
        """Return the payload of a record that is stored in pieces."""
        return get_container(self.container).join(raw)


class Listing(Sequence[OpenShard]):
    """Very many shards of one kind, each of which is made when it is asked for; `table` lists them."""

    table: ShardTable


def kinds(shards: Sequence[OpenShard]) -> Sequence[OpenShard]:
    """Return shards that have all containers, fields and labels of these shards."""
    return shards[:1] if isinstance(shards, Listing) else shards


def samples_of(shards: Sequence[OpenShard]) -> I64:
    """Return int64[shards], the number of samples of each shard."""
    return shards.table.samples if isinstance(shards, Listing) else np.array([one.samples for one in shards], np.int64)


def any_keyed(shards: Sequence[OpenShard]) -> bool:
    """Return whether any sample has a key of its own."""
    return shards.table.any_keyed if isinstance(shards, Listing) else any(shard.keyed for shard in shards)


def readable(shards: Sequence[OpenShard], starts: I64, groups: list[Group]) -> list[Group]:
    """Return a batch divided by shard.

    Raises:
        FormatError: The structure of a shard is damaged, and the damage touches one of these samples.
    """
    for group in groups:
        shard = shards[group.number]
        for row in () if shard.damage is None else group.rows.tolist():
            shard.check_readable(row, int(starts[group.number]) + row)
    return groups


def read_stored(
    groups: Sequence[Group],
    samples: int,
    wanted: Mapping[str, Elements],
    file_of: Callable[[int, int], File],
    keys_of: Callable[[], list[str]],
    *,
    verify: bool,
) -> list[dict[str, Any]] | None:
    """Read the stored bytes of plain fields of local shards, without making a plan.

    Args:
        groups: The batch, divided by shard; all shards are local.
        samples: Number of samples in it.
        wanted: The fields.
        file_of: Opens a file, given the number of a shard and its number in the shard.
        keys_of: Returns the keys of the samples.
        verify: Whether to compare checksums.

    Returns:
        The samples; None if they have to be read in another way, which also finds out what is wrong with them.
    """
    if not all(
        _suits(group.index.columns.get(name), elements, verify) for group in groups for name, elements in wanted.items()
    ):
        return None
    numbers: dict[tuple[int, int], int] = {}
    rows = groups[0].rows if len(groups) == 1 and groups[0].places is None else None
    fields: list[Any] = []
    for name in wanted:
        columns = [(group, column) for group in groups if (column := group.index.columns.get(name)) is not None]
        if rows is not None and columns:
            [(group, column)] = columns
            file: Any = numbers.setdefault((group.number, column.file), len(numbers))
            fields.append((name, file, column.offset, column.length, column.crc32 if verify else None))
        elif columns:
            fields.append((name, *_joined(columns, samples, numbers, verify=verify)))
    keys = groups[0].index.keys
    try:
        maps: list[Any] = [file_of(*number) for number in numbers]
        own: Any = keys_of() if rows is None or keys is None else (keys.text, keys.offsets)
        return read_samples(maps, fields, rows, KEY, own)
    except (ExtentError, ValueError, IndexError):
        return None
    except OSError as error:
        if error.errno != errno.EMFILE or len(groups) == 1:
            raise
        return None  # too many files are open at once


def _suits(column: Column | None, elements: Elements, verify: bool) -> bool:
    return column is None or (elements is None and column.plain and (column.crc32 is not None or not verify))


def _joined(
    columns: Sequence[tuple[Group, Column]], samples: int, numbers: dict[tuple[int, int], int], *, verify: bool
) -> tuple[npt.NDArray[np.int32], I64, I64, npt.NDArray[np.uint32] | None]:
    """Return file, offset, length and checksum of the values of one field in several shards."""
    file = np.zeros(samples, np.int32)
    offset, length = np.zeros(samples, np.int64), np.full(samples, MISSING, np.int64)
    crc32 = np.zeros(samples, np.uint32) if verify else None
    for group, column in columns:
        places: Any = slice(None) if group.places is None else group.places
        file[places] = numbers.setdefault((group.number, column.file), len(numbers))
        offset[places], length[places] = column.offset[group.rows], column.length[group.rows]
        if crc32 is not None and column.crc32 is not None:
            crc32[places] = column.crc32[group.rows]
    return file, offset, length, crc32


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


def manifest_path(shards: Sequence[Shard]) -> AnyPath | None:
    """Return the path of the manifest; None if the shards share no folder.

    It is in the sidecar folder of the first shard; for the parts of a run, in that of the folder that contains them.
    """
    if not shards:
        return None
    if all(shard.root == shards[0].root for shard in shards):
        return shards[0].root / shards[0].sidecars / "manifest.json"
    above = above_parts(shards)
    return None if above is None else above / FOLDER / "manifest.json"


def listed_names(shards: Sequence[Shard]) -> list[str]:
    """Return the names of shards in the manifest at `manifest_path`; for parts of a run, with the name of the part."""
    joined = any(shard.root != shards[0].root for shard in shards)
    return [f"{shard.root.name}/{shard.name}" if joined else shard.name for shard in shards]


def listed_labels(manifest: Manifest) -> Labels:
    """Return the names of classes that a manifest has."""
    return {name: tuple(names) for name, names in manifest.labels.items()}


def labels_beside(container: str, shards: Sequence[Shard]) -> Labels:
    """Return the names of classes in the manifest of local shards, or in the file that the original tool keeps."""
    place = manifest_path(shards)
    if place is None:
        return {}
    own: object = get_container(container)
    labels = own.class_names(shards[0].root) if isinstance(own, KeepsNames) else {}
    if isinstance(place, Path):
        labels = {**labels, **load_labels(place, listed_names(shards))}
    return labels


def labels_of(shards: Sequence[OpenShard], fields: Spec) -> Labels:
    """Return the names of classes of a dataset with these shards.

    Args:
        shards: The shards.
        fields: The fields of the dataset.

    Raises:
        SpecError: Two shards give different names to the same number.
    """
    named: dict[int, OpenShard] = {}
    for shard in shards:
        if shard.labels:
            named.setdefault(id(shard.labels), shard)
    return join_labels(((str(shard.path(0)), shard.labels) for shard in named.values()), fields) if named else {}
