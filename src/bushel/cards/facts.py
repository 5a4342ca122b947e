"""The facts on the card of a dataset, from its index and the lists beside it. No data file is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from msgspec import Struct

from bushel._dataset.open.completeness import manifest_path
from bushel._dataset.open.discovery import find
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.open.source_paths import expand_paths
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.info import ColumnSummary, FieldSummary, summarise, summary
from bushel._dataset.views.saved_views import SavedView, saved_views
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.integrity.removing import Removal, removals

_LICENCES = ("license", "licence", "licenses", "licences", "rights")
_SOURCES = ("source", "origin", "url", "source_url", "image_url", "provenance", "dataset")


class About(Struct, frozen=True):
    """Facts about a dataset that no file contains."""

    title: str
    description: str | None = None  # a description in one or more sentences
    # licence of the whole dataset: an identifier of SPDX, such as `cc-by-4.0`, or a URL
    license: str | None = None
    url: str | None = None  # the page of the dataset
    creators: tuple[str, ...] = ()  # names of those who made it
    # the column that has the licence of each sample; by default recognised by its name
    license_column: str | None = None
    # the column that has the source of each sample; by default recognised by its name
    source_column: str | None = None

    @property
    def license_url(self) -> str | None:
        """The URL of the licence, if there is one."""
        if self.license is None or "://" in self.license:
            return self.license
        return f"https://spdx.org/licenses/{self.license}"


def usual_column(columns: tuple[str, ...], what: str) -> str | None:
    """Return the first column whose name, or the last part of it, says that it has licences, or sources."""
    names = _LICENCES if what == "license" else _SOURCES
    return next((column for column in columns if column.rsplit(".", 1)[-1].lower() in names), None)


_NAMED = 30  # licences and sources that are named; the others are counted


class Split(Struct, frozen=True):
    """A dataset that a card describes, or one of several that belong together."""

    name: str  # its name; empty if there is only one
    source: Any  # the path that was opened
    dataset: Dataset


class Counted(Struct, frozen=True):
    """The values of a column with the number of samples of each, the most frequent first."""

    column: str  # name of the column
    values: tuple[tuple[str, int], ...]  # the most frequent values, with their counts
    more: int  # number of other values
    missing: int  # number of samples without a value
    hosts: bool = False  # whether the values are the names of the servers in URLs


class Facts(Struct, frozen=True):
    """The facts of one split."""

    name: str  # name of the split; empty if there is only one
    dataset: Dataset
    fields: list[FieldSummary]  # number and sizes of the values of each field
    # field to the names of its classes, with the number of samples of each; None without a column
    classes: Mapping[str, list[tuple[str, int | None]]]
    columns: list[ColumnSummary]  # ranges and frequent values of the columns
    licenses: Counted | None  # the licences of samples, by a column
    sources: Counted | None  # the sources of samples, by a column
    removals: list[Removal]  # the calls that removed samples
    views: list[SavedView]  # the views that are saved beside it


def open_splits(source: Any, index: Any = "auto") -> list[Split]:
    """Open a dataset, or the datasets in a local folder as splits: each of its folders must have a manifest.

    Raises:
        FileNotFoundError, FormatError: As `bushel.open`.
    """
    try:
        return [Split("", source, open_dataset(source, index=index))]
    except (FormatError, SpecError):  # of a folder of splits, which asks for one
        parts = _parts(source)
        if not parts:
            raise
    return [Split(part.name, part, open_dataset(part)) for part in parts]


def _parts(source: Any) -> list[Path]:
    """Return the folders in a local folder that have a dataset with a manifest."""
    paths = expand_paths(source)
    if len(paths) != 1 or not isinstance(paths[0], Path) or not paths[0].is_dir():
        return []
    parts = []
    for folder in sorted(paths[0].iterdir()):
        if folder.is_dir() and not folder.name.startswith("."):
            with suppress(FormatError):
                listing = manifest_path(find([folder]).shards)
                if listing is not None and listing.exists():
                    parts += [folder]
    return parts


def facts_of(split: Split, about: About, index: Any = "auto") -> Facts:
    """Return the facts of a split. Raise KeyError if a column that the caller names does not exist."""
    dataset = split.dataset
    columns = dataset.columns
    licenses = about.license_column or usual_column(columns, "license")
    sources = about.source_column or usual_column(columns, "source")
    shards = list(dataset.shards)
    return Facts(
        split.name,
        dataset,
        summarise(shards, dataset.spec),
        {name: _classes(dataset, name, names) for name, names in dataset.labels.items()},
        [summary(name, dataset.column(name)) for name in columns],
        None if licenses is None else _counted(dataset, licenses, hosts=False),
        None if sources is None else _counted(dataset, sources, hosts=True),
        _removals(split.source, index),
        saved_views(dataset),
    )


def _classes(dataset: Dataset, field: str, names: Sequence[str]) -> list[tuple[str, int | None]]:
    if field not in dataset.columns:
        return [(name, None) for name in names]
    values = np.ma.compressed(np.ma.asarray(dataset.column(field)))
    if values.dtype.kind not in "iu":
        return [(name, None) for name in names]
    numbers = values[(values >= 0) & (values < len(names))].astype(np.int64)
    return list(zip(names, np.bincount(numbers, minlength=len(names)).tolist(), strict=True))


def _counted(dataset: Dataset, column: str, *, hosts: bool) -> Counted:
    values = dataset.column(column)
    present = np.ma.compressed(np.ma.asarray(values))
    texts = [str(value) for value in present.tolist()]
    named = hosts and bool(texts) and all("://" in text for text in texts)
    if named:
        texts = [urlsplit(text).hostname or text for text in texts]
    order = sorted(Counter(texts).items(), key=lambda pair: (-pair[1], pair[0]))
    return Counted(
        column,
        tuple(order[:_NAMED]),
        max(len(order) - _NAMED, 0),
        len(values) - len(present),
        named,
    )


def _removals(source: Any, index: Any) -> list[Removal]:
    try:
        return removals(source, index=index)
    except UnsupportedError:  # a place where no list of removed samples can be
        return []
