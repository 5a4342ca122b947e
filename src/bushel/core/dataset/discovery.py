"""Discovery: from what a user names to the container and the files of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bushel.containers import FILE_NAMES, Container, get_container
from bushel.containers.base import Shard
from bushel.core.dataset.completeness import interrupted_write
from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path, is_object

__all__ = ["Found", "expand_paths", "find", "is_stream"]

_COMPRESSED = (".tgz", ".tbz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
_PATTERN = frozenset("{*?[")
_LISTINGS = 32
"""Number of paths in object stores that are listed at the same time."""


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a dataset, before any of them is read.

    Attributes:
        container: Name of the container.
        shards: The shards in order.
    """

    container: str
    shards: list[Shard]


def is_stream(source: object) -> bool:
    """Return whether a source can only be read forward. Its name or type decides; nothing is opened."""
    if isinstance(source, str):
        return source.startswith("pipe:") or source == "-" or source.endswith(_COMPRESSED)
    if isinstance(source, list | tuple):
        return any(is_stream(one) for one in source)
    if hasattr(source, "open") or isinstance(source, os.PathLike):
        return str(source).endswith(_COMPRESSED)
    return hasattr(source, "read")


def expand_paths(source: object) -> list[AnyPath]:
    """Return the paths that a path, a glob, a brace pattern or a list of these stands for.

    Text is taken as a pattern only if no file has exactly this name.

    Raises:
        FileNotFoundError: A file or folder does not exist, or nothing matches the pattern.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        paths = [path for one in source for path in expand_paths(one)]
        if not paths:
            raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
        return paths
    path = as_path(source)
    if isinstance(path, Path):
        if path.exists():
            return [path]
        if isinstance(source, str) and not _PATTERN.isdisjoint(source):
            return list(_expand_local(source))
    elif is_object(path):
        from bushel.core.dataset.remote_discovery import expand_url

        if not path.listable:  # an HTTP server answers any request for a folder, even with a page
            return list(expand_url(str(path)))
        if path.exists():
            return [path]
        if not _PATTERN.isdisjoint(str(path)):
            return list(expand_url(str(path)))
    elif path.exists():
        return [path]
    advice = interrupted_write(path)
    raise FileNotFoundError(f"there is no file or folder {path}" + (f", but {advice}" if advice else ""))


def _expand_local(pattern: str) -> Iterator[Path]:
    import glob

    from bushel.storage import expand_braces

    for name in expand_braces(pattern) if "{" in pattern else [pattern]:
        if glob.has_magic(name):
            matches = sorted(glob.glob(name))
            if not matches:
                raise FileNotFoundError(f"no file matches {name}")
            yield from map(Path, matches)
        elif os.path.exists(name):
            yield Path(name)
        else:
            raise FileNotFoundError(f"there is no file or folder {name}")


def find(paths: Iterable[AnyPath], container: str | None = None) -> Found:
    """Return the container of files or folders, and the shards that they form.

    Args:
        paths: Files or folders.
        container: Name of the container that they must have; by default, any.

    Raises:
        FormatError: They have no container, or several.
    """
    name = container
    shards: list[Shard] = []
    for path, found, own in _find_each(list(paths), container):
        if name is not None and found != name:
            raise FormatError(
                f"this is {found} and the others are {name}: one dataset has one container",
                file=str(path),
                hint="open them one by one and join them with bushel.concat",
            )
        name = found
        shards += own
    if name is None:
        raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
    return Found(name, shards)


def _find_each(paths: Sequence[AnyPath], container: str | None) -> Iterator[tuple[AnyPath, str, list[Shard]]]:
    """Yield each path with its container and shards. The container of the first path is tried first for the others."""
    if not paths:
        return
    first, *others = paths
    name, shards = _find_at(first, container)
    yield first, name, shards
    if not any(map(is_object, others)):
        for path in others:
            yield path, *_find_at(path, name)
        return
    from bushel.core.parallel import parallel_map

    each = parallel_map(
        lambda path: _find_at(path, name), others, workers=_LISTINGS, limit=len(others), name="bushel-find"
    )
    for path, found in zip(others, each, strict=True):
        yield path, *found


def _find_at(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    """Return the container and the shards at a path. `container` is tried first if given."""
    if isinstance(path, Path) or not is_object(path):
        return _sniff(path, container)
    from bushel.core.dataset.remote_discovery import ListedPath, listed_in_manifest

    if not path.listable and not path.name.endswith((".bag", ".tar", ".ffr", ".gulp", ".rec")):
        return listed_in_manifest(path)
    name, shards = _sniff(listed := ListedPath(path), container)
    return name, [replace(shard, root=path) if shard.root is listed else shard for shard in shards]


def _sniff(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    found = [] if container is None else _ask([get_container(container)], path)
    found = found or _ask(_candidates(path), path)
    if not found and container is not None:
        raise FormatError(f"there is no {container} dataset here", file=str(path))
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise FormatError(f"this folder holds {names} files", file=str(path), hint="name one with container=")
    if not found:
        raise FormatError(
            f"this {'folder' if path.is_dir() else 'file'} does not belong to any of the five containers (bag, tar, "
            "ffrecord, gulp, recordio)",
            file=str(path),
            hint=interrupted_write(path) or "`bushel pack` makes a dataset of a folder of plain files",
        )
    return found[0]


def _ask(candidates: Iterable[Container], path: AnyPath) -> list[tuple[str, list[Shard]]]:
    return [(each.name, shards) for each in candidates if (shards := each.shards(path)) is not None]


def _candidates(path: AnyPath) -> list[Container]:
    """Return the containers that may own the files at a path, judged by the names of the files."""
    names = (entry.name for entry in path.iterdir()) if path.is_dir() else (path.name,)
    owners = {match.lastgroup for match in map(FILE_NAMES.fullmatch, names) if match}
    return [get_container(name) for name in FILE_NAMES.groupindex if name in owners]
