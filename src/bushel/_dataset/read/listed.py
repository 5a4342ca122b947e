"""The lists of a folder's shards: the manifest, and the list of shards by which large datasets open.

Lists of removed samples are requested from a store here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType, structs

from bushel._dataset.open.caller_fields import CallerFields
from bushel._dataset.open.completeness import is_staged, listed_names, manifest_path
from bushel._dataset.open.remote_discovery import ListedFiles
from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._index.headers import PartOfRun
from bushel._index.identity import manifest_of_tables
from bushel._index.names import join_labels
from bushel._index.saving import save_manifest
from bushel._index.shard import FOLDER, Shard, Strings, sizes_of
from bushel._index.shard_list import (
    KEYED,
    NAME,
    SUMMED,
    FolderState,
    ShardList,
    load_shard_list,
    save_shard_list,
)
from bushel._index.sidecar import Manifest
from bushel._runtime.arrays import offsets_of
from bushel._runtime.messages import log_info
from bushel._runtime.threads import Result, Threads
from bushel.spec import parse_spec
from bushel.storage import AnyPath

from .shards import Listing, OpenShard, samples_of

_MANY = 1000  # a list of shards is kept for datasets of more shards than this
_HELD = 4096  # number of shards whose tables stay mapped; a process may have some 65,000 mappings
_SETTLED_NS = 2_000_000_000
"""Age of a modification time from which a later change is sure to have another time: file system clocks have steps."""


class RequestedLists:
    """The lists of removed samples of shards, which a thread requests from now on.

    They are as they were after the files were listed: `listed` are the files as the store has
    listed them. A table that describes other files may be newer than the lists.
    """

    def __init__(self, shards: Sequence[Shard], listed: ListedFiles) -> None:
        self._shards, self._listed = shards, listed
        self._result = Result[Sequence[PlacedList]]()
        self._threads = Threads(1, "bushel-removed")
        self._threads.submit(self._load)

    def _load(self) -> None:
        # an error is raised where the lists are taken
        self._result.set_by(partial(lists_beside, self._shards))
        # this thread ends with its only work, also if nobody takes the lists
        self._threads.close(wait=False)

    def of(self, shards: Sequence[OpenShard]) -> Sequence[PlacedList] | None:
        """Return the lists; None if a table describes another file than the listed one, so they may be too old.

        Raises:
            FormatError: A list is damaged.
            OSError: The store refuses, or cannot be reached.
        """
        if not all(self._listed.have(shard.shard.files, shard.stamps) for shard in shards):
            return None
        return self._result.get()


class ListedShards(Listing):
    """The shards of a folder as its list of shards lists them. Each is made when it is asked for."""

    def __init__(self, root: Path, listed: ShardList) -> None:
        self.root, self.listed = root, listed
        self._fields = tuple(listed.spec.values())
        self._shard = lru_cache(maxsize=_HELD)(self._make)

    def __reduce__(self) -> tuple[Any, ...]:
        return ListedShards, (self.root, self.listed)

    def __len__(self) -> int:
        return len(self.listed)

    def _made(self, numbers: range) -> list[OpenShard]:
        return list(map(self._shard, numbers))

    def _make(self, number: int) -> OpenShard:
        table = self.listed
        stamps, flags = table.stamps(number), int(table.flags[number])
        shard = Shard(
            self.root, table.names[number], tuple(stamp.name for stamp in stamps), table.sidecars
        )
        recorded = (
            int(table.samples[number]),
            stamps,
            bool(flags & KEYED),
            bool(flags & SUMMED),
            self._fields,
        )
        return OpenShard(
            table.container, shard, *recorded, True, table.labels, recorded=table.digest(number)
        )


def as_listed(
    container: str, shards: Sequence[Shard], manifest: Manifest, asked: CallerFields
) -> list[OpenShard]:
    """Return shards with the facts in the manifest. Each is compared with its files when it is first read."""
    fields = tuple(map(asked.field, parse_spec(manifest.spec).values()))
    entries, labels = {entry.name: entry for entry in manifest.shards}, manifest.labels
    opened = []
    for shard, name in zip(shards, listed_names(shards), strict=True):
        entry = entries[name]
        facts = (entry.samples, entry.recorded, entry.keyed, entry.checksums, fields, True, labels)
        opened.append(OpenShard(container, shard, *facts, asked=asked, recorded=entry.digest))
    return opened


def open_listed(root: AnyPath, container: str | None, state: FolderState) -> ListedShards | None:
    """Return the shards of a complete dataset by its list of shards; None if it has none that fits."""
    if not isinstance(root, Path) or is_staged(root, ""):
        return None
    table = load_shard_list(root / FOLDER / NAME, state)
    if table is None or container not in (None, table.container):
        return None
    return ListedShards(root, table)


def keep_list(root: AnyPath, shards: Sequence[OpenShard], state: FolderState) -> None:
    """Store the list of shards that the manifest lists, if the folder did not change a moment ago.

    Args:
        root: The dataset's folder.
        shards: Its shards, in order. None of them is stored if one is not as the manifest lists it.
        state: The state of the folder before its shards were looked for.
    """
    settled = max(state.folder_ns, state.manifest_ns) < time.time_ns() - _SETTLED_NS
    if (
        len(shards) <= _MANY
        or not isinstance(root, Path)
        or not settled
        or not _are_listed(root, shards)
    ):
        return
    starts = offsets_of(len(shard.stamps) for shard in shards)
    stamps = [stamp for shard in shards for stamp in shard.stamps]
    table = ShardList(
        shards[0].container,
        {field.name: field for field in shards[0].fields},
        shards[0].labels,
        shards[0].shard.sidecars,
        Strings.of([shard.shard.name for shard in shards]),
        samples_of(shards),
        np.array([KEYED * shard.keyed + SUMMED * shard.checksums for shard in shards], np.uint8),
        starts,
        Strings.of([stamp.name for stamp in stamps]),
        sizes_of(stamps),
        np.array([stamp.mtime_ns for stamp in stamps], np.int64),
        np.array([-1 if stamp.crc32 is None else stamp.crc32 for stamp in stamps], np.int64),
        np.frombuffer(bytes.fromhex("".join(shard.digest for shard in shards)), np.uint8),
    )
    try:
        save_shard_list(table, state, root / FOLDER / NAME)
    except OSError as error:
        log_info("%s: the list of shards is not stored: %s", root, error)


def _are_listed(root: Path, shards: Sequence[OpenShard]) -> bool:
    """Return whether these shards were opened by the manifest of one folder, with one folder of sidecars."""
    first = shards[0]
    return (
        all(
            shard.shard.root is first.shard.root
            and shard.shard.sidecars == first.shard.sidecars
            and shard.fields is first.fields
            and shard.labels is first.labels
            and shard.damage is None
            and shard.shard.alias is None
            and not shard.loaded
            and tuple(stamp.name for stamp in shard.stamps) == shard.shard.files
            for shard in shards
        )
        and first.shard.root == root
    )


def write_manifest(
    shards: Sequence[OpenShard],
    path: AnyPath | None = None,
    *,
    others: Manifest | None = None,
    part: PartOfRun | UnsetType = UNSET,
    sync: bool = True,
) -> AnyPath | None:
    """Write the manifest of a complete dataset and return its path; None if the shards share no folder.

    Args:
        shards: The shards.
        path: Path for the manifest; by default, where readers of the shards look for it.
        others: The manifest before: its other shards stay listed, and it stays incomplete if it is.
        part: The note of a complete part of a run.
        sync: Whether to wait until it is on disk.
    """
    path = path or manifest_path([opened.shard for opened in shards])
    if path is None:
        return None
    names = listed_names([opened.shard for opened in shards])
    manifest = manifest_of_tables(shards[0].container, names, [opened.index for opened in shards])
    fields = parse_spec(manifest.spec)
    named = [(str(opened.path(0)), opened.labels) for opened in shards if opened.labels]
    labels = join_labels(named, fields)
    if others is None:
        manifest = structs.replace(manifest, labels=labels, part=part)
    else:
        new = {entry.name: entry for entry in manifest.shards}
        listed = [new.pop(entry.name, entry) for entry in others.shards]
        manifest = structs.replace(
            others,
            shards=[*listed, *new.values()],
            spec=others.spec | manifest.spec,
            codecs=others.codecs | manifest.codecs,
            labels={**others.labels, **labels},
        )
    save_manifest(manifest, path, sync=sync)
    return path
