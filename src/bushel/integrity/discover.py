"""The shards of a dataset that may be damaged, and the tables of each: the recorded one, and that of its files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from bushel._dataset.open.binding import stamps_of
from bushel._dataset.open.caller_fields import CallerFields, has_declared, listed_table
from bushel._dataset.open.completeness import (
    LoadManifest,
    find_incomplete,
    gone_and_unlisted,
    is_half_replaced,
    lists_others,
    manifest_and_names,
    shard_of_entry,
    unfinished_shards,
    with_advice,
)
from bushel._dataset.open.damage import recover_shard
from bushel._dataset.open.discovery import find
from bushel._dataset.open.sources import ALL, expand_paths, named_files
from bushel._dataset.open.tables import (
    StoredTable,
    bound,
    build_table,
    cached_table,
    changed_types,
    index_is_in_cache,
    index_place,
    indexed_in,
    staged_table,
)
from bushel._index.identity import with_sound_keys
from bushel._index.shard import FOLDER, FileStamp, Shard
from bushel._index.sidecar import Manifest, find_manifest, load_index, load_manifest
from bushel._index.table import ShardIndex
from bushel.containers import Container, ReadOptions, candidates, get_container
from bushel.errors import FormatError, SpecError
from bushel.storage import AnyPath, below, is_half_made, names_in
from bushel.storage.expansion_cache import expansion_cache

from .compare import same_arrays
from .problems import Findings


class Place(NamedTuple):
    """A shard to check."""

    container: Container
    shard: Shard
    split: str = ""  # the split of a folder that it belongs to; empty if it may have several


def discover(
    source: Any,
    container: str | None,
    found: Findings,
    index: Any = "auto",
    load: LoadManifest = load_manifest,
) -> list[Place]:
    """Return the shards of a dataset. Problems that hide other shards are added to `found`.

    Args:
        source: As for `bushel.open`.
        container: Name of the container that they must have; None for any.
        found: Gets the problems.
        index: The folder of the index, if that is not the folder of the data.
        load: Returns the manifest at a path, as `load_manifest` does.

    Raises:
        FileNotFoundError: The path does not exist.
        FormatError: The source is not a dataset, or holds several.
    """
    files = named_files(source, usual=ALL)
    places: list[Place] = []
    for split, paths in (files.splits or {"": files.source}).items():
        of_split = Findings(found.room)
        try:
            found_here = _discover(expand_paths(paths), container, of_split, load)
            places += [place._replace(split=split) for place in found_here]
        except FormatError as error:
            if not files.splits:
                raise
            of_split.add_error(error)
        found.add_shard(of_split, 0)
    if index == "auto":
        return places
    shards = indexed_in([place.shard for place in places], index_place(index))
    return [place._replace(shard=shard) for place, shard in zip(places, shards, strict=True)]


def _discover(
    paths: Sequence[AnyPath], container: str | None, found: Findings, load: LoadManifest
) -> list[Place]:
    def undamaged(path: AnyPath) -> Manifest | None:
        with suppress(FormatError, OSError):  # reported where it is compared
            return load(path)
        return None

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
    incomplete = find_incomplete(paths, whole.shards, undamaged)
    if incomplete is not None and not incomplete.missing_parts:
        what = "more samples"
        if incomplete.expected is not None:
            what = f"{incomplete.expected:,} samples"
        found.add_file(
            incomplete.path,
            "incomplete",
            f"its writer should have written {what}; {incomplete.advice}",
        )
    for path in paths:
        if path.is_dir():
            shards = [shard for shard in whole.shards if path in (shard.root, shard.root.parent)]
            _check_manifest(
                path, shards, whole.container, found, load, growing=incomplete is not None
            )
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
            found.add_file(
                shard.path(0),
                "incomplete",
                "it is not checked, as its writer ended before all of its new files had their names",
            )
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
    present = {place.shard.path(0) for place in places}
    for path in paths:
        manifest = find_manifest(path / FOLDER / "manifest.json")
        if manifest is None:  # damage is reported with the shards that are found
            continue
        for entry in manifest.shards:
            shard = shard_of_entry(path, entry.name, entry)
            if shard.files and shard.path(0) not in present and shard.sidecar.exists():
                shards.append(Place(get_container(manifest.container), shard))
    return shards


def _children(container: Container, path: AnyPath, found: Findings) -> list[Shard]:
    shards: list[Shard] = []
    children = path.iterdir() if path.is_dir() else ()
    for child in sorted(children, key=attrgetter("name")):
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
    path: AnyPath,
    shards: Sequence[Shard],
    container: str,
    found: Findings,
    load: LoadManifest,
    *,
    growing: bool,
) -> None:
    """Compare the existing shards with those that the manifest lists, and look for an unfinished write."""
    place, names = manifest_and_names(path, shards)
    if place is None:
        return
    try:
        manifest = load(place)
    except FormatError as error:
        found.add_error(error, "index")
        manifest = None
    # another container may have files of the same names, and the first of several bags another list
    is_of_others = lists_others(manifest, shards)
    if manifest is not None and manifest.container == container and not is_of_others:
        gone, unlisted = gone_and_unlisted(manifest, names)
        for name in gone:
            found.add_file(
                f"{path}/{name}",
                "missing",
                f"{place.name} lists this shard, but it does not exist: "
                "restore it, or run `bushel index` again",
            )
        for name in () if growing else unlisted:
            found.add_file(
                f"{path}/{name}",
                "stray",
                f"{place.name} does not list this shard: add it with "
                "`bushel index` if it belongs to the dataset, else move it away",
            )
    for folder in unfinished_shards(path):
        found.add_file(
            folder,
            "unfinished",
            "an interrupted write left this: the next writer "
            "removes it, such as one with mode='resume'",
        )


class Tables(NamedTuple):
    """The tables of a shard."""

    recorded: ShardIndex | None  # the table of the index, with intact keys
    fits: bool  # whether it describes the files as they are now
    # the table that `bushel index` would make of the files, with the recorded types if these fit,
    # which a user may have declared
    built: ShardIndex | None
    faults: list[FormatError]  # the faults of the files
    # the fields that get another type when the files are opened: name, recorded type, new type
    retyped: list[tuple[str, str, str]]


def tables_of(
    place: Place, stamps: tuple[FileStamp, ...] | None, pickle: bool, found: Findings
) -> Tables:
    """Return the tables of a shard. `found` gets the damage of the index.

    `stamps` are its files as they are now (`stamps_of`); None if one is missing.
    """
    container, shard = place.container, place.shard
    table = _recorded_table(place, stamps, found)
    recorded = None if table is None else table.index
    if table is None or not table.fits or table.index.blocks or not isinstance(shard.root, Path):
        expansion_cache().forget_kept()  # so that the present bytes of the files are compared
    built, faults, retyped = None, list[FormatError](), list[tuple[str, str, str]]()
    try:
        if stamps is None:
            stamps_of(shard)  # raises
        built = build_table(container.name, shard, ReadOptions(pickle=pickle), table)
        before = recorded or listed_table(container.name, shard)
        if before is not None and before.spec != built.spec:
            retyped += changed_types(before, built)
            if recorded is not None:
                declared, spec = built, recorded.spec
                try:
                    if not has_declared(built, spec):  # text of another type has another table
                        options = ReadOptions(spec=spec, pickle=pickle, recorded=spec)
                        declared = replace(container.index(shard, options), labels=built.labels)
                    built = CallerFields(spec, pickle).table(declared)
                except (FormatError, SpecError):
                    if any(field.names_file for field in spec.values()):  # one that is missing
                        built = None
                        raise
        faults = container.faults(shard)
    except (FormatError, SpecError) as error:
        if container.stores_text:  # every damaged line is named
            recover_shard(container.name, shard, None, faults.append)
        if not isinstance(error, FormatError):
            error = FormatError(str(error), shard.path(0))
        faults = faults or [error]
    checked = _with_checked_keys(recorded, built, shard, found)
    return Tables(checked, table is not None and table.fits, built, faults, retyped)


def _recorded_table(
    place: Place, stamps: tuple[FileStamp, ...] | None, found: Findings
) -> StoredTable | None:
    """Return the table of the sidecar, bound to the files as they are now (`stamps`) if it describes them.

    Without a sidecar, it is the one in the user's cache, if that has the indexes of local data. Its
    keys are to be checked (`_with_checked_keys`). `found` gets the damage of the sidecar.
    """
    shard = place.shard
    sidecar = shard.sidecar
    try:
        index = load_index(sidecar, check=True).check(str(sidecar))
    except FileNotFoundError:
        if stamps is not None and index_is_in_cache():
            return cached_table(place.container.name, shard)
        return None
    except FormatError as error:
        found.add_error(error, "index")
        return None
    table = StoredTable(index, False, index.files)
    if stamps is None:
        return table
    with suppress(FormatError):  # a file that a field names is missing
        table = bound(index, shard, stamps if len(stamps) == len(index.files) else None)
    if table.fits:
        return table
    return staged_table(shard) or table


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
        index = with_sound_keys(recorded, shard, keys_of_files)
    except FormatError as error:
        found.add_error(error, "index")
        return None
    if not same_arrays(recorded.keys, index.keys, ("hashes", "order")):
        found.add_file(
            shard.sidecar,
            "index",
            "the table for key lookup is damaged; delete this file and run `bushel index`",
        )
    return index
