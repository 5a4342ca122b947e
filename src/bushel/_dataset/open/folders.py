"""The folders that writers use: for the parts of a run, for its plan, and for a dataset that replaces another one.

The datasets `part-00000`, `part-00001`, … in a folder are read as one. In the manifest of that
folder, the name of a shard begins with the name of its part: `part-00007/000000.tar`.

A dataset that replaces another one is written to a folder of its own, which `_writer.publishing`
describes. A reader needs its name because a writer may be killed while it puts the files of the new
dataset in their places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import ManifestShard
from bushel.storage import AnyPath
from bushel.storage.names import PathT


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
