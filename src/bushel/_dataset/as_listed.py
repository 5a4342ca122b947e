"""The shards of a dataset with a manifest: those that the manifest lists, and no others (docs/integrity.md)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from bushel._dataset.discovery import Incomplete
from bushel._dataset.shards import listed_names, manifest_path
from bushel._index.sidecar import Manifest, load_manifest
from bushel.containers.base import Shard
from bushel.errors import FormatError, IncompleteWarning
from bushel.storage import AnyPath

__all__ = ["as_listed"]

_SHOWN = 3
_PUT_BACK = (
    "put the files back; or run `bushel index`, after which the dataset is what is left; or open it with partial=True"
)


def as_listed(
    paths: Sequence[AnyPath], container: str, shards: list[Shard], *, partial: bool
) -> tuple[list[Shard], Incomplete | None]:
    """Return the shards that the manifest of a local folder lists, and what is missing.

    Without a complete manifest, these are all shards.

    Args:
        paths: What was opened. A file, a pattern or a list of these is read as it is.
        container: Name of the container.
        shards: The shards that are there.
        partial: Whether to go on if listed shards are gone.

    Raises:
        FormatError: Listed shards are gone, and `partial` is false.
    """
    manifest = _manifest(paths, shards)
    if manifest is None or not manifest.complete or manifest.container != container:
        return shards, None
    names = listed_names(shards)
    listed, there = {entry.name for entry in manifest.shards}, set(names)
    missing = None
    if gone := [entry.name for entry in manifest.shards if entry.name not in there]:
        if not partial:
            raise FormatError(
                f"{_shown(gone)} {_be(gone)} listed in the manifest, and gone", file=str(paths[0]), hint=_PUT_BACK
            )
        missing = Incomplete(str(paths[0]), sum(entry.samples for entry in manifest.shards), advice=_PUT_BACK)
    if unlisted := [name for name in names if name not in listed]:
        warnings.warn(
            f"{paths[0]}: {_shown(unlisted)} {_be(unlisted)} not listed in the manifest, and not read: run "
            "`bushel index` to add what belongs to the dataset, or move it away",
            IncompleteWarning,
            stacklevel=3,
        )
    return [shard for shard, name in zip(shards, names, strict=True) if name in listed], missing


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _manifest(paths: Sequence[AnyPath], shards: Sequence[Shard]) -> Manifest | None:
    if len(paths) != 1 or not isinstance(paths[0], Path) or not shards or str(shards[0].root) != str(paths[0]):
        return None  # of the parts of a run, `find_incomplete` says which are missing
    place = manifest_path(shards)
    if place is None:
        return None
    try:
        return load_manifest(place)
    except (OSError, FormatError):  # `verify` reports a damaged manifest
        return None


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{len(names):,} shard{'' if len(names) == 1 else 's'} ({', '.join(names[:_SHOWN])}{more})"
