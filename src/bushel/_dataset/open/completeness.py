"""What a dataset lacks: shards that its writer has not finished, and samples of shards with a damaged structure.

Manifests tell the first; of damaged shards, the samples that can be read are found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import Manifest, find_manifest
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import Bools
from bushel._runtime.messages import few, warn
from bushel._runtime.public import command
from bushel.containers.base import ReadOptions
from bushel.containers.registry import recovery_of
from bushel.errors import CorruptError, DamagedWarning, FormatError, IncompleteWarning, SpecError
from bushel.spec import Spec
from bushel.storage import AnyPath, below, is_local

from .folders import above_parts, are_parts, is_half_replaced, is_part, place_of, run_folder

if TYPE_CHECKING:
    from bushel.containers.recovery import Fault, Recovered

HOW_TO_COMPLETE = (
    "continue the run that wrote it with mode='resume', or start it again with mode='overwrite'"
)
"""Advice about an incomplete dataset."""

_MANY = 1000  # if there are at least this many files, only the manifest of their folder is read
LoadManifest = Callable[[AnyPath], Manifest | None]
"""Returns the manifest at a path, as `find_manifest` does."""


class Incomplete(Struct, frozen=True):
    """A dataset whose writer has not finished."""

    path: str  # path of the dataset, or of its part that is incomplete
    expected: int | None = None  # number of samples that it should have, if known
    # names of the parts that do not exist, if it was packed in parts
    missing_parts: tuple[str, ...] = ()
    advice: str = HOW_TO_COMPLETE  # how to complete it

    def describe(self, samples: int) -> str:
        """Return the state in words, such as `40 of 100 samples are there`."""
        if self.missing_parts:
            return f"{samples:,} samples are there, and the parts {few(self.missing_parts)} are missing"
        if self.expected:
            return f"{samples:,} of {self.expected:,} samples are there"
        return f"{samples:,} samples are there"


def marker_path(root: AnyPath, name: str) -> AnyPath:
    """Return the path of the manifest of an incomplete dataset.

    Args:
        root: Folder that is or contains the dataset.
        name: Name of the dataset's one file, or empty if the dataset is the folder.
    """
    return root / f"{FOLDER}/{f'{name}.' if name else ''}manifest.json"


def manifest_path(shards: Sequence[Shard]) -> AnyPath | None:
    """Return the path of the manifest; None if the shards share no folder.

    It is in the sidecar folder of the first shard; for the parts of a run, of the folder that
    contains them.
    """
    if not shards:
        return None
    first = shards[0]
    if all(shard.root == first.root for shard in shards):
        folder = first.shared if first.name.isdecimal() else first.sidecars
        return below(first.beside, f"{folder}/manifest.json", any_text=True)
    above = above_parts(shards)
    if above is None:
        return None
    return marker_path(above, "")


def listed_names(shards: Sequence[Shard]) -> list[str]:
    """Return the names of shards in the manifest at `manifest_path`; for parts of a run, with the name of the part."""
    joined = any(shard.root != shards[0].root for shard in shards)
    return [f"{shard.root.name}/{shard.name}" if joined else shard.name for shard in shards]


def manifest_and_names(path: AnyPath, shards: Sequence[Shard]) -> tuple[AnyPath | None, list[str]]:
    """Return the path of the manifest of a folder, and the names that it has for these shards.

    In the manifest above the parts of a run, they begin with the name of the part, also if only one
    part is there.
    """
    if are_parts(path, shards):
        return marker_path(path, ""), [f"{shard.root.name}/{shard.name}" for shard in shards]
    return manifest_path(shards), listed_names(shards)


def lists_all(manifest: Manifest, container: str, shards: Sequence[Shard]) -> bool:
    """Return whether a manifest is of this container and lists all of these shards."""
    listed = {entry.name for entry in manifest.shards}
    return manifest.container == container and listed.issuperset(listed_names(shards))


def manifest_of(
    container: str, shards: Sequence[Shard], load: LoadManifest = find_manifest
) -> Manifest | None:
    """Return the manifest that lists all of these shards, if there is one."""
    place = manifest_path(shards)
    manifest = None if place is None else load(place)
    if manifest is not None and lists_all(manifest, container, shards):
        return manifest
    return None


def gone_and_unlisted(manifest: Manifest, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of listed shards that are gone, and of shards that are not listed."""
    listed, present = {entry.name: None for entry in manifest.shards}, set(names)
    return [name for name in listed if name not in present], [
        name for name in names if name not in listed
    ]


