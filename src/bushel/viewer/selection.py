"""Selections: the samples of the grid, and their order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

from bushel._dataset.read.where import choose
from bushel._dataset.views.dataset import Dataset
from bushel._index.columns import sorted_rows
from bushel._index.shard import Keys
from bushel._runtime.arrays import I64, U8

from .shelf import Shown

_KEY_BYTES = 1 << 20  # bytes of keys that are searched at a time
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32


def keys_with(keys: Keys, text: str, *, prefix: bool) -> I64:
    """Return the samples whose key contains a text, ascending. Upper and lower case of ASCII letters are the same.

    With `prefix`, the key must begin with it.
    """
    pattern = _LOWER[np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)]
    samples = len(keys)
    if not len(pattern):
        return np.arange(samples)
    rows_of_parts: list[I64] = []
    first = 0
    while first < samples:
        begin = int(keys.offsets[first])
        last = int(np.searchsorted(keys.offsets, begin + _KEY_BYTES, "right")) - 1
        last = min(max(last, first + 1), samples)
        offsets = np.asarray(keys.offsets[first : last + 1], np.int64) - begin
        rows_of_parts.append(
            first
            + _search(_LOWER[keys.text[begin : begin + int(offsets[-1])]], offsets, pattern, prefix)
        )
        first = last
    if rows_of_parts:
        return np.concatenate(rows_of_parts)
    return np.zeros(0, np.int64)


def _search(text: U8, offsets: I64, wanted: U8, prefix: bool) -> I64:
    """Return the numbers of the keys in `text` that contain `wanted`."""
    if prefix:
        rows = np.flatnonzero(np.diff(offsets) >= len(wanted))
        for number, letter in enumerate(wanted):
            rows = rows[text[offsets[rows] + number] == letter]
        return rows
    places = np.flatnonzero(text[: max(len(text) - len(wanted) + 1, 0)] == wanted[0])
    for number, letter in enumerate(wanted[1:], 1):
        places = places[text[places + number] == letter]
    rows = np.searchsorted(offsets, places, "right") - 1
    return np.unique(rows[places + len(wanted) <= offsets[rows + 1]])


_CHUNK = 1 << 14
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

    def part(self, first: int, count: int) -> list[int]:
        """Return the positions of some rows. Rows after the end are left out."""
        first, last = max(first, 0), max(min(first + count, self.size), 0)
        if self.positions is None:
            return list(range(first, last))
        return [int(position) for position in self.positions[first:last]]

    def row_of(self, position: int) -> int | None:
        """Return the row of a sample; None if it is not selected."""
        if self.positions is None:
            return position if 0 <= position < self.size else None
        rows = np.flatnonzero(self.positions == position)
        if len(rows):
            return int(rows[0])
        return None


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
    small = not len(positions) or int(positions.max()) < 1 << 31
    if small:
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
        return np.zeros(0, np.int64)
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
    rows = np.zeros(0, np.int64)
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


def is_whole(dataset: Dataset) -> bool:
    """Return whether this is not a view of some samples, or of the samples in another order."""
    reader = dataset.reader
    return reader.windows is None and dataset.selection.is_whole(int(reader.starts[-1]))


def _with_key(shown: Shown, text: str, *, prefix: bool) -> I64:
    dataset = shown.dataset
    shards = dataset.reader.counted
    if is_whole(dataset) and all(shard.keyed for shard in shards):
        starts, rows_of_shards = dataset.reader.starts, []
        for number, shard in enumerate(shards):
            keys = shard.index.keys
            if keys is not None:
                rows_of_shards.append(int(starts[number]) + keys_with(keys, text, prefix=prefix))
        if rows_of_shards:
            return np.concatenate(rows_of_shards)
        return np.zeros(0, np.int64)
    lowered_text, rows = text.lower(), []
    for first in range(0, len(dataset), _CHUNK):
        for row, key in enumerate(dataset.keys[first : first + _CHUNK], first):
            lowered = key.lower()
            if lowered.startswith(lowered_text) if prefix else lowered_text in lowered:
                rows.append(row)
    return np.array(rows, np.int64)
