"""Refuse to pack a source into itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from bushel._dataset.open.as_listed import discover
from bushel._dataset.open.binding import bind, stamps_of
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel.errors import FormatError, StateError
from bushel.sources.base import Source
from bushel.sources.files import Files, LabelledFolder
from bushel.sources.samples import Stream
from bushel.storage import AnyPath, as_path, is_object

from .prepared import PackOptions

_Place = tuple[str, ...]  # the parts of a resolved path, or of a URL


def refuse_own_source(
    source: Any, opened: Dataset | Source | Stream, target: AnyPath, options: PackOptions
) -> None:
    """Check that a target is not the source, is not in the folder of the source, and does not contain the source.

    With `mode="overwrite"` it may be the source or contain it, as the new dataset then replaces the
    old one when it is complete; but not in parts, which replace the old parts one by one.

    Args:
        source: The source as it was given: a path, a list of paths, or any object.
        opened: The same source, opened.
        target: The path to write to.
        options: The arguments of `pack`.

    Raises:
        FileExistsError: It is one of these.
        StateError: The target is to be replaced by samples of a dataset there that has changed
            since it was opened.
    """
    place_of_target = _resolved(target)
    replaces = options.writer.mode == "overwrite" and not options.in_parts
    if replaces and isinstance(source, Dataset) and target.exists():
        _refuse_changed(source, target, place_of_target)
    for path, place in _places(source, opened, place_of_target):
        is_inside = len(place) < len(place_of_target)
        if not overlap(place, place_of_target) or (replaces and not is_inside):
            continue
        if place == place_of_target:
            what = f"{target} is the source itself"
        elif is_inside:
            what = f"{target} is in the source {path}"
        else:
            what = f"{target} contains the source {path}"
        advice = "write to another path"
        if isinstance(opened, Dataset) and not is_inside:
            advice += ", or replace the source with mode='overwrite'" + (
                " and without parts" if options.in_parts else ""
            )
        raise FileExistsError(f"{what}: {advice}")


def _refuse_changed(dataset: Dataset, target: AnyPath, place: _Place) -> None:
    """Check that a dataset whose files are to be replaced is as it was when the caller opened it.

    Another writer may have had the target since then, and what that one wrote would be lost.
    """
    overlapping = [
        shard
        for shard in dataset.shards
        if overlap((*_resolved(shard.shard.root), *shard.shard.files[:1]), place)
    ]
    if not overlapping:
        return
    opened = {os.path.realpath(str(shard.path(0))) for shard in overlapping}
    later = (str(shard.path(0)) for shard in discover([target], allow_incomplete=True).shards)
    new = (path for path in later if os.path.realpath(path) not in opened)
    changed = (str(shard.path(0)) for shard in overlapping if not _is_as_opened(shard))
    for path in chain(new, changed):
        raise StateError(
            f"{path} was written after the source was opened, and would be "
            "replaced without its samples: give the path of the source, which is "
            "opened when no other process can write it, or open the source again"
        )


def _is_as_opened(shard: OpenShard) -> bool:
    try:
        now = stamps_of(shard.shard)
        if shard.loaded:  # it has the times that its files had when it was opened
            facts = attrgetter("name", "size", "mtime_ns")
            return list(map(facts, shard.stamps)) == list(map(facts, now))
        return bind(shard.stamps, now, shard.shard) is not None
    except FormatError:  # a file was deleted
        return False


def overlap(one: _Place, other: _Place) -> bool:
    """Return whether two places are the same, or one is in the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _resolved(path: AnyPath) -> _Place:
    if isinstance(path, Path):
        return Path(os.path.realpath(path)).parts
    return tuple(str(path).rstrip("/").split("/"))


def _places(
    source: Any, opened: Dataset | Source | Stream, target: _Place
) -> Iterator[tuple[str, _Place]]:
    """Yield the paths of a source, and its files that may be in the target."""
    if isinstance(source, list | tuple) and isinstance(opened, Dataset):
        paths = source
    else:
        paths = [source]
    for path in filter(_is_path, paths):
        yield str(path), _resolved(as_path(path))
    if isinstance(opened, Files | LabelledFolder):
        folder = _resolved(opened.root)
        if not isinstance(source, list | tuple):
            yield str(opened.root), folder
        elif overlap(folder, target):
            # only the files that are named, not the folder that they have in common
            yield from (
                (f"{opened.root}/{name}", (*folder, *name.split("/"))) for name in opened.listing
            )
    if not isinstance(opened, Dataset):
        return
    roots: dict[str, _Place] = {}
    for shard in (opened_shard.shard for opened_shard in opened.shards):
        if (root := roots.get(str(shard.root))) is None:
            root = roots[str(shard.root)] = _resolved(shard.root)
        if not shard.name:  # the folder is the shard
            yield str(shard.root), root
        elif overlap(root, target):
            for number, name in enumerate(shard.files):
                yield str(shard.path(number)), (*root, *name.split("/"))


def _is_path(source: Any) -> bool:
    if isinstance(source, str):
        return source != "-" and not source.startswith("pipe:")
    return isinstance(source, os.PathLike) or is_object(source)
