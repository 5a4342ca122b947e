"""From what a user names to the files of a dataset."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO

from bushel.containers import containers, get_container
from bushel.containers.base import Shard
from bushel.core.index.sidecar import FOLDER, load_manifest
from bushel.core.parallel import parallel_map
from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path
from bushel.storage.objects.location import ObjectPath

__all__ = ["Found", "expand_braces", "expand_paths", "find", "is_stream"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_COMPRESSED = (".tgz", ".tbz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
_AT_ONCE = 32
"""Paths in object stores that are looked at together."""
_SUFFIXES = frozenset({".bag", *(each.suffix for each in containers() if each.suffix)})


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a dataset, before any of them is read.

    Attributes:
        container: Name of the container.
        shards: The shards in order.
    """

    container: str
    shards: list[Shard]


def expand_braces(pattern: str) -> list[str]:
    """Expand `{000..146}` (numbers keep the width of the first) and `{a,b}`; several braces nest left to right.

    Raises:
        ValueError: A range goes backwards.
    """
    match = _BRACES.search(pattern)
    if match is None:
        return [pattern]
    head, tail = pattern[: match.start()], pattern[match.end() :]
    if limits := _RANGE.fullmatch(match[1]):
        low, high = int(limits[1]), int(limits[2])
        if high < low:
            raise ValueError(f"{pattern!r}: the range {match[0]} goes backwards")
        options = [str(number).zfill(len(limits[1])) for number in range(low, high + 1)]
    else:
        options = match[1].split(",")
    return list(itertools.chain.from_iterable(expand_braces(head + option + tail) for option in options))


def expand_paths(source: object) -> list[AnyPath]:
    """The paths that a path, a glob, a brace pattern or a list of these stands for.

    A pattern is tried as a pattern only when no file has exactly this name.

    Raises:
        FileNotFoundError: Nothing is there.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        paths = [path for one in source for path in expand_paths(one)]
        if not paths:
            raise FileNotFoundError("an empty list of paths is no dataset")
        return paths
    if isinstance(source, str) and "://" not in source and not os.path.exists(source):
        paths = []
        for name in expand_braces(source):
            if glob.has_magic(name):
                matches: list[str] = sorted(glob.glob(name))
                if not matches:
                    raise FileNotFoundError(f"no file matches {name}")
                paths += [Path(match) for match in matches]
            else:
                paths.append(Path(name))
        missing = next((path for path in paths if not path.exists()), None)
        if missing is not None:
            raise FileNotFoundError(f"there is no file or folder {missing}")
        return list(paths)
    path = as_path(source)
    if isinstance(path, ObjectPath) and not path.listable:  # a folder of an HTTP server may be anything, even a page
        return [path for url in expand_braces(str(path)) for path in _expand_url(url)]
    if path.exists():
        return [path]
    if isinstance(path, ObjectPath) and (expand_braces(str(path)) != [str(path)] or glob.has_magic(path.key)):
        return [path for url in expand_braces(str(path)) for path in _expand_url(url)]
    raise FileNotFoundError(f"there is no file or folder {path}")


def _expand_url(url: str) -> list[ObjectPath]:
    """The objects that a URL stands for, in which the key may be a glob. One without is not looked for yet."""
    path = ObjectPath.parse(url)
    if not glob.has_magic(path.key):
        return [path]
    parts = path.key.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    folder = ObjectPath(path.root, "/".join(parts[:fixed]))
    matches = list(folder.glob("/".join(parts[fixed:])))
    if not matches:
        raise FileNotFoundError(f"no object matches {url}")
    return matches


def is_stream(source: object) -> bool:
    """Return whether a source can only be read forward. Its name or type decides; nothing is opened."""
    if isinstance(source, str):
        return source.startswith("pipe:") or source == "-" or source.endswith(_COMPRESSED)
    if isinstance(source, list | tuple):
        return any(is_stream(one) for one in source)
    if hasattr(source, "open") or isinstance(source, os.PathLike):
        return str(source).endswith(_COMPRESSED)
    return hasattr(source, "read")


def find(paths: Iterable[AnyPath], container: str | None = None) -> Found:
    """Find out which container the files are of, and which shards they make.

    Args:
        paths: Files or folders.
        container: Its name, when it is to be this one.

    Raises:
        FormatError: They are of no container, or of several.
    """
    name = container
    shards: list[Shard] = []
    for path, found, own in _find_each(list(paths), container):
        if name is not None and found != name:
            raise FormatError(
                f"this is a {found} and the others are {name}: one dataset has one container",
                file=str(path),
                hint="open them one by one and join them with bushel.concat",
            )
        name = found
        shards += own
    if name is None:
        raise FileNotFoundError("no paths were given")
    return Found(name, shards)


def _find_each(paths: Sequence[AnyPath], container: str | None) -> Iterator[tuple[AnyPath, str, list[Shard]]]:
    """The container and the shards at each path. What the first is, the others are taken for."""
    if not paths:
        return
    first, *others = paths
    name, shards = _find_one(first, container)
    yield first, name, shards
    if not any(isinstance(path, ObjectPath) for path in others):
        for path in others:
            yield path, *_find_one(path, name)
        return
    each = parallel_map(
        lambda path: _find_one(path, name), others, workers=_AT_ONCE, limit=len(others), name="bushel-find"
    )
    for path, found in zip(others, each, strict=True):
        yield path, *found


def _find_one(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    if not isinstance(path, ObjectPath):
        return _look(path, container)
    if not path.listable and path.suffix not in _SUFFIXES:
        return _from_manifest(path)
    name, shards = _look(seen := _Seen(path), container)
    return name, [replace(shard, root=path) if shard.root is seen else shard for shard in shards]


def _from_manifest(path: ObjectPath) -> tuple[str, list[Shard]]:
    """What a manifest of Bushel's says is in a folder, where the server does not tell."""
    for sidecars in (FOLDER, f"000000/{FOLDER}"):
        manifest = load_manifest(path / sidecars / "manifest.json")
        if manifest is not None:
            shards = []
            for entry in manifest.shards:
                own = FOLDER if sidecars == FOLDER else f"{entry.name}/{FOLDER}"
                shards.append(Shard(path, entry.name, tuple(stamp.name for stamp in entry.stamps), own))
            return manifest.container, shards
    raise FileNotFoundError(
        f"{path} has no name that a container's files have, and no {FOLDER}/manifest.json, without which a folder of "
        f"an HTTP server cannot be read: run `bushel index` on the dataset before it is put there, or name its files"
    )


