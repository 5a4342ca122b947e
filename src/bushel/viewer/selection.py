"""Selections: which samples the grid shows, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from bushel.viewer.key_search import keys_with
from bushel.viewer.shelf import Shelf, Shown

__all__ = ["Query", "Selection", "select"]

_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class Query:
    """What is selected.

    Attributes:
        key: Text that keys contain; with a leading `^`, they begin with the rest. Empty for all keys.
    """

    key: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Query:
        """Return the query in the parameters of a URL."""
        return cls(parameters.get("q", "").strip())

    @property
    def everything(self) -> bool:
        """Whether all samples are selected, in their order."""
        return self == Query()

    def url(self) -> str:
        """Return the query as parameters of a URL; empty for everything."""
        return urlencode({"q": self.key}) if self.key else ""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected samples.

    Attributes:
        size: Number of samples.
        positions: Their positions in the dataset; None for all in their order.
    """

    size: int
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
        return int(rows[0]) if len(rows) else None


def select(shelf: Shelf, shown: Shown, query: Query) -> Selection:
    """Return the selected samples. Results are kept for the next requests.

    Raises:
        FormatError: An index is damaged.
    """
    if query.everything:
        return Selection(len(shown.dataset))
    positions = shelf.selections.get((shown.number, query), lambda: _compact(_positions(shown, query)))
    return Selection(len(positions), positions)


def _compact(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.signedinteger[Any]]:
    small = not len(positions) or int(positions.max()) < 1 << 31
    return positions.astype(np.int32) if small else positions


def _positions(shown: Shown, query: Query) -> npt.NDArray[np.int64]:
    prefix = query.key.startswith("^")
    return _with_key(shown, query.key.removeprefix("^"), prefix=prefix)


def _with_key(shown: Shown, text: str, *, prefix: bool) -> npt.NDArray[np.int64]:
    dataset = shown.dataset
    shards = dataset.shards
    if dataset._whole and all(shard.keyed for shard in shards):
        starts, found = dataset._reader.starts, []
        for number, shard in enumerate(shards):
            keys = shard.index.keys
            if keys is not None:
                found.append(int(starts[number]) + keys_with(keys, text, prefix=prefix))
        return np.concatenate(found) if found else np.zeros(0, np.int64)
    wanted, rows = text.lower(), []
    for first in range(0, len(dataset), _CHUNK):
        for row, key in enumerate(dataset.keys[first : first + _CHUNK], first):
            lowered = key.lower()
            if lowered.startswith(wanted) if prefix else wanted in lowered:
                rows.append(row)
    return np.array(rows, np.int64)
