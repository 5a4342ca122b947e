"""Refuse to pack into the source: its samples would be written beside those that they are read from, or in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bushel._dataset.dataset import Dataset
from bushel.ingest.pack_options import PackOptions
from bushel.sources.base import Source
from bushel.sources.files import Files, LabelledFolder
from bushel.sources.samples import Stream
from bushel.sources.stored import Stored
from bushel.storage import AnyPath, as_path, is_object

__all__ = ["overlap", "refuse_own_source"]

_Place = tuple[str, ...]
"""The parts of a resolved path, or of a URL."""


def refuse_own_source(source: Any, opened: Source | Stream, target: AnyPath, options: PackOptions) -> None:
    """Check that a target is not the source, is not in the folder of the source, and does not contain the source.

    With `mode="overwrite"` it may be, as the new dataset then replaces the old one when it is complete; but not in
    parts, which replace the old parts one by one.

    Args:
        source: The source as it was given: a path, a list of paths, or any object.
        opened: The same source, opened.
        target: The path to write to.
        options: The arguments of `pack`.

    Raises:
        FileExistsError: It is one of these.
    """
    in_parts = options.run.parts is not None or options.run.engine is not None
    if options.writer.mode == "overwrite" and not in_parts:
        return
    wanted = _resolved(target)
    for path, place in _places(source, opened, wanted):
        if not overlap(place, wanted):
            continue
        if place == wanted:
            what = f"{target} is the source itself"
        elif len(place) < len(wanted):
            what = f"{target} is in the source {path}"
        else:
            what = f"{target} contains the source {path}"
        advice = "write to another path"
        if isinstance(source, Dataset) or isinstance(opened, Stored):
            advice += ", or replace the source with mode='overwrite'" + (" and without parts" if in_parts else "")
        raise FileExistsError(f"{what}: {advice}")


def overlap(one: _Place, other: _Place) -> bool:
    """Return whether two places are the same, or one is in the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _resolved(path: AnyPath) -> _Place:
    if isinstance(path, Path):
        return Path(os.path.realpath(path)).parts
    return tuple(str(path).rstrip("/").split("/"))


def _places(source: Any, opened: Source | Stream, target: _Place) -> Iterator[tuple[str, _Place]]:
    """Yield the paths that a source was given by, and its files that may be in the target."""
    paths = source if isinstance(source, list | tuple) and isinstance(opened, Stored) else [source]
    for path in filter(_is_path, paths):
        yield str(path), _resolved(as_path(path))
    if isinstance(opened, Files | LabelledFolder):
        yield str(opened.root), _resolved(opened.root)
    if not isinstance(opened, Stored):
        return
    roots: dict[str, _Place] = {}
    for shard in (each.shard for each in opened.dataset.shards):
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
