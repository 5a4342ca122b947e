"""Finding the shards of a dataset, however damaged it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bushel.containers import Container, containers, get_container
from bushel.containers.base import Shard
from bushel.core.dataset.discovery import expand_paths, find
from bushel.core.dataset.load_index import manifest_path
from bushel.core.index.sidecar import load_manifest
from bushel.core.writer.shard_writer import ShardInProgress
from bushel.errors import FormatError
from bushel.integrity.report import Findings, Problem
from bushel.storage import AnyPath

__all__ = ["Place", "discover"]


@dataclass(frozen=True, slots=True)
class Place:
    """A shard to check.

    Attributes:
        container: What it is.
        shard: Its files.
    """

    container: Container
    shard: Shard


def discover(source: Any, container: str | None, found: Findings) -> list[Place]:
    """The shards of a dataset; what keeps others from being told apart becomes a problem.

    Raises:
        FileNotFoundError: Nothing is there.
        FormatError: There is no dataset, or several in one.
    """
    paths = expand_paths(source)
    try:
        whole = find(paths, container)
    except FormatError:
        places = _salvage(paths, container, found)
        if not found.problems:
            raise
        return places
    for path in paths:
        if path.is_dir():
            _check_manifest(path, [shard for shard in whole.shards if shard.root == path], found)
    return [Place(get_container(whole.container), shard) for shard in whole.shards]


def _salvage(paths: Sequence[AnyPath], container: str | None, found: Findings) -> list[Place]:
    """What can be told apart of a dataset whose shards cannot be told: folder by folder, file by file."""
    candidates = containers() if container is None else [get_container(container)]
    places: list[Place] = []
    told: set[str] = set()
    for path in paths:
        for candidate in candidates:
            try:
                shards = candidate.shards(path)
            except FormatError as error:
                _tell(error, told, found)
                shards = _children(candidate, path, told, found)
            places += [Place(candidate, shard) for shard in shards or ()]
    return places


def _children(container: Container, path: AnyPath, told: set[str], found: Findings) -> list[Shard]:
    shards: list[Shard] = []
    if path.is_dir():
        children = sorted(path.iterdir(), key=lambda child: str(child.name))
        for child in (child for child in children if container.suffix or child.is_dir()):
            try:
                shards += [_from(path, child, shard) for shard in container.shards(child) or ()]
            except FormatError as error:
                _tell(error, told, found)
    return shards


def _from(path: AnyPath, child: AnyPath, shard: Shard) -> Shard:
    """A folder that is a shard of its parent, named as its index names it."""
    if shard.name:
        return shard
    files = tuple(f"{child.name}/{name}" for name in shard.files)
    return Shard(path, child.name, files, f"{child.name}/{shard.sidecars}")


def _tell(error: FormatError, told: set[str], found: Findings) -> None:
    if str(error) not in told:
        told.add(str(error))
        found.fault(error)


def _check_manifest(path: AnyPath, shards: Sequence[Shard], found: Findings) -> None:
    """Compare the shards that are there with those that the manifest lists, and look for an unfinished write."""
    place = manifest_path(shards)
    if place is None:
        return
    try:
        manifest = load_manifest(place)
    except FormatError as error:
        found.fault(error, "index")
        manifest = None
    if manifest is not None:
        listed, there = {entry.name for entry in manifest.shards}, {shard.name for shard in shards}
        for name in sorted(listed - there):
            message = f"the shard is in {place.name} and not here"
            found.add(Problem(str(path / name), None, None, None, "missing", message))
        for name in sorted(there - listed):
            message = "the shard came after the dataset was indexed: run `bushel index`"
            found.add(Problem(str(path / name), None, None, None, "stale", message))
    for folder in ShardInProgress.staged(path, None):
        message = "an interrupted write left this: go on with mode='resume', or delete it"
        found.add(Problem(str(folder), None, None, None, "unfinished", message))
