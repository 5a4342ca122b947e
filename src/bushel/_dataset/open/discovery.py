"""Discovery: find the container and the files of the dataset at a path, and missing files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bushel._index.sidecar import FOLDER, Manifest, find_manifest, readable_manifest
from bushel._index.table import Shard
from bushel.containers import (
    Container,
    candidates,
    container_names,
    get_container,
    installed_candidates,
    is_data_file,
    last_candidates,
    owners_of,
)
from bushel.errors import FormatError
from bushel.storage import AnyPath, is_object
from bushel.storage.names import below

from .as_listed import Found, compared, still_there
from .completeness import (
    Incomplete,
    LoadManifest,
    are_parts,
    find_incomplete,
    lists_all,
    manifest_of,
    marker_path,
    unfinished_at,
)
from .folders import (
    datasets_in,
    few,
    is_part,
    nested_datasets,
    of_several_kinds,
    shard_of_entry,
)
from .source_paths import missing

if TYPE_CHECKING:
    from .remote_discovery import ListedFiles

_LISTINGS = 32  # number of paths in object stores that are listed at the same time
_MANY, _MANY_OBJECTS = 1000, 32
"""If there are more local files or objects than this, they are opened as the manifest of their folder lists them."""


def discover(
    paths: Sequence[AnyPath],
    container: str | None = None,
    *,
    allow_incomplete: bool = False,
    whole: bool = False,
) -> Found:
    """Return all properties of a dataset that do not need its shards.

    A folder is what its manifest lists, if that is complete.

    Args:
        paths: Files or folders.
        container: Name of the container that they must have; by default, any.
        allow_incomplete: Whether listed shards may be gone.
        whole: Whether a folder of several splits in an object store is refused.

    Raises:
        SpecError: It is such a folder.
        FileNotFoundError: The path of an object store does not exist.
        FormatError: They have no container, or several; or the manifest is damaged; or listed
            shards are gone, and `allow_incomplete` is false.
    """
    if isinstance(paths[0], Path) or not is_object(paths[0]):
        discovered = find(paths, container)
        return _as_found(paths, discovered, readable_manifest, allow_incomplete=allow_incomplete)
    from .remote_discovery import manifest_loader

    with manifest_loader(paths) as load:
        discovered = find(paths, container, whole=whole)
        return _as_found(paths, discovered, load, allow_incomplete=allow_incomplete)


def _as_found(
    paths: Sequence[AnyPath], discovered: Found, load: LoadManifest, *, allow_incomplete: bool
) -> Found:
    local = isinstance(paths[0], Path)
    shards = discovered.shards
    path = paths[0]
    if len(paths) == 1 and shards and str(shards[0].root) == str(path):
        first = shards[0]
        if local:
            folder = first.sidecar.parent
        else:
            folder = below(first.root, first.sidecars, any_text=True)
        manifest = load(folder / "manifest.json")
        if manifest is None and local:
            _report_others(path, discovered)
        return _as_listed(path, discovered, manifest, load, allow_incomplete=allow_incomplete)
    if len(paths) == 1 and shards and are_parts(paths[0], shards):
        discovered = _parts_as_listed(paths[0], discovered, load, allow_incomplete=allow_incomplete)
        shards = discovered.shards
    manifest = None
    if local or len(shards) > _MANY_OBJECTS:
        manifest = manifest_of(discovered.container, shards, load)
    return replace(
        discovered,
        manifest=manifest,
        incomplete=discovered.incomplete or find_incomplete(paths, shards, load),
    )


def _report_others(path: AnyPath, found: Found) -> None:
    """Log the files of a folder that other containers would read, if the container of the dataset is only read."""
    reader = get_container(found.container)
    recognised = reader.suffixes or getattr(reader, "file_names", ())
    if found.container in container_names(written=True) or not recognised:
        return  # a folder of plain files, perhaps a million, reports itself what it leaves out
    kinds = owners_of(set(names_in(path)).difference(*(shard.files for shard in found.shards)))
    unread = [name for owner, names in kinds.items() if owner != found.container for name in names]
    if unread:
        from bushel._runtime.messages import log_warning

        log_warning(
            "%s: read as %s; other files are not read: %s", path, found.container, few(unread)
        )


def _parts_as_listed(
    path: AnyPath, found: Found, load: LoadManifest, *, allow_incomplete: bool
) -> Found:
    """Return the parts of a run as the manifest of their folder lists them."""
    # the parts of a remote folder are not listed one by one
    if allow_incomplete and is_object(path):
        shards = still_there(found.shards)
    else:
        shards = found.shards
    manifest = load(marker_path(path, ""))
    if manifest is None or not manifest.complete or manifest.container != found.container:
        return replace(found, shards=shards)
    shards, incomplete, unlisted = compared(
        path, shards, manifest, allow_incomplete=allow_incomplete
    )
    return Found(found.container, shards, incomplete, unlisted, listed=found.listed)


def _as_listed(
    path: AnyPath,
    found: Found,
    manifest: Manifest | None,
    load: LoadManifest,
    *,
    allow_incomplete: bool,
) -> Found:
    """Return a dataset in a folder as its manifest lists it."""
    shards = found.shards
    incomplete: Incomplete | None = None
    unlisted: tuple[str, ...] = ()
    # these are the shards of the manifest
    if allow_incomplete and is_object(path) and not path.listable:
        shards = still_there(shards)
    if found.shards[0].sidecars == FOLDER:
        state = manifest
    else:
        state = load(marker_path(path, ""))
    if manifest is not None and manifest.complete and manifest.container == found.container:
        shards, incomplete, unlisted = compared(
            path, shards, manifest, allow_incomplete=allow_incomplete
        )
    elif manifest is not None and not lists_all(manifest, found.container, shards):
        manifest = None
    if incomplete is None and state is not None and not state.complete:
        incomplete = Incomplete(str(path), state.expected)
    elif incomplete is None and (advice := unfinished_at(path, folder=True)) is not None:
        incomplete = Incomplete(str(path), advice=advice)
    return Found(found.container, shards, incomplete, unlisted, manifest, found.listed)


def find(paths: Iterable[AnyPath], container: str | None = None, *, whole: bool = False) -> Found:
    """Return the container of files or folders, and the shards that they form.

    `container` is the name that it must have; by default, any. `whole` is that of `discover`.

    Raises:
        SpecError: See `discover`.
        FileNotFoundError: The only path is of an object store, and does not exist.
        FormatError: They have no container, or several.
    """
    name = container
    shards: list[Shard] = []
    listed: ListedFiles | None = None
    paths = list(paths)
    alone = len(paths) == 1
    located = (
        [(paths[0], _find_at(paths[0], container, alone=True, whole=whole))]
        if alone
        else _find_each(paths, container)
    )
    for path, discovered in located:
        if container is not None and discovered.container != container:
            raise FormatError(
                f"this is a dataset in the container {discovered.container!r}, not {container!r}",
                file=str(path),
                hint=f"leave out container=, or pass container={discovered.container!r}",
            )
        if name is not None and discovered.container != name:
            raise FormatError(
                (
                    f"this is {discovered.container} and the others are {name}: one dataset has one"
                    " container"
                ),
                file=str(path),
                hint="open them one by one and join them with bushel.concat",
            )
        name = discovered.container
        shards += discovered.shards
        listed = discovered.listed if alone else None
    if name is None:
        raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
    return Found(name, shards, listed=listed)


def _find_each(paths: Sequence[AnyPath], container: str | None) -> Iterator[tuple[AnyPath, Found]]:
    """Yield each path with its container and shards. The container of the first path is tried first for the others."""
    if not paths:
        return
    first, *rest = paths
    discovered = _find_at(first, container)
    yield first, discovered
    name = discovered.container
    if not any(map(is_object, rest)):
        for path in rest:
            yield path, _find_at(path, name)
        return
    from bushel._runtime.parallel import parallel_map

    located = parallel_map(
        lambda path: _find_at(path, name),
        rest,
        threads=_LISTINGS,
        limit=len(rest),
        name="bushel-find",
    )
    yield from zip(rest, located, strict=True)


def _find_at(
    path: AnyPath, container: str | None, *, alone: bool = False, whole: bool = False
) -> Found:
    """Return the container and the shards at a path.

    Args:
        path: The path.
        container: The container to try first.
        alone: Whether it is the only path. Then it may be one of a store that does not exist.
        whole: Whether a folder of several splits in a store is refused.
    """
    if isinstance(path, Path) or not is_object(path):
        return Found(*_sniff(path, container))
    from .remote_discovery import ListedPath, listed_in_manifest

    if not path.listable and not is_data_file(path.name):
        return Found(*listed_in_manifest(path))
    folder = ListedPath(path)
    if alone and path.listable and not folder.exists():
        raise missing(path)
    if whole:
        from .splits import refuse_splits

        refuse_splits(path, folder)
    name, shards = _sniff(folder, container)
    shards = [replace(shard, root=path) if shard.root is folder else shard for shard in shards]
    few = alone and len(shards) <= _MANY_OBJECTS
    return Found(
        name,
        shards,
        listed=folder.files(file for shard in shards for file in shard.files) if few else None,
    )


def _sniff(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    file = "" if path.is_dir() else path.name
    names = [file] if file else names_in(path)
    if container is None:
        datasets = []
    else:
        datasets = _ask(path, lambda _: [get_container(container)], names)
    datasets = datasets or _ask(path, candidates, names) or _parts(path, container)
    if not datasets:
        from .by_content import by_content, container_hint, lance_hint
    if not datasets and container is not None:
        datasets = by_content(path, names, container)
        if not datasets:
            raise FormatError(f"no {container} dataset was found here", file=str(path))
    datasets = (
        datasets
        or _ask(path, installed_candidates, names)
        or ([] if file else nested_datasets(path, names))
    )
    datasets = (
        datasets
        or _ask(path, lambda _: last_candidates(file), names)
        or by_content(path, names, None)
    )
    if len(datasets) > 1:
        several = " and ".join(name for name, _ in datasets)
        raise FormatError(
            f"this folder holds {several} files", file=str(path), hint="name one with container="
        )
    if not datasets and set(names) <= {FOLDER}:
        what = "has no data" if names else "is empty"
        raise FormatError(
            f"this folder {what}",
            file=str(path),
            hint="`bushel pack` writes a dataset into a folder",
        )
    if (
        not datasets
        and not file
        and (error := of_several_kinds(path, names, owners_of(names))) is not None
    ):
        raise error
    if not datasets:
        from .repository import splits_hint

        raise FormatError(
            f"this {'file' if file else 'folder'} does not belong to any container that"
            " Bushel reads "
            f"({', '.join(container_names())})",
            file=str(path),
            hint=datasets_in(path, names)
            or lance_hint(path)
            or splits_hint(path)
            or container_hint(path)
            or "`bushel pack` makes a dataset of a folder of plain files",
        )
    return datasets[0]


def names_in(folder: AnyPath) -> list[str]:
    """Return the names in a folder."""
    if isinstance(folder, Path):
        return os.listdir(folder)
    return [entry.name for entry in folder.iterdir()]


def holds_parts(path: AnyPath) -> bool:
    """Return whether a folder holds datasets of parts, such as `part-00000`."""
    try:
        return bool(_parts(path, None))
    except FormatError:  # folders of other files have these names
        return False


def _parts(path: AnyPath, container: str | None) -> list[tuple[str, list[Shard]]]:
    """Return the datasets `part-00000`, … in a folder, which `bushel.pack(..., parts=)` wrote, as one."""
    if path.is_dir():
        parts = [below(path, name) for name in names_in(path) if is_part(name)]
    else:
        parts = []
    parts.sort(key=lambda part: int(part.name[5:]))
    if len(parts) > (_MANY if isinstance(path, Path) else 1) and (
        listed := _listed_parts(path, parts, container)
    ):
        return [listed]
    # it is missing: the run ended before its first shard
    parts = [part for part in parts if not _is_empty(part)]
    if not parts:
        return []
    joined = find(parts, container)
    return [(joined.container, joined.shards)]


def _listed_parts(
    path: AnyPath, parts: Sequence[AnyPath], container: str | None
) -> tuple[str, list[Shard]] | None:
    """Return the shards of parts as the manifest of their folder lists them; None if it does not list all parts."""
    manifest = find_manifest(marker_path(path, ""))
    if manifest is None or not manifest.complete or container not in (None, manifest.container):
        return None
    folders = {part.name: part for part in parts}
    shards = []
    for entry in manifest.shards:
        part, _, name = entry.name.partition("/")
        if part in folders:
            shards.append(shard_of_entry(folders[part], name, entry))
    if {shard.root.name for shard in shards} == folders.keys():
        return manifest.container, shards
    return None


def _is_empty(part: AnyPath) -> bool:
    """Return whether a local folder contains only files that writers leave beside a dataset."""
    if not isinstance(part, Path) or not part.is_dir():
        return False
    with os.scandir(part) as entries:
        return all(entry.name == FOLDER for entry in entries)


def _ask(
    path: AnyPath, choose: Callable[[list[str]], list[Container]], names: list[str]
) -> list[tuple[str, list[Shard]]]:
    """Return the datasets at a path, of the containers that may own the names there."""
    datasets = []
    for kind in choose(names):
        shards = kind.shards(path)
        if shards is not None:
            datasets.append((kind.name, shards))
    return datasets
