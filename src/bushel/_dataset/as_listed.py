"""The shards of a dataset with a manifest: those that the manifest lists, and no others (docs/integrity.md)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bushel._dataset.discovery import Incomplete, incomplete_finder, marker_path
from bushel._dataset.folders import is_part
from bushel._dataset.shards import listed_names, manifest_path
from bushel._index.sidecar import Manifest, load_manifest
from bushel.containers import is_data_file
from bushel.containers.base import Shard
from bushel.errors import FormatError, IncompleteWarning
from bushel.storage import AnyPath, is_object

__all__ = ["Listed", "as_listed", "check_as_listed", "manifest_and_names", "manifest_loader"]

_SHOWN = 3
_AT_ONCE = 32
"""Number of files on a server that are looked for at the same time."""
_PUT_BACK = (
    "put the files back; or run `bushel index`, after which the dataset is what is left; or open it with partial=True"
)

_WRITE_AGAIN = (
    "run the same `bushel pack` or `bushel convert` again, which writes them again; or `bushel index`, after which the "
    "dataset is what is left; or open it with partial=True"
)
_INDEX_OR_MOVE = "run `bushel index` to add what belongs to the dataset, or move it away"

LoadManifest = Callable[[AnyPath], Manifest | None]
"""Returns the manifest at a path; None if the file does not exist or is damaged, which `verify` reports."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The shards of a dataset.

    Attributes:
        shards: Those that are listed and there.
        missing: What is missing, if listed shards are gone.
        looked: Whether this is a folder whose manifest was looked for, so that `manifest` says what it holds.
        manifest: The manifest of the folder, if it has one.
    """

    shards: list[Shard]
    missing: Incomplete | None = None
    looked: bool = False
    manifest: Manifest | None = None

    def begin_find_incomplete(self, paths: Sequence[AnyPath]) -> Callable[[], Incomplete | None]:
        """Start to look whether the dataset is complete, and return a function that waits for the result."""
        if not self.looked or not is_object(paths[0]):
            return incomplete_finder(paths, self.shards)
        manifest = self.manifest
        if manifest is None or manifest.complete:
            return lambda: None
        return lambda: Incomplete(str(paths[0]), manifest.expected)


def manifest_loader(paths: Sequence[AnyPath]) -> LoadManifest:
    """Return a function that loads the manifest. That of a remote folder is requested now, in another thread.

    So it is there when the folder has been listed.
    """
    if len(paths) != 1 or not is_object(paths[0]) or not paths[0].listable or is_data_file(paths[0].name):
        return _load
    from bushel._runtime.parallel import Result, Threads

    begun = marker_path(paths[0], "")
    threads = Threads(1, "bushel-manifest")
    result: Result[Manifest | None] = Result()

    def work() -> None:
        try:
            result.set(_load(begun))
        except BaseException as error:
            result.fail(error)

    def load(place: AnyPath) -> Manifest | None:
        return result.get() if place == begun else _load(place)

    threads.submit(work)
    threads.close()
    return load


def _load(place: AnyPath) -> Manifest | None:
    try:
        return load_manifest(place)
    except (PermissionError, FormatError):  # some buckets refuse what does not exist
        return None
    except OSError:
        if is_object(place):  # the store cannot be reached
            raise
        return None


def as_listed(
    paths: Sequence[AnyPath], container: str, shards: list[Shard], load: LoadManifest, *, partial: bool
) -> Listed:
    """Return the shards that the manifest of a folder lists, and what is missing.

    Without a complete manifest, these are all shards.

    Args:
        paths: What was opened. A file, a pattern or a list of these is read as it is.
        container: Name of the container.
        shards: The shards that are there.
        load: Loads the manifest.
        partial: Whether to go on if listed shards are gone.

    Raises:
        FormatError: Listed shards are gone, and `partial` is false.
    """
    if len(paths) != 1 or not shards or not _is_folder_of(paths[0], shards):
        return Listed(shards)
    if is_object(paths[0]) and not paths[0].listable:  # these shards are those of the manifest
        there_now = _still_there(shards) if partial else shards
        known = len(there_now) == len(shards)
        return Listed(there_now, None if known else Incomplete(str(paths[0]), advice=_PUT_BACK))
    if partial and is_object(paths[0]) and _are_parts(paths[0], shards):  # the parts are not listed one by one
        shards = _still_there(shards)
    place, names = manifest_and_names(paths[0], shards)
    manifest = None if place is None else load(place)
    if manifest is None or not manifest.complete or manifest.container != container:
        return Listed(shards, None, str(shards[0].root) == str(paths[0]), manifest)
    gone, unlisted = _differences(manifest, names)
    missing = None
    if gone:
        advice = _WRITE_AGAIN if _are_parts(paths[0], shards) else _PUT_BACK
        if not partial:
            raise _gone(gone, paths[0], advice)
        missing = Incomplete(str(paths[0]), sum(entry.samples for entry in manifest.shards), advice=advice)
    if unlisted:
        warnings.warn(
            f"{paths[0]}: {_shown(unlisted)} {_be(unlisted)} not listed in the manifest, and not read: "
            f"{_INDEX_OR_MOVE}",
            IncompleteWarning,
            stacklevel=3,
        )
    other = set(unlisted)
    kept = [shard for shard, name in zip(shards, names, strict=True) if name not in other]
    return Listed(kept, missing, True, manifest)


def manifest_and_names(path: AnyPath, shards: Sequence[Shard]) -> tuple[AnyPath | None, list[str]]:
    """Return the path of the manifest of a folder, and the names that it has for these shards.

    In the manifest above the parts of a run, they begin with the name of the part, also if only one part is there.
    """
    if _are_parts(path, shards):
        return marker_path(path, ""), [f"{shard.root.name}/{shard.name}" for shard in shards]
    return manifest_path(shards), listed_names(shards)


def _is_folder_of(path: AnyPath, shards: Sequence[Shard]) -> bool:
    return str(shards[0].root) == str(path) or _are_parts(path, shards)


def _are_parts(path: AnyPath, shards: Sequence[Shard]) -> bool:
    """Return whether these shards are in parts of a run in a folder."""
    if shards[:1] and str(shards[0].root) == str(path):
        return False
    roots = {id(shard.root): shard.root for shard in shards}.values()
    return all(is_part(root.name) and str(root.parent) == str(path) for root in roots)


def check_as_listed(path: AnyPath, shards: Sequence[Shard], *, unlisted_too: bool) -> None:
    """Check that a folder holds what its manifest lists, before a writer continues it.

    Args:
        path: The folder.
        shards: The shards that are there.
        unlisted_too: Whether to refuse shards that are not listed.

    Raises:
        FormatError: It holds something else.
    """
    place = manifest_path(shards)
    manifest = None if place is None else _load(place)
    if manifest is None or not manifest.complete:
        return
    gone, unlisted = _differences(manifest, listed_names(shards))
    if gone:
        raise _gone(gone, path, "put the files back; or run `bushel index`, after which the dataset is what is left")
    if unlisted and unlisted_too:
        message = f"{_shown(unlisted)} {_be(unlisted)} not listed in the manifest"
        raise FormatError(message, file=str(path), hint=_INDEX_OR_MOVE)


def _differences(manifest: Manifest, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of listed shards that are gone, and of shards that are not listed."""
    listed, there = {entry.name: None for entry in manifest.shards}, set(names)
    return [name for name in listed if name not in there], [name for name in names if name not in listed]


def _gone(names: Sequence[str], path: AnyPath, hint: str) -> FormatError:
    return FormatError(f"{_shown(names)} {_be(names)} listed in the manifest, and gone", file=str(path), hint=hint)


def _still_there(shards: Sequence[Shard]) -> list[Shard]:
    from bushel._runtime.parallel import parallel_map

    def is_there(shard: Shard) -> bool:
        return all(shard.path(number).is_file() for number in range(len(shard.files)))

    found = parallel_map(is_there, shards, workers=_AT_ONCE, limit=len(shards), name="bushel-find")
    return [shard for shard, there in zip(shards, found, strict=True) if there]


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{len(names):,} shard{'' if len(names) == 1 else 's'} ({', '.join(names[:_SHOWN])}{more})"