def _incomplete_at(path: AnyPath, load: LoadManifest, *, folder: bool) -> Incomplete | None:
    """Return the state of the dataset at this path if it is incomplete, else None.

    A dataset without a manifest is complete, unless a writer has left unfinished files in its
    staging folder, or has died while it replaced one of two files.
    """
    root, name = place_of(path, single=not folder)
    manifest = load(marker_path(root, name))
    if manifest is not None and not manifest.complete:
        return Incomplete(str(path), manifest.expected)
    if not isinstance(root, Path):
        return None
    if is_half_replaced(root, name):
        return Incomplete(str(path), advice=_replace_again(path))
    if is_staged(root, name):
        return Incomplete(str(path))
    return None


def _replace_again(path: AnyPath) -> str:
    erase = command("remove", path, "--erase")
    return f"run the interrupted command again: {erase}, or the writer with mode='overwrite'"


def is_staged(folder: Path, name: str) -> bool:
    """Return whether a writer has left unfinished files of a dataset: see `marker_path`."""
    staging = os.path.join(folder, FOLDER, "staging", name)
    return os.path.isdir(staging) and (bool(name) or bool(os.listdir(staging)))


def interrupted_write(path: AnyPath) -> str | None:
    """Return advice if a write to this path was interrupted before any shard was complete, else None."""
    if not isinstance(path, Path):
        return None
    folder, name = place_of(path, single=not path.is_dir())
    run = run_folder(path, single=bool(name))
    record = folder / FOLDER / f"{name or 'dataset'}.pack.json"  # of a run that packs
    in_parts = run.exists() and not (run / "result.json").exists()
    if is_half_replaced(folder, name):
        return f"replacing its files was interrupted: {_replace_again(path)}"
    if (
        is_staged(folder, name)
        or in_parts
        or (record.exists() and b'"finished":true' not in record.read_bytes())
    ):
        return f"a write of it was interrupted: {HOW_TO_COMPLETE}"
    return None


def find_incomplete(
    paths: Sequence[AnyPath], shards: Sequence[Shard], load: LoadManifest = find_manifest
) -> Incomplete | None:
    """Return the state of the first incomplete one of some datasets."""
    roots = {str(shard.root): shard.root for shard in shards}
    if (
        len(paths) == 1
        and str(paths[0]) not in roots
        and all(is_part(root.name) for root in roots.values())
    ):
        return _incomplete_parts(paths[0], list(roots.values()), load)
    files = len(paths) == 1 or (len(paths) < _MANY and isinstance(paths[0], Path))
    for path in paths:
        folder = str(path) in roots
        incomplete = _incomplete_at(path, load, folder=folder) if folder or files else None
        if incomplete is not None:
            return incomplete
    if len(paths) == 1:
        return None
    for root in roots.values():
        state = load(marker_path(root, ""))
        if state is not None and not state.complete:
            return Incomplete(str(root), state.expected)
    return None


def _incomplete_parts(
    path: AnyPath, parts: Sequence[AnyPath], load: LoadManifest
) -> Incomplete | None:
    """Return the state of a folder of parts if one is incomplete or missing, or if they have not been joined yet."""
    if len(parts) <= _MANY:
        states = (_incomplete_at(part, load, folder=True) for part in parts)
        if (incomplete := next(filter(None, states), None)) is not None:
            return incomplete
    manifest = load(marker_path(path, ""))
    if manifest is None:
        return None
    if not manifest.complete:
        finish = command("finish", path)
        advice = (
            "run the same call again, which writes the missing "
            f"parts, or, if none is missing, {finish}"
        )
        return Incomplete(str(path), manifest.expected, advice=advice)
    listed = dict.fromkeys(entry.name.partition("/")[0] for entry in manifest.shards)
    present = {part.name for part in parts}
    missing = tuple(name for name in listed if name not in present)
    if missing:
        return Incomplete(str(path), missing_parts=missing)
    return None


def with_advice(error: Exception, paths: Iterable[AnyPath]) -> FormatError | None:
    """Return the error about a dataset that cannot be opened because its writer was interrupted; None about others."""
    if not isinstance(error, FormatError) or isinstance(error, CorruptError):
        return None
    advice = next(filter(None, map(interrupted_write, paths)), None)
    if advice is None:
        return None
    return FormatError(error.message, error.file, error.offset, advice)


def warn_incomplete(found: Incomplete, samples: int) -> None:
    """Warn the caller of `bushel.open` that the dataset is incomplete."""
    warn(
        f"{found.path} is incomplete: {found.describe(samples)}. To complete it, "
        f"{found.advice}; open it with allow_incomplete=True to use it as it is.",
        IncompleteWarning,
    )


