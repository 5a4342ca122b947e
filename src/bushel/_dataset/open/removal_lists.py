"""The places of lists of removed samples: one per dataset.

A folder has `.bushel/removed.safetensors`; several bags have it in the folder of the first one, the
parts of a run above their folders. A file that is a dataset has `.bushel/removed/NAME.safetensors`
beside it. A list whose file is gone is read with all files of the folder: the file may have been
renamed, divided or joined with others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from bushel._index.removal_list import EMPTY, RemovalList, encode_removal_list, load_removal_list
from bushel._index.shard import FOLDER, LISTS_OF_FILES, REMOVED, Shard, of_each_folder
from bushel._runtime.parallel import map_all
from bushel.errors import UnsupportedError
from bushel.storage import AnyPath, absolute, below, is_object, read_whole, write_whole

from .completeness import above_parts
from .sources import expand_paths


class PlacedList(Struct, frozen=True):
    """A list of removed samples."""

    path: AnyPath
    removed: RemovalList
    file: str | None  # the only shard whose samples it names; None for all that it is read with

    def names(self, shard: Shard) -> bool:
        """Return whether it may name samples of a shard."""
        return self.file in (None, shard.name, shard.alias and shard.alias.name)


def lists_beside(shards: Iterable[Shard], more: Iterable[AnyPath] = ()) -> list[PlacedList]:
    """Return the lists of removed samples that may name samples of these shards, and `more` lists of folders.

    Raises:
        FormatError: A list is damaged.
        OSError: A list cannot be read.
    """
    shards = list(shards)
    folders = {str(path): path for shard in of_each_folder(shards) for path in shard.removal_lists}
    folders |= {str(path): path for path in more}
    roots: dict[str, tuple[AnyPath, list[str]]] = {}
    for shard in shards:
        for root in shard.roots if shard.name else ():
            roots.setdefault(str(root), (root, []))[1].append(shard.name)
    jobs: list[Callable[[], list[PlacedList]]] = [
        partial(_loaded, path, None) for path in folders.values()
    ]
    jobs += [partial(_of_files, *files) for files in roots.values()]
    local = all(isinstance(path, Path) for path in folders.values())
    threads = 1 if local else len(jobs)
    loaded = map_all(lambda job: job(), jobs, threads=threads, name="bushel-removed")
    return [placed for lists in loaded for placed in lists]


def _loaded(path: AnyPath, file: str | None) -> list[PlacedList]:
    removed = load_removal_list(path)
    if removed is None:
        return []
    return [PlacedList(path, removed, file)]


def list_to_write(shard: Shard, shards: Sequence[Shard], source: Any) -> AnyPath:
    """Return the path of the list that gets the removed samples of a shard.

    Args:
        shard: The shard.
        shards: All shards of the dataset.
        source: What the caller calls the dataset: files have lists of their own.

    Raises:
        UnsupportedError: The shards are in several folders, or nothing can be written there.
    """
    files = [absolute(path) for path in (expand_paths(source) if shard.name else ())]
    if not {str(absolute(shard.path(0))), str(shard.alias)}.isdisjoint(map(str, files)):
        place = below(shard.beside, own_list(shard.name), any_text=True)
    elif (above := above_parts(shards)) is not None and shard.index is None:
        place = above / FOLDER / REMOVED
    elif any(another.beside != shard.beside for another in shards):
        raise UnsupportedError(
            "the dataset is in several folders: remove samples from each of them"
        )
    else:
        place = shard.beside / shard.shared / REMOVED
        # readers of several bags look beside the first one, and readers of parts above the parts
        shared = shard.removal_lists[-1]
        if not (shard.alias or shard.index) and os.path.exists(str(shared.parent)):
            place = shared
    if not isinstance(place, Path) and not (is_object(place) and place.writable):
        raise UnsupportedError(
            f"{shard.root} cannot be written to: name another folder for the "
            "index and the list of removed samples, with index= (--index)"
        )
    return place


def own_list(name: str) -> str:
    """Return the path of the list of a file, relative to its folder."""
    return f"{LISTS_OF_FILES}/{name.replace('/', '%2F')}.safetensors"


def lists_in(folder: Path) -> list[Path]:
    """Return the lists of removed samples of a folder, of its files, and of the bags or parts in it."""
    return [
        path
        for pattern in (f"{FOLDER}/{REMOVED}", f"{LISTS_OF_FILES}/*.safetensors")
        for above in ("", "*/")
        for path in folder.glob(above + pattern)
    ]


def keep_beside(old: Path, new: Path, changed: Mapping[str, RemovalList], *, forget: bool) -> None:
    """Copy the saved views of a folder into one that replaces it, to where its readers look, and join its lists there.

    Each view knows whether it is of other data. A sample may now be in another file or part, so all
    get one list. `changed` are lists that get other names, by their paths in the old folder; with
    `forget`, none is kept.
    """
    first_bags = [folder for folder in new.iterdir() if folder.name.strip("0") == ""]
    shared = [new, *first_bags][-1] / FOLDER
    views = f"{FOLDER}/views/*.safetensors"
    for path in (*old.glob(views), *old.glob(f"0*/{views}")):
        write_whole(shared / "views" / path.name, read_whole(path))
    joined = EMPTY
    for path in () if forget else lists_in(old):
        joined = joined.joined(changed.get(str(path)) or load_removal_list(path) or EMPTY)
    if joined.calls:
        write_whole(shared / REMOVED, encode_removal_list(joined))


def _of_files(root: AnyPath, names: Sequence[str]) -> list[PlacedList]:
    """Return the lists of files in a folder."""
    if not isinstance(root, Path):
        if len(names) == 1:  # for more, the store would be asked once for each
            return _loaded(below(root, own_list(names[0]), any_text=True), names[0])
        if not (is_object(root) and root.listable):
            return []
    try:
        listed: list[AnyPath] = sorted((root / LISTS_OF_FILES).iterdir(), key=str)
    except (FileNotFoundError, NotADirectoryError):
        return []
    placed = []
    for path in listed:
        if path.name.endswith(".safetensors"):
            file = path.name.removesuffix(".safetensors").replace("%2F", "/")
            is_there = (
                file in names or not isinstance(root, Path) or os.path.exists(f"{root}/{file}")
            )
            placed += _loaded(path, file if is_there else None)
    return placed
