"""What was removed from a dataset: the lists in its folders, and the positions that remain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel._index.removed_rows import RemovedRows, load_removed
from bushel._index.table import Shard
from bushel._reader.selection import Call, Remaining
from bushel._reader.shards import Listing, OpenShard
from bushel.errors import FormatError
from bushel.storage import AnyPath

__all__ = ["Lists", "RemovedInShard", "lists_of", "remaining_in", "removed_in", "rows_of"]

I64 = npt.NDArray[np.int64]
Lists = dict[str, tuple[AnyPath, RemovedRows]]
"""Lists of removed samples, by their paths."""


def lists_of(shards: Iterable[Shard]) -> Lists:
    """Return the lists of removed samples in the folders of shards, by their paths.

    Raises:
        FormatError: A list is damaged.
    """
    kinds = {(id(each.root), id(each.index), not each.name): each for each in shards}
    found = {str(path): (path, load_removed(path)) for shard in kinds.values() for path, _ in shard.removal_lists}
    return {name: (path, removed) for name, (path, removed) in found.items() if removed is not None}


def rows_of(shard: Shard, samples: int, lists: Lists) -> Iterator[tuple[str, I64]]:
    """Yield the entries of a shard in each list that has some: its path, and the numbers of the entries.

    Raises:
        FormatError: The shard has another number of samples than the list.
    """
    for path, name in shard.removal_lists:
        if (own := lists.get(str(path))) is None or name not in (removed := own[1]).shards:
            continue
        number = removed.shards.index(name)
        if removed.samples[number] != samples:
            raise _changed(shard, int(removed.samples[number]), samples, path)
        yield str(path), np.arange(removed.starts[number], removed.starts[number + 1], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RemovedInShard:
    """The removed samples of one shard, for those that read it without a dataset.

    Attributes:
        shard: The shard.
        rows: bool[samples], whether each was removed.
        place: The list of removed samples.
    """

    shard: Shard
    rows: npt.NDArray[np.bool_]
    place: AnyPath

    def has(self, row: int) -> bool:
        """Return whether a sample was removed."""
        return row < len(self.rows) and bool(self.rows[row])

    def check(self, samples: int) -> None:
        """Raise a `FormatError` if the shard has another number of samples than the list."""
        if samples != len(self.rows):
            raise _changed(self.shard, len(self.rows), samples, self.place)


def removed_in(shard: Shard, known: Lists | None = None) -> RemovedInShard | None:
    """Return the removed samples of a shard; None if there are none.

    Args:
        shard: The shard.
        known: The lists of its folder, if they are loaded.

    Raises:
        FormatError: A list is damaged.
    """
    found: RemovedInShard | None = None
    lists = lists_of([shard]) if known is None else known
    for path, name in shard.removal_lists:
        if (own := lists.get(str(path))) is None or name not in (removed := own[1]).shards:
            continue
        number = removed.shards.index(name)
        rows = np.zeros(int(removed.samples[number]), np.bool_)
        rows[removed.rows[removed.starts[number] : removed.starts[number + 1]]] = True
        if found is not None:
            found.check(len(rows))
            rows |= found.rows
        found = RemovedInShard(shard, rows, path)
    return found


def _changed(shard: Shard, listed: int, samples: int, path: AnyPath) -> FormatError:
    return FormatError(
        f"the list of removed samples was made when {shard.name or shard.root} had {listed} samples; it has {samples} "
        f"now, so that rows may be others",
        file=str(path),
        hint="take back the calls with `bushel remove DATASET --undo`, and remove the samples again",
    )


def remaining_in(shards: Sequence[OpenShard]) -> Remaining | None:
    """Return the positions that remain of a dataset with these shards; None if no sample was removed.

    Raises:
        FormatError: A list is damaged, or a shard has changed since it was made.
    """
    one = [shards[0].shard] if isinstance(shards, Listing) else [each.shard for each in shards]
    lists = lists_of(one)
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
    ends = np.zeros(len(table) + 1, np.int64)
    np.cumsum(table.samples, out=ends[1:])
    first = shards[0].shard
    for number in [number for number, name in enumerate(table.names.tolist()) if name in named]:
        yield Shard(first.root, "\0", ()), int(ends[number] - start)
        yield Shard(first.root, table.names[number], (), first.sidecars), int(table.samples[number])
        start = int(ends[number + 1])
    yield Shard(first.root, "\0", ()), int(ends[-1] - start)


def _calls(removed: RemovedRows) -> list[Call]:
    return list(map(Call, removed.reasons, removed.times.tolist()))
