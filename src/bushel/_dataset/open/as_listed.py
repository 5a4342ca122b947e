"""The shards of a dataset with a manifest: those that the manifest lists, and no others (docs/integrity.md)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from bushel._dataset.open.completeness import (
    Incomplete,
    are_parts,
    listed_names,
    manifest_and_names,
    manifest_path,
)
from bushel._dataset.open.folders import few
from bushel._index.sidecar import Manifest, find_manifest
from bushel._index.table import Shard
from bushel.errors import FormatError, IncompleteWarning
from bushel.storage import AnyPath

_AT_ONCE = 32  # number of files on a server that are looked for at the same time
_PUT_BACK = (
    "put the files back; or run `bushel index`, after which the dataset has the remaining"
    " samples; or open it with "
    "allow_incomplete=True"
)

_WRITE_AGAIN = (
    "run the same `bushel pack` or `bushel convert` again, which writes them again; or `bushel"
    " index`, after which the "
    "dataset has the remaining samples; or open it with allow_incomplete=True"
)
_INDEX_OR_MOVE = "run `bushel index` to add what belongs to the dataset, or move it away"


def compared(
    path: AnyPath, shards: list[Shard], manifest: Manifest, *, allow_incomplete: bool
) -> tuple[list[Shard], Incomplete | None, tuple[str, ...]]:
    """Compare the shards in a folder with its manifest, which is complete.

    With `partial`, listed shards may be missing.

    Returns:
        The listed shards that exist, the missing part, and the names of shards that are not listed.

    Raises:
        FormatError: Listed shards are gone, and `partial` is false.
    """
    names = manifest_and_names(path, shards)[1]
    gone, unlisted = _differences(manifest, names)
    advice = _WRITE_AGAIN if are_parts(path, shards) else _PUT_BACK
    if gone and not allow_incomplete:
        raise _gone(gone, path, advice)
    samples = sum(entry.samples for entry in manifest.shards)
    missing = Incomplete(str(path), samples, advice=advice) if gone else None
    other = set(unlisted)
    return (
        [shard for shard, name in zip(shards, names, strict=True) if name not in other],
        missing,
        tuple(unlisted),
    )


def warn_unlisted(path: AnyPath, names: Sequence[str]) -> None:
    """Warn the caller of `bushel.open` of files that are not read."""
    warnings.warn(
        (
            f"{path}: {_shown(names)} {_be(names)} not listed in the manifest, and not read:"
            f" {_INDEX_OR_MOVE}"
        ),
        IncompleteWarning,
        stacklevel=4,
    )


def check_as_listed(path: AnyPath, shards: Sequence[Shard], *, unlisted_too: bool) -> None:
    """Check that a folder holds what its manifest lists, before a writer continues it.

    Raises:
        FormatError: It holds something else.
    """
    place = manifest_path(shards)
    manifest = None if place is None else find_manifest(place)
    if manifest is None or not manifest.complete:
        return
    gone, unlisted = _differences(manifest, listed_names(shards))
    if gone:
        raise _gone(
            gone,
            path,
            (
                "put the files back; or run `bushel index`, after which the dataset has"
                " the remaining samples"
            ),
        )
    if unlisted and unlisted_too:
        message = f"{_shown(unlisted)} {_be(unlisted)} not listed in the manifest"
        raise FormatError(message, file=str(path), hint=_INDEX_OR_MOVE)


def _differences(manifest: Manifest, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of listed shards that are gone, and of shards that are not listed."""
    listed, present = {entry.name: None for entry in manifest.shards}, set(names)
    return [name for name in listed if name not in present], [
        name for name in names if name not in listed
    ]


def _gone(names: Sequence[str], path: AnyPath, hint: str) -> FormatError:
    return FormatError(
        f"{_shown(names)} {_be(names)} listed in the manifest, but missing",
        file=str(path),
        hint=hint,
    )


def still_there(shards: Sequence[Shard]) -> list[Shard]:
    """Return the listed shards whose files exist, on a server that cannot list folders."""
    from bushel._runtime.parallel import parallel_map

    def is_there(shard: Shard) -> bool:
        return all(shard.path(number).is_file() for number in range(len(shard.files)))

    present = parallel_map(
        is_there, shards, threads=_AT_ONCE, limit=len(shards), name="bushel-find"
    )
    return [shard for shard, exists in zip(shards, present, strict=True) if exists]


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _shown(names: Sequence[str]) -> str:
    return f"{len(names):,} shard{'' if len(names) == 1 else 's'} ({few(names)})"
