"""The remaining positions of a dataset from which samples were removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bushel._dataset.read.selection import Call, Remaining
from bushel._dataset.read.shards import Listing, OpenShard
from bushel._index.removed_rows import RemovedRows
from bushel._index.table import Shard
from bushel._runtime.arrays import I64, offsets_of
from bushel.containers.removed import Lists, lists_of, rows_of


def remaining_in(shards: Sequence[OpenShard], lists: Lists | None = None) -> Remaining | None:
    """Return the positions that remain of a dataset with these shards; None if no sample was removed.

    `lists` are the lists of removed samples of their folders, if they are loaded.

    Raises:
        FormatError: A list is damaged, or a shard has changed since it was made.
    """
    one = [shards[0].shard] if isinstance(shards, Listing) else [each.shard for each in shards]
    lists = lists_of(one) if lists is None else lists
    if not lists:
        return None
    found: list[tuple[str, I64, I64]] = []
    total = 0
    for shard, samples in _whole(shards, lists):
        for path, entries in rows_of(shard, samples, lists):
            found.append((path, entries, lists[path][1].rows[entries].astype(np.int64) + total))
        total += samples
    every = dict.fromkeys(call for _, removed in lists.values() for call in _calls(removed))
    by = sorted(every, key=lambda call: call.time)
    number = {call: place for place, call in enumerate(by)}
    calls = {path: np.array([number[call] for call in _calls(own)], np.uint32) for path, (_, own) in lists.items()}
    rows = np.concatenate([np.zeros(0, np.int64), *(rows for _, _, rows in found)])
    own = [calls[path][lists[path][1].calls[entries]] for path, entries, _ in found]
    positions, first = np.unique(rows, return_index=True)
    if not len(positions):
        return None
    return Remaining.of(total, positions, np.concatenate(own)[first], tuple(by))


def _whole(shards: Sequence[OpenShard], lists: Lists) -> Iterator[tuple[Shard, int]]:
    """Yield each shard with its number of samples. The sections of a shard are one."""
    if isinstance(shards, Listing):
        yield from _listed(shards, lists)
        return
    at = 0
    while at < len(shards):
        own, samples = shards[at], shards[at].samples
        at += 1
        while own.section is not None and at < len(shards) and shards[at].shard == own.shard:
            samples += shards[at].samples
            at += 1
        yield own.shard, samples


def _listed(shards: Listing, lists: Lists) -> Iterator[tuple[Shard, int]]:
    """Yield the shards of a list of shards that have removed samples, and those between them as one."""
    named = {name for _, removed in lists.values() for name in removed.shards}
    table, start = shards.listed, 0
    ends = offsets_of(table.samples)
    first = shards[0].shard
    for number in [number for number, name in enumerate(table.names.tolist()) if name in named]:
        yield Shard(first.root, "\0", ()), int(ends[number] - start)
        yield Shard(first.root, table.names[number], (), first.sidecars), int(table.samples[number])
        start = int(ends[number + 1])
    yield Shard(first.root, "\0", ()), int(ends[-1] - start)


def _calls(removed: RemovedRows) -> list[Call]:
    return list(map(Call, removed.reasons, removed.times.tolist()))
