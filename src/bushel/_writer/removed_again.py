"""Removed samples that are written again: the same samples stay out, also as another container stores them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.caller_fields import NO_CALLER_FIELDS
from bushel._dataset.open.discovery import find
from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._dataset.open.shards import open_shards
from bushel._dataset.read.remaining import named_positions, names_of, removed_in
from bushel._dataset.read.shard_fields import with_caller_fields
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.stored_values import are_same
from bushel._index.removal_list import NameLookup, Names, RemovalList
from bushel._index.shard import Shard
from bushel._runtime.arrays import I64, NO_NUMBERS
from bushel._runtime.messages import log_warning
from bushel.containers.base import ReadOptions
from bushel.errors import BushelError
from bushel.storage import AnyPath


def keep_removed(
    path: AnyPath,
    final: Sequence[Shard],
    written: Sequence[OpenShard],
    before: int,
    replaced: Sequence[AnyPath],
) -> dict[str, RemovalList]:
    """Find the new samples that are removed ones, and log how many stay out, and how many may be read again.

    Args:
        path: The dataset; still the one that is replaced, if one is.
        final: The shards of the new dataset, with their places in the end.
        written: The same, where they are now.
        before: Number of samples that are not new.
        replaced: The lists of a dataset that is replaced. The new one may store the same values in
            other bytes.

    Returns:
        The lists that name removed samples as the new shards store them, by their paths.
    """
    lists = lists_beside(final, replaced)
    changed: dict[str, RemovalList] = {}
    alike = [NO_NUMBERS]
    for number, placed in enumerate(lists if replaced else ()):
        lookup = NameLookup(placed.removed.names)
        positions, entries = named_positions(written, placed, lookup, same=False)
        alike.append(positions)
        # the lists of the folder include the list of each file
        if len(positions) and placed.path in replaced and str(placed.path) not in changed:
            removed = _as_stored_again(placed, lookup, path, written, positions, entries)
            changed[str(placed.path)] = removed
            lists[number] = replace(placed, removed=removed)
    rows = removed_in(written, lists)
    again, others = int((rows >= before).sum()), len(np.setdiff1d(np.concatenate(alike), rows))
    if again:
        log_warning(
            "%s: %s of the new samples stay removed: the same samples were removed "
            "before. `bushel remove --list` prints the calls, and --undo undoes one",
            path,
            f"{again:,}",
        )
    if others:
        log_warning(
            "%s: %s of the new samples have the keys of removed ones and are read, as they have other"
            " values, or the old files do not have these any more: `bushel remove` removes them",
            path,
            f"{others:,}",
        )
    return changed


def _as_stored_again(
    placed: PlacedList,
    lookup: NameLookup,
    path: AnyPath,
    written: Sequence[OpenShard],
    positions: I64,
    entries: I64,
) -> RemovalList:
    """Return a list with new names for the new samples that have the values of the old ones.

    Args:
        placed: The list.
        lookup: Its names.
        path: The old dataset.
        written: The shards of the new one.
        positions: int64[pairs], new samples with the key of a removed one, but other bytes.
        entries: int64[pairs], the number of the name of that one.
    """
    try:
        found = find([path])
        old = open_shards(found.container, found.shards, ReadOptions(), "memory")
        stored = np.full(len(lookup.names), -1, np.int64)
        places, names = named_positions(old, placed, lookup)
        stored[names] = places
        pairs = np.stack([stored[entries], positions, entries])
        pairs = np.compress(stored[entries] >= 0, pairs, axis=1)
        # as readers read it, without running code that the types name
        new = [with_caller_fields(shard, NO_CALLER_FIELDS) for shard in written]
        with Dataset(old) as before, Dataset(new) as now:
            if before.spec.keys() != now.spec.keys():
                return placed.removed
            for name in before.spec:
                same = are_same(before, now, (pairs[0], pairs[1]), name)
                pairs = np.compress(same, pairs, axis=1)
            groups = now.reader.groups(pairs[1])
            renamed = [names_of(written[group.number], group.rows) for group in groups]
    except (BushelError, OSError):  # what cannot be read is not known to be the same
        return placed.removed
    return placed.removed.renamed(pairs[2], Names.join(renamed))
