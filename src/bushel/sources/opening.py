"""Make a source from a path or an object."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from bushel._dataset.open.completeness import is_part
from bushel._dataset.open.discovery import holds_parts
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.open.open import open_any
from bushel._dataset.open.sources import expand_paths, named_files, refuse_splits
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.stream import StreamDataset
from bushel._recognise.layout import ending_of, layout_of
from bushel.containers import candidates, installed_candidates
from bushel.containers.folder import classes_beside, has_removal_list
from bushel.containers.folder_metadata import is_metadata, tables_above
from bushel.containers.kept_folder import list_below
from bushel.errors import FormatError
from bushel.storage import AnyPath, AnySource, absolute, as_path, is_object, names_in

from .arrays import Arrays
from .base import Source
from .files import Files, LabelledFolder
from .foreign import Adapter, AdapterLike, Rows, StoredStream, samples_of
from .lists import ListFile
from .media import UNCHANGED, VIDEOS
from .samples import Samples, Stream, holds_paths, rows_of
from .tables import Table, first_row

_KIND_OF = {"image": "images", "clip": "videos", "audio": "sounds"}
_MEDIA = {kind: UNCHANGED[field] for field, kind in _KIND_OF.items()}
KINDS: Mapping[str, Any] = {
    **{kind: partial(LabelledFolder, media=media) for kind, media in _MEDIA.items()},
    "files": Files,
    "list": ListFile,
    "table": Table,
    "arrays": Arrays,
    "dataset": lambda path, **options: _stored(open_any(path, verify=True, **options)),
}
"""Names of the kinds of sources that a path can be, and the classes that make them."""

_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".csv.gz", ".tsv.gz", ".json.gz", ".jsonl.gz")


_LISTED = (*_MEDIA, "files")  # the kinds that list a folder
# number of kinds of files to name in the error about a folder without any that Bushel reads
_NAMED = 5
_PATH = (str, os.PathLike)
_KIND_OF_SUFFIX = {suffix: kind for kind, media in _MEDIA.items() for suffix in media.suffixes}
_SIGN = re.compile(r"[*?[{]")  # of a pattern


AnyData: TypeAlias = (
    "AnySource | Dataset | StreamDataset | Source | Stream | AdapterLike | Rows | Iterable[Any]"
)
"""What `bushel.pack` takes: paths, datasets, sources, arrays, tables, and samples by position or one by one."""


def open_source(
    source: AnyData,
    kind: str | None = None,
    *,
    types: Mapping[str, str] | None = None,
    listing: Sequence[str] | None = None,
    on_damage: Literal["warn", "raise"] = "raise",
    **options: Any,
) -> Source | Stream:
    """Make a source of a path or an object.

    Args:
        source: A source; a dataset; an adapter of GulpIO; a list of dicts, or anything that yields
            dicts; a dataset of torch, or anything else with a length and positions, of dicts, of
            named tuples, or of tuples for which `types` has a name each; a frame of pandas or
            polars, or a table of Arrow; an array or a dict of arrays; or a path: a folder of
            images, videos or sounds, a pattern or a list of paths of such files, a `.lst`, `.csv`,
            `.json`, `.npz` or `.npy` file, or a dataset.
        kind: The kind of source at the path; by default it is detected. `files` packs a folder of
            images as files.
        types: Types of fields, for dicts whose values have no obvious type.
        listing: The listing of the folder, if it is known: the attribute `listing` of a source.
        on_damage: Treatment of a damaged dataset: see `bushel.open`.
        options: Options of that kind of source.

    Raises:
        TypeError: `source` cannot be made a source.
        FormatError: The kind of source at the path cannot be detected.
        FileNotFoundError: The path does not exist.

    Examples:
        >>> from bushel.sources import open_source
        >>> source = open_source("photos/")
        >>> len(source), source.spec
        (12, {'image': 'jpg', 'label': 'int'})
    """
    if isinstance(source, _PATH) or is_object(source) or are_paths(source):
        return _at_path(source, kind, listing, on_damage, options)
    if options or kind not in (None, "dataset"):
        raise TypeError("kind= and options of a source need a path")
    if isinstance(source, Dataset | StreamDataset):
        return _stored(source)
    if isinstance(source, Source | Stream):
        return source
    if kind is not None:
        return _stored(open_any(source, verify=True, on_damage=on_damage))
    rows: Any = source  # values are checked where they are encoded
    if hasattr(source, "iter_data") and hasattr(source, "__len__"):
        return Adapter(rows)
    if isinstance(source, Mapping) and any(map(holds_paths, source.values())):
        return Samples(rows_of(source), types=types)
    if isinstance(source, np.ndarray) or (isinstance(source, Mapping) and source):
        return Arrays(source)
    if (samples := samples_of(source, types)) is not None:
        return samples
    raise TypeError(
        f"{type(source).__name__} cannot be packed: pass a path, a dataset, arrays, dicts, "
        "a table of rows, anything with a length and positions, or a source of your own"
    )


def files_asked(source: Any, split: str | None) -> Any:
    """Return the files of a split that a caller names; the source itself if it has not several.

    Raises:
        SpecError, FileNotFoundError, FormatError, TypeError: See `refuse_splits` and
        `repository.split_of`.
    """
    if split is None:
        refuse_splits(source)
        return source
    files = named_files(source, None, split)
    if files.inside is None:
        return files.source
    return open_dataset(source, split=split)


def _at_path(
    source: Any,
    kind: str | None,
    listing: Sequence[str] | None,
    on_damage: str,
    options: dict[str, Any],
) -> Source | Stream:
    if kind is not None and kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of sources: use one of {', '.join(KINDS)}")
    if kind is None:
        kind, folder = recognised(source, options, listing)
        if folder is not None and not options:
            folder.report()
            return folder
    # files that are named, or one, or a pattern
    is_single = isinstance(source, _PATH) or is_object(source)
    is_media = kind in _MEDIA and media_kind(source) == kind
    if is_media or not (is_single or kind == "dataset"):
        source, names = folder_of(source)
        if listing is None:
            listing = names
    if listing is not None and kind in _LISTED:
        options["listing"] = listing
    if kind == "dataset":
        options["on_damage"] = on_damage
    opened: Source | Stream = KINDS[kind](source, **options)
    return opened


def _stored(dataset: Dataset | StreamDataset) -> Dataset | Stream:
    if isinstance(dataset, Dataset):
        return dataset
    return StoredStream(dataset)


def recognised(
    source: Any, options: Collection[str] = (), listing: Iterable[str] | None = None
) -> tuple[str, LabelledFolder | None]:
    """Return the kind of source at a path, and the source if the path is a folder of media files.

    A file of rows is a `table` if its rows name media files, or if an option of a table is given.
    Rows that are whole samples are a `dataset`, which `bushel.open` reads in place.

    Args:
        source: The path.
        options: Names of the options of the source that are given.
        listing: The names of the files, if they are known; then the folder is not listed.

    Raises:
        FormatError: The kind cannot be detected.
    """
    if isinstance(source, Dataset):
        return "dataset", None
    if listing is not None:
        kinds = _kinds_of(listing)
        if len(kinds) == 1 and not _MEDIA.keys().isdisjoint(kinds):
            return next(iter(kinds)), None
    if not isinstance(source, _PATH) and are_paths(source):
        return media_kind(source) or "dataset", None
    path = as_path(source)
    name = path.name.lower()
    if path.is_dir():  # also if its name has a suffix
        return _folder_at(path)
    if name.endswith(".lst"):
        return "list", None
    if name.endswith(_TABLES):
        first = first_row(path)
        texts = [value.lower() for value in first.values() if isinstance(value, str)]
        names_files = "path" in first or any(
            text.endswith(tuple(_KIND_OF_SUFFIX)) for text in texts
        )
        return ("table" if options or names_files else "dataset"), None
    if name.endswith((".npz", ".npy")):
        return "arrays", None
    if isinstance(source, _PATH) and (kind := media_kind(source)) is not None:
        return kind, None
    return "dataset", None


def _folder_at(path: AnyPath) -> tuple[str, LabelledFolder | None]:
    """Return the kind of a folder, and the source if each sample is one media file.

    Raises:
        FormatError: It has no files that Bushel reads.
    """
    names = names_in(path)
    owners = (owner for some in (candidates, installed_candidates) for owner in some(names))
    if any(container.shards(path) is not None for container in owners):
        return "dataset", None
    if any(map(is_part, names)) and holds_parts(path):
        return "dataset", None
    files = list_below(path)
    if any(map(is_metadata, files)) or tables_above(absolute(path)) or has_removal_list(path):
        return "dataset", None
    layout = layout_of(files, (), classes_beside(path), str(path))
    if layout.keys:
        folder = LabelledFolder.of_layout(path, files, layout)
        return ("dataset" if folder is None else _KIND_OF[next(iter(folder.spec))]), folder
    kinds = Counter(ending_of(name) or "without a suffix" for name in files)
    if not kinds.keys().isdisjoint(VIDEOS):  # only as frames
        return "videos", None
    counts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(_NAMED))
    raise FormatError(
        "this folder is not a dataset, and has neither images nor videos nor "
        f"sounds that Bushel reads: it {f'has {counts}' if counts else 'is empty'}",
        path,
        hint="kind='files' packs any files unchanged",
    )


def are_paths(values: object) -> bool:
    """Return whether a list holds paths and nothing else."""
    return (
        isinstance(values, Sequence)
        and len(values) > 0
        and all(isinstance(path, _PATH) for path in values)
    )


def media_kind(source: Any) -> str | None:
    """Return the kind of the files that a pattern, a path or a list of paths names: `images`, `videos` or `sounds`.

    Returns:
        The kind by the suffixes; None if a path is a folder or has another suffix.

    Raises:
        FormatError: The files of a list are of several kinds.
    """
    is_single = isinstance(source, _PATH)
    kinds = _kinds_of(map(os.fspath, [source] if is_single else source))
    if len(kinds) > 1:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
        raise FormatError(
            f"a list of files must be of one kind, but this one has {counts}",
            hint=(
                "pack dicts, whose values can be paths: "
                "[{'image': Path('a.jpg'), 'text': Path('a.txt')}]"
            ),
        )
    [kind] = kinds
    if kind == "other files" or (is_single and as_path(source).is_dir()):
        return None
    return kind


def _kinds_of(names: Iterable[str]) -> Counter[str]:
    """Return the number of files of each kind."""
    return Counter(_KIND_OF_SUFFIX.get(ending_of(name), "other files") for name in names)


def folder_of(source: Any) -> tuple[str, list[str]]:
    """Return the folder that holds the files of a pattern or a list, and their names in it, in order.

    The folder of a pattern is what comes before its first wildcard; the folder of a list is the
    innermost one that holds all of the files.

    Raises:
        FileNotFoundError: A file does not exist, or nothing matches the pattern.
    """
    paths = list(map(str, expand_paths(source)))
    if isinstance(source, str) and _SIGN.search(source) and not as_path(source).exists():
        folder = posixpath.dirname(_SIGN.split(os.path.expanduser(source))[0])
    else:
        folders = [posixpath.dirname(path).split("/") for path in paths]
        folder = "/".join(os.path.commonprefix(folders))  # of lists, it compares their items
        if not folder and paths[0].startswith("/"):
            folder = "/"
    beginning = posixpath.join(folder, "")
    return folder or ".", [path.removeprefix(beginning) for path in paths]
