"""Erase removed samples: overwrite their bytes in local files, so that no tool reads them any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bushel._dataset.open.completeness import listed_names, manifest_path
from bushel._dataset.open.discovery import expand_paths, find
from bushel._dataset.open.index_place import index_place, indexed_in
from bushel._dataset.open.locking import locked_sources
from bushel._index.removed_rows import BEGUN, ERASED, NONE, PARTLY, RemovedRows, load_removed, save_removed
from bushel._index.saving import save_manifest
from bushel._index.sidecar import ManifestShard, find_manifest
from bushel._index.table import Shard
from bushel._runtime.arrays import U8, Bools
from bushel._runtime.public import public
from bushel.containers import Container, get_container
from bushel.containers.erasing import Erases
from bushel.containers.removed import removed_in
from bushel.errors import UnsupportedError
from bushel.integrity.erase_shard import ErasedShard, erase_in_shard
from bushel.integrity.removing import list_of
from bushel.storage import AnyPath, sync_whole

_OWN = ("auto", "memory", "require")


@public()
@dataclass(frozen=True, slots=True)
class Erasure:
    """The result of `bushel.erase`.

    Attributes:
        samples: Number of samples whose values are all overwritten now.
        partly: Number of samples with values that could not be overwritten.
        bytes: Number of bytes that were overwritten.
        left: Why values could not be overwritten, each with their number.

    Examples:
        >>> removed = bushel.remove("train/", keys=["dog/2"], reason="opt-out")
        >>> done = bushel.erase("train/")
        >>> done.samples, done.partly, done.left
        (1, 0, ())
    """

    samples: int
    partly: int
    bytes: int
    left: tuple[str, ...] = ()


@public()
def erase(source: Any, *, call: int | None = None, index: Any = "auto") -> Erasure:
    """Overwrite the bytes of removed samples in local files. This cannot be taken back.

    The files keep their sizes, and the tools that wrote them still read all other samples (docs/removal.md). The
    index loses all facts about the samples except their keys. If the process is killed, call it again.

    Args:
        source: Anything that `bushel.open` takes, in one local folder.
        call: Number of the call that removed the samples, as `removals` gives it; None for all of them.
        index: As for `remove`.

    Raises:
        IndexError: The call does not exist.
        UnsupportedError: The bytes lie in an object store, or in a container that is only read. The error names the
            command that writes the dataset without them.
        FormatError: Files have changed since they were indexed.
        InUseError: A writer is open for the dataset.
        OSError: A file cannot be written.

    Examples:
        >>> done = bushel.remove("train/", keys=["cat/0"], reason="opt-out")
        >>> bushel.erase("train/", call=0).samples
        1
        >>> bushel.verify("train/").erased
        1
    """
    paths = expand_paths(source)
    claimed = paths if index in _OWN else [*paths, index_place(index)]
    with locked_sources(claimed):
        found = find(paths)
        shards = found.shards if index in _OWN else indexed_in(found.shards, index_place(index))
        place = list_of(shards)
        known = load_removed(place) or NONE
        if call is not None and not 0 <= call < len(known.reasons):
            raise IndexError(f"unknown call {call}: {len(known.reasons)} calls removed samples of this dataset")
        _check(get_container(found.container), shards, str(paths[0]))
        done, written = Counter[str](), Erasure(0, 0, 0)
        if known is not NONE:  # a killed process may have renamed the list, whose name is not on disk then
            sync_whole(place)
        for chosen in _rounds(known, call):
            known = replace(known, erased=np.where(chosen, BEGUN, known.erased).astype(np.uint8))
            save_removed(place, known)
            after, states = _erase(get_container(found.container), shards, place, known)
            _note(shards, after)
            known = replace(known, erased=states)
            save_removed(place, known)
            for each in after:
                done += each.left
            written = Erasure(
                written.samples + sum(int(each.whole.sum()) for each in after),
                written.partly + sum(int((~each.whole).sum()) for each in after),
                written.bytes + sum(each.bytes for each in after),
            )
    return replace(written, left=tuple(f"{count:,} values: {why}" for why, count in done.items()))


def _check(container: Container, shards: Sequence[Shard], source: str) -> None:
    instead = f"`bushel convert {source} NEW` writes the dataset without the removed samples; delete the old one then"
    if any(not isinstance(shard.root, Path) for shard in shards):
        raise UnsupportedError(f"bytes in an object store cannot be overwritten: {instead}")
    if not isinstance(container, Erases):
        raise UnsupportedError(f"Bushel does not write {container.name}, so it cannot erase samples there: {instead}")


def _rounds(known: RemovedRows, call: int | None) -> Iterator[Bools]:
    """Yield which entries are erased together: what a killed process has begun comes first."""
    begun = known.erased == BEGUN
    if begun.any():
        yield begun
    rest = (known.erased == 0) | (known.erased == PARTLY)
    if call is not None:
        rest &= known.calls == call
    if rest.any():
        yield rest


def _erase(
    container: Container, shards: Sequence[Shard], place: AnyPath, known: RemovedRows
) -> tuple[list[ErasedShard], U8]:
    """Erase the samples whose entries say that it has begun."""
    states, after = known.erased.copy(), []
    number_of = {name: number for number, name in enumerate(known.shards)}
    for shard in shards:
        name = next(name for path, name in shard.removal_lists if path == place)
        if name not in number_of or not isinstance(container, Erases):
            continue
        own = slice(int(known.starts[number_of[name]]), int(known.starts[number_of[name] + 1]))
        entries = own.start + np.flatnonzero(known.erased[own] == BEGUN)
        removed = removed_in(shard, {str(place): (place, known)})
        if not len(entries) or removed is None:
            continue
        samples = known.rows[entries].astype(np.int64)
        done = erase_in_shard(container, container.eraser, shard, samples, removed.check)
        states[entries] = np.where(done.whole, ERASED, PARTLY)
        after.append(done)
    return after, states


def _note(shards: Sequence[Shard], done: Sequence[ErasedShard]) -> None:
    """Write the times and stamps of the files into the manifests, and remove empty folders."""
    groups = {str(each.shard.root): [one for one in shards if one.root == each.shard.root] for each in done}
    for group in (shards, *groups.values()):
        path = manifest_path(group)
        manifest = None if path is None else find_manifest(path)
        if path is None or manifest is None:
            continue
        names = dict(zip(map(id, group), listed_names(group), strict=True))
        now = {names[id(each.shard)]: each.index for each in done if id(each.shard) in names}
        entries = [
            msgspec.structs.replace(entry, files=new.files, stamps=new.stamps)
            if entry.name in now and (new := ManifestShard.of(entry.name, now[entry.name]))
            else entry
            for entry in manifest.shards
        ]
        if entries != manifest.shards:
            save_manifest(msgspec.structs.replace(manifest, shards=entries), path)
    for folder in {each.shard.sidecar.parent / "erasing" for each in done}:
        with suppress(OSError):  # another run may have left something
            Path(str(folder)).rmdir()
