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
    for number, placed in enumerate(lists):
        if replaced is None or not replaced.keeps(placed.path):
            continue
        removed = _as_stored_again(placed, path, written)
        if removed is not placed.removed:
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
    others = 0 if replaced is None else _with_removed_keys(lists, written, rows)
    if others:
        log_warning(
            "%s: %s of the new samples have the keys of removed ones and are read, as they have other"
            " values, or the old files do not have these any more: `bushel remove` removes them",
            path,
            f"{others:,}",
        )
    return changed


def _with_removed_keys(
    lists: Sequence[PlacedList], written: Sequence[OpenShard], removed: I64
) -> int:
    """Return how many samples have the key of a removed one, and are read."""
    positions = [np.zeros(0, np.int64)]
    for placed in lists:
        lookup = NameLookup(placed.removed.names)
        starts = offsets_of(samples_of(written))
        for start, shard in zip(starts.tolist(), written, strict=False):
            if placed.names(shard.shard):
                positions.append(start + with_other_bytes(shard, lookup)[0])
    return len(np.setdiff1d(np.concatenate(positions), removed))


def _as_stored_again(placed: PlacedList, path: Path, written: Sequence[OpenShard]) -> RemovalList:
    """Return a list with the names that the new shards give to samples of the old ones, which have the same values."""
    lookup = NameLookup(placed.removed.names)
    pairs = [
        (shard, *with_other_bytes(shard, lookup)) for shard in written if placed.names(shard.shard)
    ]
    if not any(len(rows) for _, rows, _ in pairs):
        return placed.removed
    old = _opened(path)
    # of the sample in the old files that each name is of
    positions = np.full(len(lookup.names), -1, np.int64)
    for start, shard in zip(offsets_of(samples_of(old)).tolist(), old, strict=False):
        rows, entries = named_rows(shard, lookup)
        positions[entries] = start + rows
    renamed, names = [np.zeros(0, np.int64)], list[Names]()
    for shard, rows, entries in pairs:
        is_stored = positions[entries] >= 0
        rows, entries = rows[is_stored], entries[is_stored]
        if not len(rows):
            continue
        same = _are_same(old, positions[entries], shard, rows)
        renamed.append(entries[same])
        names.append(names_of(shard, rows[same]))
    return placed.removed.renamed(np.concatenate(renamed), Names.join(names))


def _opened(path: Path) -> list[OpenShard]:
    """Return the shards of the dataset that is replaced; none if it is damaged, or gone."""
    try:
        dataset = find([path])
        return open_shards(dataset.container, dataset.shards, ReadOptions(), "memory")
    except (BushelError, OSError):
        return []


def _are_same(old: Sequence[OpenShard], positions: I64, shard: OpenShard, rows: I64) -> Bools:
    """Return which samples of a shard have the values of samples of the old ones."""
    same = np.zeros(len(rows), np.bool_)
    with closing(Reader(old)) as before, closing(Reader([shard])) as now:
        for first in range(0, len(rows), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            try:
                samples = before.read(positions[some], dict.fromkeys(before.fields), decode=True)
                samples_now = now.read(rows[some], dict.fromkeys(now.fields), decode=True)
            except (BushelError, OSError):  # what cannot be read is not known to be the same
                continue
            same[some] = list(map(same_value, samples, samples_now))
    return same
