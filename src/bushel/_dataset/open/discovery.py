"""Discovery: find the container and the files of the dataset at a path, by their names or their first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import find_manifest
from bushel._runtime.messages import few, log_warning
from bushel.containers import (
    Container,
    candidates,
    container_names,
    containers_with_first_bytes,
    get_container,
    installed_candidates,
    is_data_file,
    last_candidates,
    owners_of,
)
from bushel.errors import FormatError
from bushel.storage import AnyPath, below, is_object, names_in, open_file, real_file

from .completeness import is_part, marker_path, shard_of_entry
from .shards import Found
from .sources import missing, refuse_splits

_LISTINGS = 32  # number of paths in object stores that are listed at the same time
_MANY, MANY_OBJECTS = 1000, 32
"""If there are more local files or objects than this, they are opened as the manifest of their folder lists them."""

_HEAD = 16  # bytes of a file that tell its container
_NUMBERED = re.compile(r"[^.]*[0-9]")

Datasets: TypeAlias = list[tuple[str, list[Shard]]]
"""The names of containers, each with the shards of a dataset."""


def find(paths: Iterable[AnyPath], container: str | None = None, *, whole: bool = False) -> Found:
    """Return the container of files or folders, and the shards that they form.

    `container` is the name that it must have; by default, any. `whole` is that of `discover`.

    Raises:
        SpecError: See `discover`.
        FileNotFoundError: The only path is of an object store, and does not exist.
        FormatError: They have no container, or several.
    """
    paths = list(paths)
    if not paths:
        raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
    name, shards = container, list[Shard]()
    for path, found in zip(paths, _find_each(paths, container, whole=whole), strict=True):
        if container is not None and found.container != container:
            raise FormatError(
                f"this is a dataset in the container {found.container!r}, not {container!r}",
                path,
                hint=f"leave out container=, or pass container={found.container!r}",
            )
        if name is not None and found.container != name:
            raise FormatError(
                f"this is {found.container} and the others "
                f"are {name}: one dataset has one container",
                path,
                hint="open them one by one and join them with bushel.concat",
            )
        name = found.container
        shards += found.shards
    return replace(found, shards=shards)


def _find_each(paths: Sequence[AnyPath], container: str | None, *, whole: bool) -> Iterator[Found]:
    """Yield the container and the shards at each path. The container of the first is tried first for the others."""
    first, *rest = paths
    found = _find_at(first, container, alone=not rest, whole=whole)
    yield found
    look = partial(_find_at, container=found.container)
    if not any(map(is_object, rest)):
        yield from map(look, rest)
        return
    from bushel._runtime.parallel import parallel_map

    yield from parallel_map(look, rest, threads=_LISTINGS, limit=len(rest), name="bushel-find")


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
        name, shards = _sniff(path, container)
        return Found(name, with_links(path, name, shards))
    from .remote_discovery import ListedPath, listed_in_manifest

    if not path.listable and not is_data_file(path.name):
        return Found(*listed_in_manifest(path))
    folder = ListedPath(path)
    if alone and path.listable and not folder.exists():
        raise missing(path)
    if whole and alone:
        refuse_splits(path, folder)
    name, shards = _sniff(folder, container)
    shards = [replace(shard, root=path) if shard.root is folder else shard for shard in shards]
    are_few = alone and len(shards) <= MANY_OBJECTS
    return Found(
        name,
        shards,
        listed=folder.files(file for shard in shards for file in shard.files) if are_few else None,
    )


def with_links(path: AnyPath, container: str, shards: list[Shard]) -> list[Shard]:
    """Return the shards at a path with the files that links there name.

    Shards whose links lead nowhere are left out. Raise FileNotFoundError if all are.
    """
    real, links = real_file(path), dict[str, AnyPath]()
    is_written = bool(shards) and get_container(container).is_written
    # a folder of plain files may have a million
    has_few = is_written or (shards and shards[0].name)
    if isinstance(path, Path) and path.is_dir() and has_few:
        paths = [Path(entry.path) for entry in os.scandir(path) if entry.is_symlink()]
        # but not in the Hub's cache, where files have other names
        real_paths = zip(paths, map(real_file, paths), strict=True)
        links = {link.name: file for link, file in real_paths if file is not link}
        gone = {link.name for link in paths if not os.path.exists(link)}
        if gone:
            log_warning("%s: left out links that lead nowhere: %s", path, few(sorted(gone)))
            shards = [shard for shard in shards if gone.isdisjoint(shard.files)]
            if not shards:
                raise missing(below(path, min(gone), any_text=True))
    elif real is not path:
        links = {path.name: real}
        # what Bushel keeps of a linked file is beside it, and other files are beside the link
        if is_written and len(shards[0].files) == 1 and below(real.parent, FOLDER).is_dir():
            links = {real.name: path}
            shards = _sniff(real, container)[1]
    if links:
        shards = [replace(shard, alias=links.get(shard.files[0], shard.alias)) for shard in shards]
    return shards


def _sniff(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    """Return the container and the shards at a path, of a container if it has such ones.

    Raises:
        FormatError: It has no container, or several.
    """
    file = "" if path.is_dir() else path.name
    names = [file] if file else names_in(path)
    datasets = next(filter(None, _attempts(path, file, names, container)), [])
    if len(datasets) > 1:
        several = " and ".join(name for name, _ in datasets)
        raise FormatError(
            f"this folder holds {several} files", path, hint="name one with container="
        )
    if not datasets:
        raise _unowned(path, file, names)
    return datasets[0]


def _attempts(
    path: AnyPath, file: str, names: list[str], container: str | None
) -> Iterator[Datasets]:
    """Yield the datasets that containers find at a path, those first that are the most certain.

    Raises:
        FormatError: A container is named, and has none.
    """
    if container is not None:
        yield _ask(path, [get_container(container)])
    yield _ask(path, candidates(names))
    yield _parts(path, container)
    if container is not None:
        yield _by_content(path, names, container)
        raise FormatError(
            f"no {container} dataset was found here",
            path,
            hint="one dataset has one container, that of container= or of its first path: "
            "open this path by itself, without container=",
        )
    yield _ask(path, installed_candidates(names))
    yield _ask(path, last_candidates(file))
    yield _by_content(path, names, None)


def _ask(path: AnyPath, kinds: Iterable[Container]) -> Datasets:
    """Return the datasets of some containers at a path."""
    datasets = ((kind.name, kind.shards(path)) for kind in kinds)
    return [(name, shards) for name, shards in datasets if shards is not None]


def _unowned(path: AnyPath, file: str, names: list[str]) -> FormatError:
    """Return the error of a path that no container owns."""
    if set(names) <= {FOLDER}:
        return FormatError(
            f"this folder {'has no data' if names else 'is empty'}",
            path,
            hint="`bushel pack` writes a dataset into a folder",
        )
    if not file and (error := _of_several_kinds(path, names, owners_of(names))) is not None:
        return error
    from .repository import splits_hint

    lance_hint = None
    if path.name.endswith(".lance"):
        packed = f"bushel.pack(lance.dataset({str(path)!r}), 'out.tar')"
        lance_hint = f"Lance's own package reads it: {packed}"
    return FormatError(
        f"this {'file' if file else 'folder'} does not belong to any "
        f"container that Bushel reads ({', '.join(container_names())})",
        path,
        hint=_datasets_in(path, names)
        or lance_hint
        or splits_hint(path)
        or _container_hint(path)
        or (
            "of plain files, open or pack the folder; others are read by their own package "
            "(h5py, lmdb, scipy, …): bushel.pack(samples, 'out.tar') takes dicts from any iterable"
        ),
    )


def _of_several_kinds(
    path: AnyPath, names: Iterable[str], kinds: Mapping[str, Sequence[str]]
) -> FormatError | None:
    """Return the error of a folder that no container owns, and in which some containers (`kinds`) own files.

    None if all files belong to one container, or none do.
    """
    owned = {name for files in kinds.values() for name in files}
    described = [f"{container} ({few(examples)})" for container, examples in kinds.items()]
    if unowned := sorted(name for name in names if name not in owned and not name.startswith(".")):
        described.append(f"others ({few(unowned)})")
    if not kinds or len(described) < 2:
        return None
    first = next(iter(kinds.values()))[0]
    pattern = f"{str(path).rstrip('/')}/*{first[first.index('.', 1) :]}"
    return FormatError(
        f"this folder holds files of several kinds: {', '.join(described)}",
        path,
        hint=(
            f"name the files of one kind, such as bushel.open({pattern!r}), "
            "or move the others to another folder"
        ),
    )


def _datasets_in(path: AnyPath, names: Iterable[str]) -> str | None:
    """Return a hint that names the datasets in sub-folders; None without any.

    They are datasets as `bushel split` writes them, or the streams of one of MDS. A split that was
    opened has tables in its folder, and no manifest.
    """
    if not isinstance(path, Path):
        return None
    lists = (f"{FOLDER}/manifest.json", "index.json")
    inner = sorted(name for name in names if any((path / name / file).is_file() for file in lists))
    if not inner:
        return None
    return (
        f"its sub-folders are datasets: {few([str(path / name) for name in inner])}. "
        "Name one of them; container='mds' joins the streams of MDS"
    )


def _container_hint(path: AnyPath) -> str | None:
    """Return a hint that names a container which may be meant, by the names of the files; None without one."""
    named = [name for name, shards in _ask(path, containers_with_first_bytes()) if shards]
    if named:
        return f"if these are {named[0]} files, pass container={named[0]!r}"
    return None


def holds_parts(path: AnyPath) -> bool:
    """Return whether a folder holds datasets of parts, such as `part-00000`."""
    try:
        return bool(_parts(path, None))
    except FormatError:  # folders of other files have these names
        return False


def _parts(path: AnyPath, container: str | None) -> Datasets:
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


# Files whose names say nothing, such as `train-00000-of-00010` and `part-00000`, are recognised by
# their first bytes. Only local files are read for that, unless the caller names the container.


def _by_content(path: AnyPath, names: Iterable[str], container: str | None) -> Datasets:
    """Return the datasets of a file, or of a folder of files, that no container owns by its name.

    In a folder, these are numbered files without an ending, or else files with any endings. All
    files of an ending that are not empty begin as the container prescribes. A file is of the
    container that the caller names, which checks it when it is read.

    Args:
        path: The file or folder.
        names: The names in it.
        container: The only container to try; None for all.

    Raises:
        FormatError: The named container has several files per shard, which are found by their names.
    """
    if container is None:
        kinds = []
        if isinstance(path, Path):
            kinds = containers_with_first_bytes()
    elif path.is_file():
        return _of_the_name(path, get_container(container))
    else:
        kinds = [kind for kind in containers_with_first_bytes() if kind.name == container]
    if not path.is_dir():
        return [(kind.name, [Shard.of(path)]) for kind in kinds if _all_begin(kind, [path])]
    # the names of files that may belong together, by their endings
    groups: dict[str, list[str]] = {}
    for name in sorted(names) if kinds else ():
        _, dot, ending = name.rpartition(".")
        if not name.startswith((".", "_")) and (dot or _NUMBERED.fullmatch(name)):
            groups.setdefault(ending if dot else "", []).append(name)
    datasets = []
    for kind in kinds:
        matching = {
            end: group
            for end, group in groups.items()
            if _all_begin(kind, [below(path, name) for name in group])
        }
        chosen = matching.get("") or sorted(chain.from_iterable(matching.values()))
        if chosen:
            datasets.append((kind.name, [Shard(path, name, (name,)) for name in chosen]))
    return datasets


def _of_the_name(path: AnyPath, container: Container) -> Datasets:
    """Return the dataset of a file, which the caller says is of a container.

    Raises:
        FormatError: It takes several files, which are found by their names.
    """
    if container.files_per_shard > 1:
        raise FormatError(
            f"a dataset of {container.name} has {container.files_per_shard} "
            "files, which are found by their names",
            path,
            hint=f"give both files the suffixes of {container.name}, "
            f"and open the one with {container.suffixes[0]}",
        )
    if container.suffixes:
        return [(container.name, [Shard.of(path)])]
    return []


def _all_begin(container: Container, paths: Sequence[AnyPath]) -> bool:
    """Return whether all files that are not empty begin as a container prescribes, and at least one does."""
    if not all(path.is_file() for path in paths):
        return False
    filled = (file for file in map(open_file, paths) if file.size)
    begin = (
        container.begins_with(bytes(file.read(0, min(file.size, _HEAD))), file.size)
        for file in filled
    )
    return next(begin, False) and all(begin)