HOW_TO_REPAIR = (
    "`bushel verify` lists the damage, and `bushel repair` "
    "writes the intact samples to a new dataset"
)

_REMOTE = 1 << 26
"""Largest remote shard in bytes that is looked through for intact samples, which can take several passes."""


class Damage(Struct, frozen=True):
    """The damage of a shard."""

    error: FormatError  # the error at which indexing it ended
    # bool[samples], whether a sample can be read; the rows of the others have the extents of
    # another sample
    whole: Bools
    lost: int  # number of samples that are known to have existed and have no row
    # by key, the errors of samples that are known to have one of their own
    errors: Mapping[str, FormatError]

    @property
    def unreadable(self) -> int:
        """Number of samples in the table that cannot be read."""
        return int(np.count_nonzero(~self.whole))

    def error_of(self, key: str) -> FormatError:
        """Return the error of a sample that cannot be read."""
        error = self.errors.get(key, self.error)
        message = (
            f"sample {key!r} cannot be read, because the "
            f"structure of its shard is damaged: {error.message}"
        )
        if isinstance(error, CorruptError):
            return CorruptError(
                message, key=key, file=error.file, offset=error.offset, hint=HOW_TO_REPAIR
            )
        return FormatError(message, error.file, error.offset, HOW_TO_REPAIR)

    def describe(self) -> str:
        """Describe the samples that can be read, in words."""
        unreadable, samples = (
            self.unreadable,
            f"{len(self.whole):,} sample{'' if len(self.whole) == 1 else 's'}",
        )
        first = f"{samples} can be read"
        if unreadable:
            first = f"{unreadable:,} of {samples} cannot be read"
        if self.lost:
            return f"{first}, and at least {self.lost:,} {'is' if self.lost == 1 else 'are'} lost"
        if unreadable:
            return first
        return f"{first}, and others may be lost"


def recover_shard(
    container: str, shard: Shard, spec: Spec | None, fault: Fault
) -> Recovered | None:
    """Return a table of the intact samples of a shard, or None if no sample is intact or can be located.

    Args:
        container: Name of the container.
        shard: The files of the shard.
        spec: Its fields if they are known, or None.
        fault: Called with an error for everything that is left out.

    Raises:
        OSError: A file cannot be read.
    """
    missing = [path for path in shard.paths if not path.exists()]
    if missing:
        fault(FormatError("without this file, its shard has no intact sample", missing[0]))
        return None
    recover = recovery_of(container)
    try:
        try:
            return recover(shard, ReadOptions(spec=spec, recorded=spec or ()), fault)
        except SpecError:
            return recover(shard, ReadOptions(), fault)
    except (FormatError, SpecError) as error:
        fault(error if isinstance(error, FormatError) else FormatError(str(error), shard.path(0)))
        return None


def recovered_table(
    container: str, shard: Shard, options: ReadOptions, error: FormatError, known: Spec | None
) -> tuple[ShardIndex, Damage]:
    """Return a table of a damaged shard, and which of its samples can be read.

    Args:
        container: Name of the container.
        shard: The shard.
        options: The user's declarations about the data.
        error: The error at which indexing it ended.
        known: The fields that a recorded table has, or None.

    Raises:
        FormatError: `error`, if no sample can be located.
        OSError: A file cannot be read.
    """
    from bushel.containers.recovery import with_gaps

    try:
        size = sum(int(path.stat().st_size) for path in shard.paths)
        if not is_local(shard.root) and size > _REMOTE:
            raise error
    except FileNotFoundError:  # which is the error
        raise error from None
    from traceback import clear_frames

    clear_frames(error.__traceback__)  # which hold what indexing had read
    recovered = recover_shard(
        container, shard, known if options.spec is None else options.spec, lambda _: None
    )
    if (
        recovered is None
        or not recovered.whole.any()
        or not set(options.spec or ()) <= recovered.index.fields.keys()
    ):
        raise error
    errors = {key: fault for (_, key), fault in zip(recovered.gaps, recovered.errors, strict=False)}
    recovered = with_gaps(recovered)
    reason = FormatError(error.message, error.file, error.offset)  # without its traceback
    return replace(recovered.index, container=container), Damage(
        reason, recovered.whole, max(recovered.lost, 0), errors
    )


def warn_damaged(damages: Sequence[Damage]) -> None:
    """Warn the caller of `bushel.open` that shards are damaged."""
    named = few([f"{damage.error} ({damage.describe()})" for damage in damages], separator="; ")
    warn(f"the dataset is damaged: {named}. {HOW_TO_REPAIR}.", DamagedWarning)
