"""The parts of a run that packs or converts: the names of their folders, and one manifest of all their shards.

The datasets `part-00000`, `part-00001` and so on in a folder are read as one. In the manifest of that folder, the
name of a shard begins with the name of its part: `part-00007/000000.tar`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bushel.containers.base import Shard
from bushel.core.index.sidecar import FOLDER, ManifestShard
from bushel.storage import AnyPath

__all__ = ["above_parts", "is_part", "run_folder", "shard_of_entry"]

_PART = re.compile(r"part-[0-9]{5,}")


def is_part(name: str) -> bool:
    """Return whether a folder has the name of a part."""
    return _PART.fullmatch(name) is not None


def run_folder(target: AnyPath, *, single: bool) -> AnyPath:
    """Return the folder of the plan and the records of a run in parts: `bushel.ingest` writes it.

    Args:
        target: The target of the run.
        single: Whether each part is one file beside it.
    """
    return target.parent / f"{FOLDER}/{target.name}.run" if single else target / f"{FOLDER}/run"


def shard_of_entry(root: AnyPath, name: str, entry: ManifestShard) -> Shard:
    """Return the files of a shard that a manifest lists.

    Args:
        root: The folder of the shard.
        name: The name of the shard in it.
        entry: The entry of the manifest.
    """
    files = tuple(file for file, _, _ in entry.files)
    own = name and all(file.startswith(f"{name}/") for file in files)
    return Shard(root, name, files, f"{name}/{FOLDER}" if own else FOLDER)


def above_parts(shards: Sequence[Shard]) -> AnyPath | None:
    """Return the folder that contains the parts of a run, if these shards are in several of them, else None."""
    roots = {id(shard.root): shard.root for shard in shards}.values()
    first = shards[0].root
    if all(root == first for root in roots) or not all(is_part(root.name) for root in roots):
        return None
    above = first.parent
    return above if all(root.parent == above for root in roots) else None
