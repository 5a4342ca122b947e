"""Selections: the samples of the grid, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

from bushel._dataset.read.where import choose
from bushel._index.columns import sorted_rows
from bushel._runtime.arrays import I64, NO_NUMBERS

from .shelf import Shown

_PARAMETERS = ("q", "where", "sort", "tag", "by")


class Query(Struct, frozen=True):
    """A selection of samples."""

    # text that keys, texts in columns or names of classes contain; with a leading `^`, keys begin
    # with the rest; empty for all samples
    key: str = ""
    where: str = ""  # a condition on columns, as `Dataset.where` takes it; empty for none
    # name of the column to sort by, with a leading `-` from the greatest value; empty for the
    # stored order
    sort: str = ""
    tag: str = ""  # a tag of the samples; `-` for samples without any tag; empty for all
    by: str = ""  # `episodes` for the first of these samples in each episode; empty for all

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Query:
        """Return the query in the parameters of a URL."""
        return cls(*(parameters.get(name, "").strip() for name in _PARAMETERS))

    @property
    def everything(self) -> bool:
        """Whether all samples are selected, in their order."""
        return self == Query()

    def parameters(self) -> list[tuple[str, str]]:
        """Return the query as parameters of a URL; none for everything."""
        values = zip(_PARAMETERS, astuple(self), strict=True)
        return [(name, value) for name, value in values if value]


class Selection(Struct, frozen=True):
    """Selected samples."""

    size: int  # number of samples
    # their positions in the dataset; None for all in their order
    positions: npt.NDArray[np.signedinteger[Any]] | None = None

    def rows(self, first: int, count: int) -> Sequence[int] | npt.NDArray[Any]:
        """Return the positions of some rows. Rows after the end are left out."""
        first, last = max(first, 0), max(min(first + count, self.size), 0)
        if self.positions is None:
            return range(first, last)
        return self.positions[first:last]

    def part(self, first: int, count: int) -> list[int]:
        """Return the positions of some rows as a list."""
        return list(map(int, self.rows(first, count)))

    def row_of(self, position: int) -> int | None:
        """Return the row of a sample; None if it is not selected."""
        if self.positions is None:
            return position if 0 <= position < self.size else None
        rows = np.flatnonzero(self.positions == position)
        return next(iter(rows.tolist()), None)


def select(shown: Shown, query: Query) -> Selection:
    """Return the selected samples. Results are kept for the next requests.

    Raises:
        ValueError: The condition is malformed.
        KeyError: The column does not exist.
        FormatError: An index is damaged.
    """
    if query.everything:
        return Selection(len(shown.dataset))
    tagged = shown.tags.version if query.tag else 0
    measured = sum(measures.done for measures in shown.measures.values())
    key = (query, tagged, measured)
    positions = shown.selections.get(key, lambda: _compact(_positions(shown, query)))
    return Selection(len(positions), positions)


def _compact(positions: I64) -> npt.NDArray[np.signedinteger[Any]]:
    if positions.max(initial=0) < 1 << 31:
        return positions.astype(np.int32)
    return positions


def _positions(shown: Shown, query: Query) -> I64:
    dataset, tags = shown.dataset, shown.tags
    matches: list[I64] = []
    if query.where:
        chosen = choose(query.where, len(dataset), shown.column, lambda: dataset.labels)
        matches.append(np.flatnonzero(chosen))
    if query.key.startswith("^"):
        matches.append(_with_key(shown, query.key[1:], prefix=True))
    elif query.key:
        matching = _with_key(shown, query.key, prefix=False)
        matches.append(np.union1d(matching, _with_text(shown, query.key.lower())))
    if query.tag:
        matches.append(tags.untagged() if query.tag == "-" else tags.positions(query.tag))
    intersect = partial(np.intersect1d, assume_unique=True)
    positions = reduce(intersect, matches) if matches else None
    if query.sort:
        values, missing = shown.column(query.sort.removeprefix("-"))
        positions = sorted_rows(values, missing, positions, reverse=query.sort.startswith("-"))
    if query.by:
        positions = _first_of_episodes(shown, positions)
    if positions is None:
        return NO_NUMBERS
    return positions


def _first_of_episodes(shown: Shown, positions: I64 | None) -> I64:
    """Return the first of the selected samples in each episode."""
    if shown.episodes is None:
        raise ValueError("by=episodes: this dataset has no episodes")
    if positions is None:
        return shown.episodes.starts[:-1]
    episodes = np.searchsorted(shown.episodes.starts, positions, "right")
    return positions[np.sort(np.unique(episodes, return_index=True)[1])]


def _with_text(shown: Shown, text: str) -> I64:
    """Return the samples that have the text, in lower case, in a column of texts or in the name of a class."""
    rows = NO_NUMBERS
    for field in shown.fields:
        if not field.short or field.name not in shown.columns:
            continue
        values, missing = shown.column(field.name)
        names = shown.labels.get(field.name)
        if names:
            classes = [number for number, name in enumerate(names) if text in name.lower()]
            matches = np.isin(values, classes)
        elif field.kind == "text":
            matches = np.array([text in str(value).lower() for value in values.tolist()], np.bool_)
        else:
            continue
        rows = np.union1d(rows, np.flatnonzero(matches if missing is None else matches & ~missing))
    return rows


def _with_key(shown: Shown, text: str, *, prefix: bool) -> I64:
    """Return the samples whose key contains a text, or begins with it. Upper and lower case are the same."""
    text, keys = text.lower(), enumerate(map(str.lower, shown.dataset.keys))
    if prefix:
        rows = (row for row, key in keys if key.startswith(text))
    else:
        rows = (row for row, key in keys if text in key)
    return np.fromiter(rows, np.int64)
