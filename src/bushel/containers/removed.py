"""The samples that were removed from shards, by the lists in their folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from bushel._index.removed_rows import RemovedRows, load_removed
from bushel._index.table import Shard
from bushel._runtime.arrays import I64, Bools
from bushel._runtime.public import public
from bushel._runtime.structs import Struct
from bushel.errors import FormatError
from bushel.storage import AnyPath

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


def _entries(shard: Shard, lists: Lists) -> Iterator[tuple[AnyPath, RemovedRows, int]]:
    """Yield the lists that have entries of a shard, with their paths, and the number of the shard in each."""
    for path, name in shard.removal_lists:
        if (own := lists.get(str(path))) is not None and name in own[1].shards:
            yield path, own[1], own[1].shards.index(name)


def rows_of(shard: Shard, samples: int, lists: Lists) -> Iterator[tuple[str, I64]]:
    """Yield the entries of a shard in each list that has some: its path, and the numbers of the entries.

    Raises:
        FormatError: The shard has another number of samples than the list.
    """
    for path, removed, number in _entries(shard, lists):
        if removed.samples[number] != samples:
            raise _changed(shard, int(removed.samples[number]), samples, path)
        yield str(path), np.arange(removed.starts[number], removed.starts[number + 1], dtype=np.int64)


@public("bushel.containers")
class RemovedInShard(Struct, frozen=True):
    """The removed samples of one shard, for programs that read it without a dataset. `removed_in` returns it.

    Attributes:
        shard: The shard.
        rows: bool[samples], whether each was removed.
        place: The list of removed samples.
    """

    shard: Shard
    rows: Bools
    place: AnyPath

    def has(self, row: int) -> bool:
        """Return whether a sample was removed."""
        return row < len(self.rows) and bool(self.rows[row])

    def check(self, samples: int) -> None:
        """Raise a `FormatError` if the shard has another number of samples than the list."""
        if samples != len(self.rows):
            raise _changed(self.shard, len(self.rows), samples, self.place)


@public("bushel.containers")
def removed_in(shard: Shard, known: Lists | None = None) -> RemovedInShard | None:
    """Return the removed samples of a shard, or None if no sample was removed.

    Args:
        shard: The shard.
        known: The lists of its folder, if they are loaded.

    Raises:
        FormatError: A list is damaged.

    Examples:
        >>> from bushel.containers import Shard, removed_in
        >>> done = bushel.remove("train/", keys=["cat/1"], reason="opt-out")
        >>> found = removed_in(Shard(Path("train"), "shard-000000.tar", ("shard-000000.tar",)))
        >>> found.rows.nonzero()[0].tolist(), found.has(1)
        ([1], True)
    """
    found: RemovedInShard | None = None
    lists = lists_of([shard]) if known is None else known
    for path, removed, number in _entries(shard, lists):
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
