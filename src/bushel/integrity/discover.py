"""The shards of a dataset that may be damaged, and the tables of each: the recorded one, and that of its files."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from bushel._dataset.open.as_listed import gone_and_unlisted
from bushel._dataset.open.binding import bind, stamps_of
from bushel._dataset.open.caller_fields import CallerFields, has_declared
from bushel._dataset.open.completeness import (
    find_incomplete,
    manifest_and_names,
    recover_shard,
    with_advice,
)
from bushel._dataset.open.discovery import find, names_in
from bushel._dataset.open.folders import is_half_replaced, shard_of_entry
from bushel._dataset.open.source_paths import expand_paths
from bushel._dataset.open.splits import files_named
from bushel._dataset.open.tables import index_place, indexed_in, staged_table
from bushel._index.manifest import find_manifest
from bushel._index.matching import with_sound_keys
from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import load_index, load_manifest
from bushel._index.table import ShardIndex
from bushel._writer.target import unfinished_shards
from bushel.containers import Container, candidates, get_container
from bushel.containers.base import ReadOptions
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import AnyPath, below
from bushel.storage.publish import is_half_made

from .compare import same_arrays
from .problems import Findings


class Place(NamedTuple):
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
    return [Place(place.container, shard) for place, shard in zip(places, shards, strict=True)]


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
        what = "more samples"
        if incomplete.expected is not None:
            what = f"{incomplete.expected:,} samples"
        message = f"its writer should have written {what}; {incomplete.advice}"
        found.add_file(incomplete.path, "incomplete", message)
    for path in paths:
        if path.is_dir():
            shards = [shard for shard in whole.shards if path in (shard.root, shard.root.parent)]
            _check_manifest(path, shards, whole.container, found, growing=incomplete is not None)
    shards = whole.shards
    if incomplete is not None:
        shards = _without_half_placed(shards, found)
    return [Place(get_container(whole.container), shard) for shard in shards]


def _is_half_placed(root: AnyPath, name: str = "") -> bool:
    """Return whether files of a shard, or of a dataset, were getting their names when their writer was killed."""
    if not isinstance(root, Path):
        return False
    staged, folder, file_name = "dataset", root, ""
    if name:
        file = below(root, name, any_text=True)
        staged, folder, file_name = name.replace("/", "%2F"), file.parent, file.name
    if is_half_replaced(folder, file_name):
        return True
    return any(is_half_made(root, left) for left in unfinished_shards(root) if left.name == staged)


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
    places: list[Place] = []
    for path in paths:
        names = names_in(path) if path.is_dir() else [path.name]
        for candidate in [get_container(container)] if container else candidates(names):
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
        manifest = find_manifest(path / FOLDER / "manifest.json")
        if manifest is None:  # damage is reported with the shards that are found
            continue
        for entry in manifest.shards:
            shard = shard_of_entry(path, entry.name, entry)
            if shard.files and shard.path(0) not in there and shard.sidecar.exists():
                shards.append(Place(get_container(manifest.container), shard))
    return shards


def _children(container: Container, path: AnyPath, found: Findings) -> list[Shard]:
    shards: list[Shard] = []
    if not path.is_dir():
        return shards
    for child in sorted(path.iterdir(), key=attrgetter("name")):
        # where a dataset is a folder, its files are not shards
        if child.name == FOLDER or (container.file_names and not child.is_dir()):
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
        gone, unlisted = gone_and_unlisted(manifest, names)
        for name in gone:
            message = f"{place.name} lists this shard, but it does not exist"
            found.add_file(f"{path}/{name}", "missing", message)
        for name in () if growing else unlisted:
            message = (
                f"{place.name} does not list this shard: add it with "
                "`bushel index` if it belongs to the dataset, else move it away"
            )
            found.add_file(f"{path}/{name}", "stray", message)
    for folder in unfinished_shards(path):
        message = (
            "an interrupted write left this: the next writer "
            "removes it, such as one with mode='resume'"
        )
        found.add_file(folder, "unfinished", message)


class Tables(NamedTuple):
    """The tables of a shard."""

    recorded: ShardIndex | None  # the table of the index, with intact keys
    fits: bool  # whether it describes the files as they are now
    built: ShardIndex | None  # the table that `bushel index` would make of the files
    faults: list[FormatError]  # the faults of the files


def tables_of(place: Place, pickle: bool, found: Findings) -> Tables:
    """Return the tables of a shard. `found` gets the damage of the index."""
    recorded, fits = _recorded_table(place.shard, found)
    try:
        stamps_of(place.shard)
    except FormatError as missing:
        built, faults = None, [missing]
    else:
        built, faults = _table_of_files(place, recorded, pickle)
    return Tables(_with_checked_keys(recorded, built, place.shard, found), fits, built, faults)


def _recorded_table(shard: Shard, found: Findings) -> tuple[ShardIndex | None, bool]:
    """Return the table of the sidecar, and whether it describes the files as they are now.

    Its files have their times of now if it does. Its keys are to be checked (`_with_checked_keys`).
    `found` gets the damage of the sidecar.
    """
    try:
        index = load_index(shard.sidecar, check=True).check(str(shard.sidecar))
    except FileNotFoundError:
        return None, False
    except FormatError as error:
        found.add_error(error, "index")
        return None, False
    try:
        files = bind(index.files, stamps_of(shard), shard)
    except FormatError:  # a file is missing
        return index, False
    if files is not None:
        return replace(index, files=files), True
    staged = staged_table(shard)
    if staged is None:
        return index, False
    return staged.index, True


def _with_checked_keys(
    recorded: ShardIndex | None, built: ShardIndex | None, shard: Shard, found: Findings
) -> ShardIndex | None:
    """Return a recorded table with a sound table of keys; None if its keys are damaged.

    The table `built` of the files gives its own if the keys are the same. `found` gets the damage.
    """
    if recorded is None or recorded.keys is None:
        return recorded
    try:
        keys_of_files = None if built is None else built.keys
        index = with_sound_keys(recorded, str(shard.sidecar), keys_of_files)
    except FormatError as error:
        found.add_error(error, "index")
        return None
    if not same_arrays(recorded.keys, index.keys, ("hashes", "order")):
        message = "the table for key lookup is damaged; delete this file and run `bushel index`"
        found.add_file(shard.sidecar, "index", message)
    return index


def _table_of_files(
    place: Place, recorded: ShardIndex | None, pickle: bool
) -> tuple[ShardIndex | None, list[FormatError]]:
    """Return the table that `bushel index` would make of the files, and the faults of these.

    It has the recorded names and types if these fit, which a user may have declared.
    """
    container, shard = place
    built, error = None, None
    # a file that names no fields is read once, with the recorded ones
    lacks_fields = recorded is not None and container.lacks_fields
    if not lacks_fields:
        built, error = _own_table(container, shard, pickle)
    if recorded is not None and (built is None or _types_of(built) != _types_of(recorded)):
        try:
            spec = recorded.spec
            declared = built
            if (
                declared is None
                or declared.fields.keys() != spec.keys()
                or not has_declared(declared, spec)
            ):
                options = ReadOptions(spec=spec, pickle=pickle, recorded=spec)
                declared = container.index(shard, options)
            declared = CallerFields(spec, pickle).table(declared)
        except FormatError as refused:
            if built is None:
                error = refused
        except SpecError:
            if lacks_fields:
                built, error = _own_table(container, shard, pickle)
        else:
            names = declared.labels or (built or declared).labels
            built = replace(declared, labels=names)
    if built is not None:
        return built, container.faults(shard)
    if not isinstance(error, FormatError):
        return None, [FormatError(str(error), shard.path(0))]
    faults: list[FormatError] = []
    if container.stores_text:  # every damaged line is named
        recover_shard(container.name, shard, None, faults.append)
    return None, faults or [error]


def _own_table(
    container: Container, shard: Shard, pickle: bool
) -> tuple[ShardIndex | None, FormatError | SpecError | None]:
    """Return the table of a shard with the fields that its files name; or None, and the reason."""
    try:
        return container.index(shard, ReadOptions(pickle=pickle)), None
    except (FormatError, SpecError) as refused:
        return None, refused


def _types_of(index: ShardIndex) -> dict[str, tuple[Field, str]]:
    return {name: (column.field, column.codec) for name, column in index.fields.items()}