class _Seen:
    """A path in an object store of which is remembered, while containers look at it, what the store said."""

    def __init__(self, path: ObjectPath) -> None:
        self._path, self.name, self.parent = path, path.name, path.parent

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str) -> ObjectPath:
        return self._path / name

    @cached_property
    def _entries(self) -> list[ObjectPath]:
        try:
            return list(self._path.iterdir()) if self._path.listable else []
        except PermissionError:
            if self._path.is_file():  # some buckets let everyone read and nobody look
                return []
            raise

    def is_dir(self) -> bool:
        return bool(self._entries)

    def is_file(self) -> bool:
        return self._path.is_file()

    def exists(self) -> bool:
        return self.is_dir() or self.is_file()

    def iterdir(self) -> Iterator[ObjectPath]:
        return iter(self._entries)

    def stat(self) -> object:
        return self._path.stat()

    def open(self, mode: str = "rb") -> IO[bytes]:
        return self._path.open(mode)


def _look(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    candidates = containers() if container is None else [get_container(container)]
    found = [(each.name, shards) for each in candidates if (shards := each.shards(path)) is not None]
    if not found and container is not None:
        found = [(each.name, shards) for each in containers() if (shards := each.shards(path)) is not None]
        if not found:
            raise FormatError(f"there is no {container} dataset here", file=str(path))
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise FormatError(f"this folder holds {names} files", file=str(path), hint="name one with container=")
    if not found:
        what = "folder" if path.is_dir() else "file"
        raise FormatError(
            f"this {what} is none of the five containers (bag, tar, ffrecord, gulp, recordio)",
            file=str(path),
            hint="`bushel pack` makes a dataset of a folder of plain files",
        )
    return found[0]
