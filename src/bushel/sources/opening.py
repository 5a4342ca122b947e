"""From what a user names to a source."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bushel.containers import containers
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.open import open_any
from bushel.core.dataset.stream import StreamDataset
from bushel.errors import FormatError
from bushel.sources.adapters import Adapter
from bushel.sources.arrays import Arrays
from bushel.sources.base import Source
from bushel.sources.files import Files, ImageFolder, VideoFolder, walk
from bushel.sources.layouts import LAYOUTS
from bushel.sources.lists import ListFile
from bushel.sources.media import IMAGES, VIDEOS
from bushel.sources.members import Recipe, SampleFolder
from bushel.sources.samples import Samples, Stream
from bushel.sources.stored import Stored
from bushel.sources.tables import Table
from bushel.storage import AnyPath, as_path, is_local, walk_names
from bushel.storage.objects.location import ObjectPath

__all__ = ["KINDS", "kind_of", "open_source"]

KINDS: Mapping[str, Any] = {
    "images": ImageFolder,
    "files": Files,
    "list": ListFile,
    "table": Table,
    "arrays": Arrays,
    "videos": VideoFolder,
    "samples": SampleFolder,
    "recipe": Recipe,
    "dataset": lambda path: _stored(open_any(path)),
    **LAYOUTS,
}
"""Names of kinds of sources that a path can stand for, and what makes each."""

_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".csv.gz", ".tsv.gz", ".json.gz", ".jsonl.gz")


_SIGHT = 1000


def open_source(source: Any, kind: str | None = None, **options: Any) -> Source | Stream:
    """Make a source of whatever can be one.

    Args:
        source: A source; a dataset; an adapter of GulpIO; a list of dicts, or anything that yields dicts; an array or
            a dict of arrays; or a path: a folder of images or videos, a `.lst`, `.csv`, `.json`, `.npz` or `.npy`
            file, or a dataset.
        kind: What is at the path, where that is not what it looks like: `files` packs a folder of images as files.
        options: What the source of that kind takes beside the path.

    Raises:
        TypeError: It is nothing of the kind.
        FormatError: There is no telling what is at the path.
        FileNotFoundError: Nothing is there.
    """
    if isinstance(source, str | os.PathLike | ObjectPath):
        if kind is not None and kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r} of sources: there are {', '.join(KINDS)}")
        made: Source | Stream = KINDS[kind or kind_of(source)](source, **options)
        return made
    if options or kind is not None:
        raise TypeError("kind= and options of a source go with a path")
    if isinstance(source, Dataset | StreamDataset):
        return _stored(source)
    if hasattr(source, "spec") and hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        return source  # type: ignore[no-any-return]
    if isinstance(source, Stream):
        return source
    if hasattr(source, "iter_data") and hasattr(source, "__len__"):
        return Adapter(source)
    if isinstance(source, np.ndarray) or (isinstance(source, Mapping) and source):
        return Arrays(source)
    if isinstance(source, Sequence):
        return Samples(source)
    if isinstance(source, Iterable):
        return Stream(source)
    raise TypeError(f"{type(source).__name__} is no source: see bushel.sources for what is")


def _stored(dataset: Dataset | StreamDataset) -> Source | Stream:
    return Stored(dataset) if isinstance(dataset, Dataset) else Stream(dataset, spec=dataset.spec)


def kind_of(source: str | os.PathLike[str] | AnyPath) -> str:
    """What is at a path, by its looks.

    Raises:
        FormatError: There is no telling.
    """
    path = as_path(source)
    name = path.name.lower()
    if name.endswith(".lst"):
        return "list"
    if name.endswith(_TABLES):
        return "table"
    if name.endswith((".npz", ".npy")):
        return "arrays"
    if not path.is_dir():
        return "dataset"
    if (kind := _at_first_sight(path)) is not None:
        return kind
    if any(container.shards(path) is not None for container in containers()):
        return "dataset"
    for kind, suffixes in (("images", IMAGES), ("videos", VIDEOS)):
        if next(walk(path, suffixes), None) is not None:
            return kind
    raise FormatError(
        "this folder is no dataset, and has neither images nor videos",
        file=str(path),
        hint="kind='files' packs any files as they are",
    )


def _at_first_sight(path: AnyPath) -> str | None:
    """What a folder that is not local holds, if the first thousand of its files are all images, or all videos.

    That saves listing a large folder again and again, to see what else may be in it.
    """
    if is_local(path) or (isinstance(path, ObjectPath) and not path.listable):
        return None
    suffixes = {os.path.splitext(name)[1].lower() for name in itertools.islice(walk_names(path), _SIGHT)}
    for kind, known in (("images", IMAGES), ("videos", VIDEOS)):
        if suffixes and suffixes <= set(known):
            return kind
    return None
