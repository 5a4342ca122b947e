"""The remaining positions of a dataset from which samples were removed: rows are found by the names in its lists."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import closing

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._index.identity import sample_digests
from bushel._index.removal_list import Digests, NameLookup, Names, stored_sizes
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U64, offsets_of
from bushel.kernels import crc32

from .reader import Reader
from .selection import Call, Remaining
from .shards import Listing, OpenShard, kinds, samples_of


def remaining_in(
    shards: Sequence[OpenShard],
    lists: Sequence[PlacedList] | None = None,
    among: Container[int] | None = None,
) -> Remaining | None:
    """Return the positions that remain of a dataset with these shards; None if no sample was removed.

    `lists` are the lists of removed samples that are beside them, if they are loaded. Only the shards
    `among` these numbers are searched; without them, all.

    Raises:
        FormatError: A list is damaged.
        OSError: A list, or a value without a recorded checksum, cannot be read.
    """
    if lists is None:
        lists = lists_of(shards)
    ordered = sorted(
        ((call.time, call, placed) for placed in lists for call in placed.removed.calls),
        key=lambda own: own[0],
    )
    calls = tuple(Call(call.reason, call.time, call.id) for _, call, _ in ordered)
    number_of = {
        (str(placed.path), call.id): number for number, (_, call, placed) in enumerate(ordered)
    }
    digests, starts = recorded_digests(shards), offsets_of(samples_of(shards))
    positions, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for placed in lists:
        matcher = _Matcher(placed, number_of)
        for number in shards_to_search(shards, placed, digests):
            if among is not None and number not in among:
                continue
            rows, numbers_of_calls = matcher.rows(shards[number])
            positions.append(rows + starts[number])
            numbers.append(numbers_of_calls)
    removed, first = _earliest(np.concatenate(positions), np.concatenate(numbers))
    if len(removed):
        return Remaining.of(int(starts[-1]), removed, first.astype(np.uint32), calls)
    return None


def recorded_digests(shards: Sequence[OpenShard]) -> Digests:
    """Return the recorded digest of the table of each shard, in bytes; an empty one where none is recorded."""
    if isinstance(shards, Listing):
        return shards.listed.digests.view("S16")
    return np.array([bytes.fromhex(shard.recorded) for shard in shards], "S16")


def shards_to_search(
    shards: Sequence[OpenShard], placed: PlacedList, digests: Digests
) -> list[int]:
    """Return the numbers of the shards that may have a sample which a list names.

    Those that were searched when the list was written need not be searched, or loaded, again.
    Shards with the same digest have the same samples.
    """
    numbers = np.flatnonzero(~placed.removed.are_clean(digests)).tolist()
    return [number for number in numbers if placed.names(shards[number].shard)]


def matches_in(shards: Sequence[OpenShard], placed: PlacedList, names: Names) -> tuple[int, int]:
    """Return how many stored samples have some of the names of a list, and how many of these names no sample has."""
    lookup, samples, matched = NameLookup(names), 0, np.zeros(len(names), np.bool_)
    for number in shards_to_search(shards, placed, recorded_digests(shards)):
        rows, entries = named_rows(shards[number], lookup)
        samples += len(np.unique(rows))
        matched[entries] = True
    return samples, int((~matched).sum())


def named_positions(
    shards: Sequence[OpenShard], placed: PlacedList, lookup: NameLookup, *, same: bool
) -> tuple[I64, I64]:
    """Return the positions of samples that a list names, and the numbers of their names; pairs of both, ascending.

    Without `same`, those that only have the key of a named sample, and other bytes.

    Raises:
        OSError, FormatError: A value without a recorded checksum cannot be read.
    """
    pairs = [np.zeros((2, 0), np.int64)]
    for start, shard in zip(offsets_of(samples_of(shards)).tolist(), shards, strict=False):
        rows, entries = lookup.candidates(shard.index)
        if placed.names(shard.shard) and len(rows):
            alike = (digests_of(shard, rows) == lookup.names.digests[entries]) == same
            alike &= lookup.names.keyed[entries] | same
            pairs.append(np.stack([start + rows, entries])[:, alike])
    positions, entries = np.concatenate(pairs, axis=1)
    order = np.argsort(positions, kind="stable")
    return positions[order], entries[order]


def lists_of(shards: Sequence[OpenShard]) -> list[PlacedList]:
    """Return the lists of removed samples that may name samples of these shards."""
    return lists_beside([shard.shard for shard in kinds(shards)])


class _Matcher:
    """Finds the rows of shards that a list names, and the number of the first call that names each."""

    def __init__(self, placed: PlacedList, number_of: dict[tuple[str, str], int]) -> None:
        self._lookup = NameLookup(placed.removed.names)
        numbers_of_calls = [number_of[str(placed.path), call.id] for call in placed.removed.calls]
        self._numbers = np.array(numbers_of_calls, np.int64)[placed.removed.numbers]

    def rows(self, shard: OpenShard) -> tuple[I64, I64]:
        rows, entries = named_rows(shard, self._lookup)
        return rows, self._numbers[entries]


def _earliest(positions: I64, numbers: I64) -> tuple[I64, I64]:
    """Return each position once, ascending, with its least number."""
    order = np.lexsort((numbers, positions))
    distinct, first = np.unique(positions[order], return_index=True)
    return distinct, numbers[order][first]


def named_rows(shard: OpenShard, lookup: NameLookup) -> tuple[I64, I64]:
    """Return the rows of a shard whose samples are named, and the numbers of these names; pairs of both.

    Raises:
        OSError, FormatError: A value without a recorded checksum cannot be read.
    """
    rows, entries = lookup.candidates(shard.index)
    if not len(rows):
        return rows, entries
    some, place = np.unique(rows, return_inverse=True)
    same = digests_of(shard, some)[place] == lookup.names.digests[entries]
    return rows[same], entries[same]


def names_of(shard: OpenShard, rows: I64) -> Names:
    """Return the names of samples of a shard. Values without a recorded checksum are read."""
    keys = shard.index.keys
    return Names.of(
        None if keys is None else keys.take(rows),
        digests_of(shard, rows),
        stored_sizes(shard.index)[rows],
    )


def digests_of(shard: OpenShard, rows: I64) -> U64:
    """Return uint64[n], the digests of samples of a shard. Values without a recorded checksum are read."""
    index = shard.index
    lacking = [
        name for name, column in index.fields.items() if column.crc32 is None and column.rows
    ]
    if not lacking:
        return sample_digests(index, rows)
    with closing(Reader([shard])) as reader:
        samples = reader.read(rows, dict.fromkeys(lacking), decode=False)
    few = {
        name: _read_column(index.fields[name], rows, [sample.get(name) for sample in samples])
        for name in lacking
    }
    few |= {
        name: _some_of(column, rows) for name, column in index.fields.items() if name not in few
    }
    return sample_digests(
        ShardIndex(len(rows), (), few, index.container), np.arange(len(rows), dtype=np.int64)
    )


def _some_of(column: FieldExtents, samples: I64) -> FieldExtents:
    """Return the extents of some samples."""
    rows, counts = column.rows_of(samples)
    crc32_of = None if column.crc32 is None else column.crc32[rows]
    starts = None if column.starts is None else offsets_of(counts)
    absent = None if column.absent is None else column.absent[samples]
    return replace(
        column, offset=column.offset[rows], length=column.length[rows], crc32=crc32_of, starts=starts, absent=absent,
        segments=None, frames=None, seek=None,
    )  # fmt: skip


def _read_column(column: FieldExtents, samples: I64, values: Sequence[object]) -> FieldExtents:
    """Return the extents of some samples with the checksums of their values, which were read."""
    extents = _some_of(column, samples)
    flat = values
    if column.starts is not None:
        flat = [value for several in values for value in several or ()]  # type: ignore[attr-defined]
    sums = [0 if value is None else crc32(value) for value in flat]  # type: ignore[arg-type]
    assert len(sums) == extents.rows
    return replace(
        extents,
        crc32=np.where(extents.length == MISSING, 0, np.array(sums, np.uint32)).astype(np.uint32),
    )
