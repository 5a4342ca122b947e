"""Erase removed samples: the shards that hold them are written again without them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.completeness import listed_names, manifest_path
from bushel._dataset.open.discovery import expand_paths, find
from bushel._dataset.open.index_place import index_place, indexed_in
from bushel._dataset.open.locking import locked_sources
from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._dataset.open.shards import open_shards
from bushel._dataset.read.remaining import remaining_in
from bushel._dataset.read.shards import OpenShard
from bushel._index.removal_list import EMPTY
from bushel._index.saving import save_manifest
from bushel._index.sidecar import ManifestShard, find_manifest
from bushel._runtime.public import public
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.containers.registry import read_only_ending
from bushel.errors import UnsupportedError
from bushel.integrity.erase_shard import ShardRewrite, complete_rewrites
from bushel.storage import AnyPath

_OWN = ("auto", "memory", "require")


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class Erasure:
    """The result of `bushel.erase`.

    Attributes:
        samples: Number of samples that the files do not hold any more.
        shards: Number of shards that were written again.
        bytes: Number of bytes by which their files became smaller.
        left: Names of files that still hold the bytes: hard links to the old files.

    Examples:
        >>> removed = bushel.remove("train/", keys=["dog/2"], reason="opt-out")
        >>> done = bushel.erase("train/")
        >>> done.samples, done.shards, done.left
        (1, 1, ())
    """

    samples: int
    shards: int
    bytes: int
    left: tuple[str, ...] = ()


@public()
def erase(source: Any, *, call: str | None = None, index: Any = "auto") -> Erasure:
    """Write the shards that hold removed samples again without them. This cannot be taken back.

    Each new shard takes the place of the old one in one step; readers that have that open continue
    with it. All other samples keep their bytes, keys and order (docs/removal.md). If the process is
    killed, call it again.

    Args:
        source: Anything that `bushel.open` takes, in local folders.
        call: The id of the call that removed the samples, as `removals` gives it; None for all of
            them.
        index: As for `remove`.

    Raises:
        KeyError: The call does not exist.
        UnsupportedError: The samples lie in an object store, or in a container that is only read.
            The error names the command that writes the dataset without them.
        FormatError: A sample that stays is damaged.
        InUseError: A writer is open for the dataset.
        OSError: A file cannot be written, or the disk has too little space for the largest of the
            shards.

    Examples:
        >>> done = bushel.remove("train/", keys=["cat/0"], reason="opt-out")
        >>> bushel.erase("train/", call=done.call).samples
        1
        >>> bushel.verify("train/").samples
        11
    """
    paths = expand_paths(source)
    locked = paths if index in _OWN else [*paths, index_place(index)]
    with locked_sources(locked):
        complete_rewrites(find(paths).shards)
        opened = _opened(paths, index)
        lists = _chosen(lists_beside([one.shard for one in opened]), call)
        remaining = remaining_in(opened, lists)
        gone = np.zeros(0, np.int64) if remaining is None else remaining.removed
        starts = np.cumsum([0, *(one.samples for one in opened)])
        numbers = np.searchsorted(starts, gone, side="right") - 1
        rewrites = []
        for number in np.unique(numbers).tolist():
            _check(opened[number], str(paths[0]))
            rows = np.arange(opened[number].samples, dtype=np.int64)
            stay = np.delete(rows, gone[numbers == number] - starts[number])
            rewrites.append(ShardRewrite(opened[number], stay, list(_manifests_of(opened, number))))
        _check_space(rewrites, opened[0].shard.root)
        left = [name for rewrite in rewrites for name in rewrite.linked]
        before = sum(rewrite.size for rewrite in rewrites)
        for rewrite in rewrites:
            rewrite.run()
        _update_manifests(paths, index)
        after = sum(rewrite.size_now for rewrite in rewrites)
    return Erasure(len(gone), len(rewrites), before - after, tuple(left))


def _opened(paths: Sequence[Any], index: Any) -> list[OpenShard]:
    found = find(paths)
    shards = found.shards if index in _OWN else indexed_in(found.shards, index_place(index))
    return open_shards(found.container, shards, ReadOptions(checksums=True))


def _chosen(lists: Sequence[PlacedList], call: str | None) -> Sequence[PlacedList]:
    """Return lists with only this call; None for all calls. Raise KeyError if no list has it."""
    if call is None:
        return lists
    found = [
        PlacedList(placed.path, EMPTY.with_call(one, placed.removed.names_of(call)), placed.file)
        for placed in lists
        for one in placed.removed.calls
        if one.id == call
    ]
    if not found:
        raise KeyError(
            f"no call {call!r} is in force: `bushel remove --list` prints those that are"
        )
    return found


def _check(opened: OpenShard, source: str) -> None:
    """Raise UnsupportedError if a shard cannot be written again."""
    container = get_container(opened.container)
    instead = (
        f"`bushel convert {source} NEW` writes the dataset without the removed samples;"
        " delete the old one then"
    )
    if not isinstance(opened.shard.root, Path):
        raise UnsupportedError(f"samples in an object store cannot be erased: {instead}")
    if not container.is_written or read_only_ending(opened.shard.name, container) is not None:
        kind = opened.shard.name or opened.container
        raise UnsupportedError(
            f"Bushel only reads {kind}, so it cannot erase samples there: {instead}"
        )


def _check_space(rewrites: Sequence[ShardRewrite], root: Any) -> None:
    """Raise OSError if the largest new shard does not fit on the disk beside the old one."""
    needed = max((rewrite.size for rewrite in rewrites), default=0)
    if needed:
        stat = os.statvfs(root)
        if stat.f_bavail * stat.f_frsize < needed:
            raise OSError(
                28,
                (
                    f"erasing writes a new shard of up to {needed:,} bytes, which does not fit on"
                    " the disk"
                ),
                root,
            )


def _manifests_of(opened: Sequence[OpenShard], number: int) -> Iterator[tuple[AnyPath, str]]:
    """Yield the manifests that may list a shard: of the dataset, and of its part of a run; with its name there."""
    beside = [one for one in opened if one.shard.root == opened[number].shard.root]
    for group in (opened, beside) if len(beside) < len(opened) else (opened,):
        shards = [one.shard for one in group]
        if (path := manifest_path(shards)) is not None:
            names = listed_names(shards)
            yield path, names[next(at for at, one in enumerate(group) if one is opened[number])]


def _update_manifests(paths: Sequence[Any], index: Any) -> None:
    """Write what the files are now into the manifests that list them."""
    opened = _opened(paths, index)
    roots = {
        str(one.shard.root): [each for each in opened if each.shard.root == one.shard.root]
        for one in opened
    }
    for group in (opened, *roots.values()):
        path = manifest_path([one.shard for one in group])
        manifest = None if path is None else find_manifest(path)
        if manifest is None or path is None:
            continue
        tables = {
            name: one.index
            for name, one in zip(listed_names([one.shard for one in group]), group, strict=True)
        }
        entries = [
            ManifestShard.of(entry.name, tables[entry.name]) if entry.name in tables else entry
            for entry in manifest.shards
        ]
        if entries != manifest.shards:
            save_manifest(replace(manifest, shards=entries), path)
