"""Finding the samples of very many keys at once: a million of a hundred million in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bushel._dataset.read.key_file import stored_lookup
from bushel._dataset.read.shards import ShardRows
from bushel._index.table import Keys
from bushel._runtime.arrays import I64, U64, ranges
from bushel.errors import FormatError


def positions_of_keys(rows: ShardRows, keys: Sequence[str]) -> tuple[I64, list[str]]:
    """Return the positions of all samples that have one of these keys, and the keys that no sample has.

    Returns:
        int64[found], ascending; and the missing keys, in order.
    """
    wanted = list(dict.fromkeys(keys))
    known = np.zeros(len(wanted), np.bool_)
    found = [np.zeros(0, np.int64)]
    table = Keys.of(wanted)
    for number, some in _shards(rows, table.hashes):
        own = rows.shards[number].index.keys
        if own is None:
            continue
        places, hits = _equal(own.hashes, table.hashes[some])
        at, asked = own.order[places], table.order[some[hits]]
        if len(at) and not 0 <= at.min() <= at.max() < len(own):
            sidecar = str(rows.shards[number].shard.sidecar)
            raise FormatError("the index is damaged", file=sidecar, hint="run `bushel index --force` on the dataset")
        pairs = zip(own.take(at), table.take(asked), strict=True)  # two keys may have one hash
        same = np.fromiter((one == other for one, other in pairs), np.bool_, len(at))
        known[asked[same]] = True
        found.append(at[same] + rows.starts[number])
    for place in np.flatnonzero(~known).tolist():
        if (position := _unkeyed(rows, wanted[place])) is not None:
            known[place] = True
            found.append(np.array([position], np.int64))
    missing = [key for key, there in zip(wanted, known.tolist(), strict=True) if not there]
    return np.unique(np.concatenate(found)), missing


def _equal(known: U64, hashes: U64) -> tuple[I64, I64]:
    """Return where ascending hashes equal some others: the places in the first, and in the second ones."""
    first = np.searchsorted(known, hashes, side="left")
    counts = np.searchsorted(known, hashes, side="right") - first
    return ranges(first, counts), np.repeat(np.arange(len(hashes), dtype=np.int64), counts)


def _shards(rows: ShardRows, hashes: U64) -> Iterator[tuple[int, I64]]:
    """Yield the shards that may have some of these hashes, and which: those that the key file names, or all."""
    stored = stored_lookup(rows.shards, rows.starts)
    if stored is None:
        for number, shard in enumerate(rows.shards):
            if shard.keyed:
                yield number, np.arange(len(hashes), dtype=np.int64)
        return
    places, hits = _equal(stored.hashes, hashes)
    if not len(hits):
        return
    numbers = stored.shard_numbers[places]
    order = np.argsort(numbers, kind="stable")
    borders = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for start, end in zip(borders.tolist(), [*borders.tolist()[1:], len(order)], strict=True):
        number = int(numbers[order[start]])
        if number < len(rows.shards):  # a damaged key file may name others
            yield number, np.unique(hits[order[start:end]])


def _unkeyed(rows: ShardRows, key: str) -> int | None:
    """Return the position of the sample that has no key of its own and is found by this number, or None."""
    if not (key.isascii() and key.isdecimal()) or len(key) >= 19 or str(int(key)) != key:
        return None
    position = int(key)
    if position >= rows.starts[-1] or rows.shards[rows.row_of(position)[0]].keyed:
        return None
    return position
