"""The files of a dataset; with a manifest, those that it lists, and no others (docs/integrity.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import compress
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from bushel._index.shard import Shard
from bushel._index.sidecar import Manifest, find_manifest, readable_manifest
from bushel._runtime.messages import few, log_warning, warn
from bushel.containers import container_names, get_container, owners_of
from bushel.errors import FormatError, IncompleteWarning
from bushel.storage import AnyPath, is_object, names_in

from .completeness import (
    Incomplete,
    LoadManifest,
    are_parts,
    find_incomplete,
    gone_and_unlisted,
    listed_names,
    lists_others,
    manifest_and_names,
    manifest_of,
    manifest_path,
)
from .discovery import MANY_OBJECTS, find
from .shards import Found

_AT_ONCE = 32  # number of files on a server that are looked for at the same time
_PUT_BACK = (
    "put the files back; or run `bushel index`, after which the dataset "
    "has the remaining samples; or open it with allow_incomplete=True"
)

_WRITE_AGAIN = (
    "run the same `bushel pack` or `bushel convert` again, which "
    "writes them again; or `bushel index`, after which the dataset "
    "has the remaining samples; or open it with allow_incomplete=True"
)
_INDEX_OR_MOVE = "run `bushel index` to add what belongs to the dataset, or move it away"


def discover(
    paths: Sequence[AnyPath],
    container: str | None = None,
    *,
    allow_incomplete: bool = False,
    whole: bool = False,
) -> Found:
    """Return all properties of a dataset that do not need its shards.

    A folder is what its manifest lists, if that is complete.

    Args:
        paths: Files or folders.
        container: Name of the container that they must have; by default, any.
        allow_incomplete: Whether listed shards may be gone.
        whole: Whether a folder of several splits in an object store is refused.

    Raises:
        SpecError: It is such a folder.
        FileNotFoundError: The path of an object store does not exist.
        FormatError: They have no container, or several; or the manifest is damaged; or listed
            shards are gone, and `allow_incomplete` is false.
    """
    loader: AbstractContextManager[LoadManifest] = nullcontext(readable_manifest)
    if is_object(paths[0]):
        from .remote_discovery import manifest_loader

        loader = manifest_loader(paths)
    with loader as load:
        discovered = find(paths, container, whole=whole)
        once = cast("LoadManifest", cache(load))
        return _as_found(paths, discovered, once, allow_incomplete=allow_incomplete)


def _as_found(
    paths: Sequence[AnyPath], found: Found, load: LoadManifest, *, allow_incomplete: bool
) -> Found:
    path, *rest = paths
    local, alone = isinstance(path, Path), bool(found.shards) and not rest
    in_folder = alone and str(found.shards[0].root) == str(path)
    in_parts = alone and are_parts(path, found.shards)
    if in_folder or in_parts:
        place = manifest_and_names(path, found.shards)[0]
        manifest = None if place is None else load(place)
        if lists_others(manifest, found.shards):
            manifest = None
        # what a store or server does not list one by one is what the manifest lists
        if allow_incomplete and is_object(path) and (in_parts or not path.listable):
            found = replace(found, shards=_still_there(found.shards))
        if manifest is None and in_folder and local:
            _report_others(path, found)
        if manifest is not None and manifest.complete and manifest.container == found.container:
            found = _compared(path, found, manifest, allow_incomplete=allow_incomplete)
    manifest = None
    if in_folder or local or len(found.shards) > MANY_OBJECTS:
        manifest = manifest_of(found.container, found.shards, load)
    incomplete = found.incomplete or find_incomplete(paths, found.shards, load)
    return replace(found, manifest=manifest, incomplete=incomplete)


def _report_others(path: AnyPath, found: Found) -> None:
    """Log the files of a folder that other containers would read, if the container of the dataset is only read."""
    reader = get_container(found.container)
    recognised = reader.suffixes or reader.file_names
    if found.container in container_names(written=True) or not recognised:
        return  # a folder of plain files, perhaps a million, reports itself what it leaves out
    kinds = owners_of(set(names_in(path)).difference(*(shard.files for shard in found.shards)))
    unread = [name for owner, names in kinds.items() if owner != found.container for name in names]
    if unread:
        log_warning(
            "%s: read as %s; other files are not read: %s", path, found.container, few(unread)
        )


def _compared(path: AnyPath, found: Found, manifest: Manifest, *, allow_incomplete: bool) -> Found:
    """Return those shards in a folder that its manifest, which is complete, lists; and what differs.

    Raises:
        FormatError: Listed shards are gone, and `allow_incomplete` is false.
    """
    names = manifest_and_names(path, found.shards)[1]
    gone, unlisted = gone_and_unlisted(manifest, names)
    advice = _WRITE_AGAIN if are_parts(path, found.shards) else _PUT_BACK
    if gone and not allow_incomplete:
        raise _gone(gone, path, advice)
    samples = sum(entry.samples for entry in manifest.shards)
    left_out = set(unlisted)
    return replace(
        found,
        shards=[
            shard for shard, name in zip(found.shards, names, strict=True) if name not in left_out
        ],
        incomplete=Incomplete(str(path), samples, advice=advice) if gone else None,
        unlisted=tuple(unlisted),
    )


def warn_unlisted(path: AnyPath, names: Sequence[str]) -> None:
    """Warn the caller of `bushel.open` of files that are not read."""
    warn(
        f"{path}: {_shown(names)} not listed in the manifest, and not read: {_INDEX_OR_MOVE}",
        IncompleteWarning,
    )


def check_as_listed(path: AnyPath, shards: Sequence[Shard], *, unlisted_too: bool) -> None:
    """Check that a folder holds what its manifest lists, before a writer continues it.

    Raises:
        FormatError: It holds something else.
    """
    place = manifest_path(shards)
    manifest = None if place is None else find_manifest(place)
    if manifest is None or not manifest.complete or lists_others(manifest, shards):
        return
    gone, unlisted = gone_and_unlisted(manifest, listed_names(shards))
    if gone:
        raise _gone(
            gone,
            path,
            "put the files back; or run `bushel index`, after "
            "which the dataset has the remaining samples",
        )
    if unlisted and unlisted_too:
        raise FormatError(
            f"{_shown(unlisted)} not listed in the manifest", path, hint=_INDEX_OR_MOVE
        )


def _gone(names: Sequence[str], path: AnyPath, hint: str) -> FormatError:
    return FormatError(f"{_shown(names)} listed in the manifest, but missing", path, hint=hint)


def _still_there(shards: Sequence[Shard]) -> list[Shard]:
    """Return the listed shards whose files exist, on a server that cannot list folders."""
    from bushel._runtime.parallel import map_all

    def is_there(shard: Shard) -> bool:
        return all(path.is_file() for path in shard.paths)

    present = map_all(is_there, shards, threads=_AT_ONCE, name="bushel-find")
    return list(compress(shards, present))


def _shown(names: Sequence[str]) -> str:
    """Return how a sentence about shards begins: `2 shards (a.tar, b.tar) are`."""
    words, be = ("shard", "is") if len(names) == 1 else ("shards", "are")
    return f"{len(names):,} {words} ({few(names)}) {be}"
