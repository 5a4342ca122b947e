"""Removed samples that a writer writes again: the same samples stay out, also as another container stores them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.discovery import find
from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._dataset.open.shards import open_shards
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.remaining import named_rows, names_of, remaining_in, with_other_bytes
from bushel._dataset.read.shards import OpenShard, samples_of
from bushel._index.removal_list import NameLookup, Names, RemovalList
from bushel._runtime.arrays import I64, Bools, offsets_of
from bushel._runtime.log import log_warning
from bushel._writer.overwrite import Overwrite
from bushel.codecs.equal import same_value
from bushel.containers.base import ReadOptions
from bushel.errors import BushelError

_AT_ONCE = 64  # samples that are decoded together


def keep_removed(
    path: Path, root: Path, written: Sequence[OpenShard], before: int, replaced: Overwrite | None
) -> dict[str, RemovalList]:
    """Find the new samples that are removed ones, and log how many stay out, and how many may be read again.

    Args:
        path: The dataset; still the one that is replaced, if one is.
        root: The folder in which its files are, or get their places.
        written: The shards of the new dataset.
        before: Number of samples that are not new.
        replaced: The replacement of the dataset, which may store the same values in other bytes.

    Returns:
        The lists that name removed samples as the new shards store them, by their paths.
    """
    lists = lists_beside([replace(opened.shard, root=root) for opened in written])
    changed: dict[str, RemovalList] = {}
    with_removed_keys = [np.zeros(0, np.int64)]
    for number, placed in enumerate(lists if replaced is not None else ()):
        pairs = _Pairs(placed, written)
        with_removed_keys.append(pairs.positions)
        if replaced is not None and replaced.keeps(placed.path) and len(pairs.positions):
            removed = pairs.as_stored_again(path)
            changed[str(placed.path)] = removed
            lists[number] = replace(placed, removed=removed)
    remaining = remaining_in(written, lists)
    rows = np.zeros(0, np.int64) if remaining is None else remaining.removed
    again = int((rows >= before).sum())
    if again:
        log_warning(
            "%s: %s of the new samples stay removed: the same samples were removed before."
            " `bushel remove --list` prints the calls, and --undo undoes one",
            path,
            f"{again:,}",
        )
    others = len(np.setdiff1d(np.concatenate(with_removed_keys), rows))
    if others:
        log_warning(
            "%s: %s of the new samples have the keys of removed ones and are read, as they have other"
            " values, or the old files do not have these any more: `bushel remove` removes them",
            path,
            f"{others:,}",
        )
    return changed


class _Pairs:
    """Samples of new shards that have the key of a removed one, but other bytes, each with a name of that one.

    Attributes:
        positions: int64[pairs], the samples.
    """

    def __init__(self, placed: PlacedList, written: Sequence[OpenShard]) -> None:
        self._removed, self._written = placed.removed, written
        self._lookup = NameLookup(placed.removed.names)
        nothing = np.zeros(0, np.int64)
        positions, entries = [nothing], [nothing]
        for start, shard in zip(offsets_of(samples_of(written)).tolist(), written, strict=False):
            if placed.names(shard.shard):
                rows, names = with_other_bytes(shard, self._lookup)
                positions.append(start + rows)
                entries.append(names)
        self.positions, self._entries = np.concatenate(positions), np.concatenate(entries)

    def as_stored_again(self, path: Path) -> RemovalList:
        """Return the list with new names for the samples whose values the files at a path have, too."""
        old = _opened(path)
        # of the sample in the old files that each name is of
        stored = np.full(len(self._lookup.names), -1, np.int64)
        for start, shard in zip(offsets_of(samples_of(old)).tolist(), old, strict=False):
            rows, entries = named_rows(shard, self._lookup)
            stored[entries] = start + rows
        same = np.flatnonzero(stored[self._entries] >= 0)
        same = same[
            _are_same(old, stored[self._entries[same]], self._written, self.positions[same])
        ]
        starts, positions = offsets_of(samples_of(self._written)), self.positions[same]
        numbers = np.searchsorted(starts, positions, side="right") - 1
        names = [
            names_of(self._written[number], positions[numbers == number] - starts[number])
            for number in np.unique(numbers).tolist()
        ]
        return self._removed.renamed(self._entries[same], Names.join(names))


def _opened(path: Path) -> list[OpenShard]:
    """Return the shards of the dataset that is replaced; none if it is damaged, or gone."""
    try:
        dataset = find([path])
        return open_shards(dataset.container, dataset.shards, ReadOptions(), "memory")
    except (BushelError, OSError):
        return []


def _are_same(
    old: Sequence[OpenShard], positions: I64, new: Sequence[OpenShard], positions_now: I64
) -> Bools:
    """Return which pairs of an old and a new sample have the same values."""
    same = np.zeros(len(positions), np.bool_)
    with closing(Reader(old)) as before, closing(Reader(new)) as now:
        for first in range(0, len(same), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            try:
                samples = [
                    reader.read(places[some], dict.fromkeys(reader.fields), decode=True)
                    for reader, places in ((before, positions), (now, positions_now))
                ]
            except (BushelError, OSError):  # what cannot be read is not known to be the same
                continue
            same[some] = list(map(same_value, *samples))
    return same
