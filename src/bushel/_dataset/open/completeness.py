"""What writers leave in folders: parts, plans, unfinished files and manifests; and what a dataset lacks by them.

The datasets `part-00000`, `part-00001`, … in a folder are read as one. In the manifest of that
folder, the name of a shard begins with the name of its part: `part-00007/000000.tar`.

A dataset that replaces another one is written to a folder of its own, which `_writer.publishing`
describes. A reader needs its name because a writer may be killed while it puts the files of the new
dataset in their places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from msgspec import Struct

from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import Manifest, ManifestShard, find_manifest
from bushel._runtime.messages import few, warn
from bushel._runtime.public import command
from bushel.errors import CorruptError, FormatError, IncompleteWarning
from bushel.storage import AnyPath
from bushel.storage.files import PathT

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


def is_part(name: str) -> bool:
    """Return whether a folder has the name of a part."""
    return re.fullmatch("part-[0-9]{5,}", name) is not None


def place_of(path: PathT, *, single: bool) -> tuple[PathT, str]:
    """Return the folder of a dataset, and its name there if it is one file; an empty name if it is the folder."""
    if single:
        return cast("PathT", path.parent), path.name
    return path, ""


def run_folder(target: AnyPath, *, single: bool) -> AnyPath:
    """Return the folder of the plan and the records of a run in parts: `bushel._pack` writes it.

    Args:
        target: The target of the run.
        single: Whether each part is one file beside it.
    """
    if single:
        return target.parent / f"{FOLDER}/{target.name}.run"
    return target / f"{FOLDER}/run"


def shard_of_entry(root: AnyPath, name: str, entry: ManifestShard) -> Shard:
    """Return the files of a shard that a manifest lists."""
    files = tuple(file for file, _, _ in entry.files)
    inside = name and all(file.startswith(f"{name}/") for file in files)
    return Shard(root, name, files, f"{name}/{FOLDER}" if inside else FOLDER)


def overwrite_folder(target: Path) -> Path:
    """Return the staging folder of a dataset that replaces `target`."""
    folder, name = os.path.split(os.path.realpath(target))
    return Path(folder, FOLDER, "overwrite", name)


def is_half_replaced(folder: Path, name: str = "") -> bool:
    """Return whether files that belong together were getting their names when their writer was killed.

    Args:
        folder: The folder in which the files are.
        name: Name of the file that was replaced; empty for any in the folder.
    """
    replacements = _replacements(folder, name)
    if replacements:
        from bushel.storage.publish import is_half_made

        return any(is_half_made(folder, staged) for staged in replacements)
    return False


def unfinished_shards(root: AnyPath, file: str | None = None) -> list[Path]:
    """Return the staging folders that a killed writer left on this machine.

    `file` is the name of the one file of the dataset; None for all shards in the folder.
    """
    base: AnyPath | None = root
    if not isinstance(root, Path):
        from bushel.storage import workplace

        base = workplace(root)
    if not isinstance(base, Path):
        return []
    try:
        return sorted(
            staging
            for staging in (base / FOLDER / "staging").iterdir()
            if file is None or staging.name == file
        )
    except FileNotFoundError:  # another process may remove it at any moment
        return []


def recover_files(folder: Path, name: str = "") -> None:
    """Complete or undo interrupted replacements of files in a folder. The caller has its lock.

    A folder that is replaced has a lock of its own.
    """
    from bushel.storage.publish import recover

    root = Path(os.path.realpath(folder))
    for staged in _replacements(root, name):
        if not (staged / staged.name).is_dir() and not (root / staged.name).is_dir():
            recover(root, staged)


def _replacements(folder: Path, name: str) -> list[Path]:
    """Return the staging folders of files and folders in a folder that are replaced."""
    above = Path(folder, FOLDER, "overwrite")
    if name:
        return [above / name] if (above / name).is_dir() else []
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(above.iterdir())
    return []


def are_parts(path: AnyPath, shards: Sequence[Shard]) -> bool:
    """Return whether these shards are in parts of a run in a folder."""
    if shards[:1] and str(shards[0].root) == str(path):
        return False
    roots = {id(shard.root): shard.root for shard in shards}.values()
    return all(is_part(root.name) and str(root.parent) == str(path) for root in roots)


def above_parts(shards: Sequence[Shard]) -> AnyPath | None:
    """Return the folder that contains the parts of a run, if these shards are in several of them, else None."""
    first = shards[0].root
    if all(shard.root is first or shard.root == first for shard in shards):
        return None
    above = first.parent
    return above if are_parts(above, shards) else None


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
        return first.beside_it(f"{folder}/manifest.json")
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


def lists_bags(manifest: Manifest | None, shards: Sequence[Shard]) -> bool:
    """Return whether a manifest lists several bags, and the only shard is the first one, whose folder has it."""
    if manifest is None or [shard.name for shard in shards[:2]] != [""]:
        return False
    # parts of a run, whose names end with a slash, have it above them
    return any(entry.name == shards[0].real_root.name for entry in manifest.shards)


def lists_others(manifest: Manifest | None, shards: Sequence[Shard]) -> bool:
    """Return whether a manifest lists other bags than these, or only the first one of several."""
    if manifest is None:
        return False
    # a bag that was written by itself has the name "" in its own manifest
    is_alone = [entry.name for entry in manifest.shards] == [""]
    return lists_bags(manifest, shards) or (is_alone and shards[0].name.isdecimal())


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
    state = find_manifest(marker_path(folder, name))  # the first file that a writer makes
    if is_half_replaced(folder, name):
        return f"replacing its files was interrupted: {_replace_again(path)}"
    if (
        is_staged(folder, name)
        or in_parts
        or (state is not None and not state.complete)
        or (record.exists() and b'"finished":true' not in record.read_bytes())
    ):
        return f"a write of it was interrupted: {HOW_TO_COMPLETE}"
    return None


def find_incomplete(
    paths: Sequence[AnyPath], shards: Sequence[Shard], load: LoadManifest = find_manifest
) -> Incomplete | None:
    """Return the state of the first incomplete one of some datasets."""
    roots = {str(shard.root): shard.root for shard in shards}
    if len(paths) == 1 and are_parts(paths[0], shards):
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
        return Incomplete(
            str(path),
            manifest.expected,
            advice="run the same call again, which writes the missing "
            f"parts, or, if none is missing, {finish}",
        )
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
