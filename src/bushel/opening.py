"""From what a user names to the files of a dataset."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bushel.containers import containers, get_container
from bushel.containers.base import Shard
from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path

__all__ = ["Found", "expand_braces", "expand_paths", "find"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


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
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    return [path]


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
    for path in paths:
        found, own = _find_one(path, name)
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


def _find_one(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
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
            hint="a folder of plain files becomes a dataset with bushel.Writer or `bushel convert`",
        )
    return found[0]
