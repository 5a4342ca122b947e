"""Files whose names say nothing, such as `train-00000-of-00010` and `part-00000`: recognise them by their first bytes.

Only local files are read for it, unless the caller names the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from bushel._index.table import Shard
from bushel.containers import Container, containers_with_first_bytes, get_container
from bushel.errors import FormatError
from bushel.storage import AnyPath, below, open_file

_HEAD = 16
_NUMBERED = re.compile(r"[^.]*[0-9]")


def by_content(
    path: AnyPath, names: Iterable[str], container: str | None
) -> list[tuple[str, list[Shard]]]:
    """Return the datasets of a file, or of a folder of files, that no container owns by its name.

    In a folder, these are numbered files without an ending, or else files with any endings. All
    files of an ending that are not empty begin as the container prescribes. A file is of the
    container that the caller names, which checks it when it is read.

    Args:
        path: The file or folder.
        names: The names in it.
        container: The only container to try; None for all.
    """
    if container is None and not isinstance(path, Path):
        return []
    if container is not None and path.is_file():
        return _of_the_name(path, get_container(container))
    tried = [
        candidate
        for candidate in containers_with_first_bytes()
        if container in (None, candidate.name)
    ]
    if not tried:
        return []
    if not path.is_dir():
        return [
            (candidate.name, [Shard.of(path)]) for candidate in tried if _begins(candidate, path)
        ]
    datasets = []
    groups = _groups(names)
    for candidate in tried:
        matching = {
            end: group
            for end, group in groups.items()
            if _all_begin(candidate, [below(path, name) for name in group])
        }
        if chosen := matching.get("") or sorted(chain.from_iterable(matching.values())):
            datasets.append((candidate.name, [Shard(path, name, (name,)) for name in chosen]))
    return datasets


def _of_the_name(path: AnyPath, container: Container) -> list[tuple[str, list[Shard]]]:
    """Return the dataset of a file, which the caller says is of a container.

    Raises:
        FormatError: It takes several files, which are found by their names.
    """
    if container.files_per_shard > 1:
        raise FormatError(
            f"a dataset of {container.name} has {container.files_per_shard} files, which are found by"
            " their names",
            file=str(path),
            hint=f"give both files the suffixes of {container.name}, and open the one with"
            f" {container.suffixes[0]}",
        )
    if container.suffixes:
        return [(container.name, [Shard.of(path)])]
    return []


def lance_hint(path: AnyPath) -> str | None:
    """Return how a dataset of Lance is packed, whose files are not read in place; None for another path."""
    if not path.name.endswith(".lance"):
        return None
    return f"Lance's own package reads it: bushel.pack(lance.dataset({str(path)!r}), 'out.tar')"


def container_hint(path: AnyPath) -> str | None:
    """Return a hint that names a container which may be meant, by the names of the files; None without one."""
    named = [
        candidate.name for candidate in containers_with_first_bytes() if candidate.shards(path)
    ]
    if named:
        return f"if these are {named[0]} files, pass container={named[0]!r}"
    return None


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of files that may belong together, by their endings."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        stem, dot, ending = name.rpartition(".")
        if not name.startswith((".", "_")) and (dot or _NUMBERED.fullmatch(name)):
            groups.setdefault(ending if dot else "", []).append(name)
    return groups


def _all_begin(container: Container, files: Sequence[AnyPath]) -> bool:
    """Return whether all files that are not empty begin as a container prescribes, and at least one does."""
    if not all(file.is_file() for file in files):
        return False
    filled = (file for file in files if open_file(file).size)
    first = next(filled, None)
    return (
        first is not None
        and _begins(container, first)
        and all(_begins(container, file) for file in filled)
    )


def _begins(container: Container, path: AnyPath) -> bool:
    file = open_file(path)
    return container.begins_with(bytes(file.read(0, min(file.size, _HEAD))), file.size)
