"""Find keys that several parts have, with files of sorted hashes instead of a table of all keys in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bushel._index.table import Keys
from bushel._runtime.arrays import U64
from bushel._runtime.structs import Struct
from bushel.storage import AnyPath, open_file, write_whole

_BITS = 8  # files have the offsets of the hashes of each of 2**8 equal ranges
_HEAD = 8 * ((1 << _BITS) + 1)
_AT_ONCE = 4 << 20


def save_hashes(path: AnyPath, hashes: U64) -> None:
    """Write the hashes of keys: uint64[257], the number of hashes before each range, and the sorted hashes."""
    ordered = np.sort(hashes)
    bounds = np.arange(1 << _BITS, dtype=np.uint64) << np.uint64(64 - _BITS)
    starts = np.append(np.searchsorted(ordered, bounds), len(ordered)).astype("<u8")
    write_whole(path, starts.tobytes() + ordered.astype("<u8").tobytes(), sync=False)


def ranges_of_hashes(keys: int) -> list[range]:
    """Return the ranges that are looked at together, for this number of keys: about 4 million keys at a time."""
    count = min(max(1, -(-keys // _AT_ONCE)), 1 << _BITS)
    return [
        range((number << _BITS) // count, ((number + 1) << _BITS) // count)
        for number in range(count)
    ]


class RepeatedTask(Struct, frozen=True):
    """Finds hashes that several files have, of some ranges. It can be pickled."""

    paths: Sequence[AnyPath]
    ranges: Sequence[range]

    def __call__(self, number: int, /) -> U64:
        """Return the hashes that occur more than once, ascending."""
        own = self.ranges[number]
        pieces = [np.zeros(0, np.uint64)]
        for path in self.paths:
            file = open_file(path)
            starts: U64 = np.frombuffer(file.read(0, _HEAD), "<u8")
            first, last = int(starts[own.start]), int(starts[own.stop])
            if first < last:
                pieces.append(
                    np.frombuffer(file.read(_HEAD + 8 * first, 8 * (last - first)), "<u8")
                )
        hashes = np.sort(np.concatenate(pieces))
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def keys_with(hashes: U64, tables: Iterable[Keys]) -> list[str]:
    """Return the keys of a part that have one of these hashes, in order."""
    found: list[str] = []
    for keys in tables:
        rows = keys.order[np.isin(keys.hashes, hashes)]
        found += keys.take(np.sort(rows)) if len(rows) else ()
    return found


def taken_keys(parts: Iterable[tuple[int, Sequence[str]]]) -> list[tuple[str, int, int]]:
    """Return the keys that an earlier part has, with the numbers of the first part that has them, and of theirs.

    The parts are ascending, and have the keys that other parts may have, too.
    """
    first: dict[str, int] = {}
    placed = [
        (key, first.setdefault(key, number), number) for number, keys in parts for key in keys
    ]
    return [(key, before, number) for key, before, number in placed if before != number]
