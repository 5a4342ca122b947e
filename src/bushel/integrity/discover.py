"""Finding the shards of a dataset that may be damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bushel._dataset.open.completeness import find_incomplete, manifest_and_names, with_advice
from bushel._dataset.open.discovery import find
from bushel._dataset.open.folders import is_half_replaced, shard_of_entry
from bushel._dataset.open.source_paths import expand_paths
from bushel._dataset.open.splits import files_named
from bushel._dataset.open.tables import index_place, indexed_in
from bushel._index.sidecar import FOLDER, load_manifest
from bushel._index.table import Shard
from bushel._writer.target import unfinished_shards
from bushel.containers import Container, candidates, get_container
from bushel.errors import FormatError
from bushel.storage import AnyPath, below
from bushel.storage.publish import is_half_made

from .problems import Findings


@dataclass(frozen=True, slots=True)
class Place:
    """A shard to check."""

    container: Container
    shard: Shard


def discover(
    source: Any, container: str | None, found: Findings, index: Any = "auto"
) -> list[Place]:
    """Return the shards of a dataset. Problems that hide other shards are added to `found`.

    `index` is the folder of the index, if that is not the folder of the data.

    Raises:
        FileNotFoundError: The path does not exist.
        FormatError: The source is not a dataset, or holds several.
    """
    places = _discover(source, container, found)
    if index == "auto":
        return places
    shards = indexed_in([place.shard for place in places], index_place(index))
    return [replace(place, shard=shard) for place, shard in zip(places, shards, strict=True)]


def _discover(source: Any, container: str | None, found: Findings) -> list[Place]:
    paths = expand_paths(files_named(source))
    try:
        whole = find(paths, container)
    except FormatError as error:
        explained = with_advice(error, paths)
        if explained is not None and any(map(_is_half_placed, paths)):
            raise explained from None
        places = _readable_shards(paths, container, found)
        if indexed := _indexed_shards(paths, places):
            found.add_error(error)
            places += indexed
        if found.problems:
            return places
        if explained is None:
            raise
        raise explained from None
    incomplete = find_incomplete(paths, whole.shards)
    if incomplete is not None and not incomplete.missing_parts:
        if incomplete.expected is None:
            expected = ""
        else:
            expected = f" {incomplete.expected:,} samples;"
        message = (
            f"its writer should have written{expected or ' more samples;'} {incomplete.advice}"
        )
        found.add_file(incomplete.path, "incomplete", message)
    for path in paths:
        if path.is_dir():
            own = [shard for shard in whole.shards if path in (shard.root, shard.root.parent)]
            _check_manifest(path, own, whole.container, found, growing=incomplete is not None)
    if incomplete is not None:
        shards = _without_half_placed(whole.shards, found)
    else:
        shards = whole.shards
    return [Place(get_container(whole.container), shard) for shard in shards]


def _is_half_placed(root: AnyPath, name: str = "") -> bool:
    """Return whether files of a shard, or of a dataset, were getting their names when their writer was killed."""
    if not isinstance(root, Path):
        return False
    file = below(root, name, any_text=True) if name else root / "dataset"
    if is_half_replaced(file.parent, file.name if name else ""):
        return True
    staged = name.replace("/", "%2F") or "dataset"
    return any(
        is_half_made(root, folder) for folder in unfinished_shards(root) if folder.name == staged
    )


def _without_half_placed(shards: Sequence[Shard], found: Findings) -> list[Shard]:
    """Return the shards whose files belong together, without shards that were being replaced."""
    left = []
    for shard in shards:
        if _is_half_placed(shard.root, shard.name):
            message = (
                "it is not checked, as its writer ended before all of its new files had their names"
            )
            found.add_file(shard.path(0), "incomplete", message)
        else:
            left.append(shard)
    return left


def _readable_shards(
    paths: Sequence[AnyPath], container: str | None, found: Findings
) -> list[Place]:
    """Return the shards that can be read on their own, folder by folder and file by file."""
    named = None if container is None else get_container(container)
    places: list[Place] = []
    for path in paths:
        if path.is_dir():
            names = [entry.name for entry in path.iterdir()]
        else:
            names = [path.name]
        for candidate in candidates(names) if named is None else [named]:
            try:
                shards = candidate.shards(path)
            except FormatError as error:
                found.add_error(error)
                shards = _children(candidate, path, found)
            places += [Place(candidate, shard) for shard in shards or ()]
    return places


def _indexed_shards(paths: Sequence[AnyPath], places: Sequence[Place]) -> list[Place]:
    """Return the shards that only the manifest lists, because the file that lists their files is lost."""
    shards: list[Place] = []
    there = {place.shard.path(0) for place in places}
    for path in paths:
        try:
            manifest = None
            if path.is_dir():
                manifest = load_manifest(path / FOLDER / "manifest.json")
        except (FormatError, PermissionError):  # reported with the shards that are found
            continue
        for entry in () if manifest is None else manifest.shards:
            shard = shard_of_entry(path, entry.name, entry)
            if (
                manifest is not None
                and shard.files
                and shard.path(0) not in there
                and shard.sidecar.exists()
            ):
                shards.append(Place(get_container(manifest.container), shard))
    return shards


def _children(container: Container, path: AnyPath, found: Findings) -> list[Shard]:
    shards: list[Shard] = []
    if path.is_dir():
        children = sorted(path.iterdir(), key=lambda child: str(child.name))
        # a dataset is a folder, and its files are not shards
        folders = bool(container.file_names)
        for child in children:
            if child.name == FOLDER or (folders and not child.is_dir()):
                continue
            try:
                shards += [_as_child(path, child, shard) for shard in container.shards(child) or ()]
            except FormatError as error:
                found.add_error(error)
    return shards


def _as_child(path: AnyPath, child: AnyPath, shard: Shard) -> Shard:
    """Return a folder as a shard of its parent, with the name that its index has."""
    if shard.name:
        return shard
    files = tuple(f"{child.name}/{name}" for name in shard.files)
    return Shard(path, child.name, files, f"{child.name}/{shard.sidecars}")


def _check_manifest(
    path: AnyPath, shards: Sequence[Shard], container: str, found: Findings, *, growing: bool
) -> None:
    """Compare the existing shards with those that the manifest lists, and look for an unfinished write."""
    place, names = manifest_and_names(path, shards)
    if place is None:
        return
    try:
        manifest = load_manifest(place)
    except FormatError as error:
        found.add_error(error, "index")
        manifest = None
    # another container may have files of the same names
    if manifest is not None and manifest.container == container:
        listed, there = {entry.name for entry in manifest.shards}, set(names)
        for name in sorted(listed - there):
            message = f"{place.name} lists this shard, but it does not exist"
            found.add_file(f"{path}/{name}", "missing", message)
        for name in () if growing else sorted(there - listed):
            message = (
                f"{place.name} does not list this shard: add it with `bushel index` if it belongs"
                " to the dataset, else "
                "move it away"
            )
            found.add_file(f"{path}/{name}", "stray", message)
    for folder in unfinished_shards(path):
        message = (
            "an interrupted write left this: the next writer removes it, such as one with"
            " mode='resume'"
        )
        found.add_file(folder, "unfinished", message)
