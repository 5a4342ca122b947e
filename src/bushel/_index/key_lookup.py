"""Keys of all shards of a dataset, found by their hashes without a dict of all keys, and pairs of equal hashes.

Ten million pairs take seconds. Pure: no I/O.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U32, U64, offsets_of
from bushel.kernels import hash_keys

_CHUNK = 1024


def unkeyed_position(key: str, shards: Sequence[Any], starts: I64) -> int | None:
    """Return the position of the sample that has no key of its own and is found by this number, or None."""
    if not (key.isascii() and key.isdecimal()) or len(key) >= 19 or str(int(key)) != key:
        return None
    position = int(key)
    if position >= starts[-1]:
        return None
    shard = int(np.searchsorted(starts, position, side="right")) - 1
    return None if shards[shard].keyed else position


class KeyFinder(Protocol):
    """Finds the positions of a key."""

    def find(self, key: str) -> list[int]:
        """Return the positions of the samples with this key, ascending."""


class KeyLookup(Struct, frozen=True):
    """Finds the positions of keys by their hashes. A subclass finds the samples that may have a hash.

    Samples without keys of their own have no hash; their key is their position.
    """

    shards: Sequence[Any]  # the dataset's `OpenShard`s
    starts: I64  # int64[shards + 1], position of each shard's first sample
    hashes: U64  # uint64[keyed samples], ascending

    def find(self, key: str) -> list[int]:
        """Return the positions of the samples with this key, ascending."""
        unkeyed = unkeyed_position(key, self.shards, self.starts)
        return sorted([*self._keyed(key), *([] if unkeyed is None else [unkeyed])])

    def _keyed(self, key: str) -> Iterator[int]:
        """Yield the positions of the samples that have this key of their own."""
        try:
            encoded = key.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return  # no stored key contains half of a surrogate pair
        [hash_of_key] = hash_keys(
            np.frombuffer(encoded, np.uint8), np.array([0, len(encoded)], np.int64)
        )
        for shard, row in self._candidates(hash_of_key):
            keys = self.shards[shard].index.keys
            if keys is not None and keys[row] == key:
                yield int(self.starts[shard]) + row

    @abstractmethod
    def _candidates(self, wanted: np.uint64) -> Iterator[tuple[int, int]]:
        """Yield shard and row of the samples whose key has this hash, in ascending order."""


class KeyTable(KeyLookup, frozen=True):
    """A lookup with the position of every hash's sample: 16 bytes per sample."""

    # int64[keyed samples], the position of each hash's sample; ascending where hashes are equal
    positions: I64 | U32

    @classmethod
    def of(cls, shards: Sequence[Any]) -> KeyTable:
        """Return the table of these shards. A single shard's own table is used without a copy."""
        starts = offsets_of(shard.samples for shard in shards)
        tables = [
            (keys.hashes, keys.order + np.int64(start) if start else keys.order)
            for shard, start in zip(shards, starts.tolist(), strict=False)
            if shard.keyed and (keys := shard.index.keys) is not None
        ]
        if len(tables) == 1:
            return cls(shards, starts, *tables[0])
        if not tables:
            return cls.without_keys(shards, starts)
        hashes, positions = map(np.concatenate, zip(*tables, strict=True))
        order = np.argsort(hashes, kind="stable")
        return cls(shards, starts, hashes[order], positions[order])

    @classmethod
    def without_keys(cls, shards: Sequence[Any], starts: I64) -> KeyTable:
        """Return the table of shards whose samples have no keys of their own."""
        return cls(shards, starts, np.zeros(0, np.uint64), np.zeros(0, np.int64))

    def _candidates(self, wanted: np.uint64) -> Iterator[tuple[int, int]]:
        for at in _places(self.hashes, wanted):
            position = int(self.positions[at])
            shard = int(np.searchsorted(self.starts, position, side="right")) - 1
            if 0 <= shard < len(self.shards):  # a damaged table may point outside the dataset
                yield shard, position - int(self.starts[shard])


class StoredKeyTable(KeyLookup, frozen=True):
    """A lookup by the key file, which has the shard of each hash. The keys of that shard give the sample."""

    # uint32[keyed samples], the place in `shards` of each hash's shard
    shard_numbers: U32

    def _candidates(self, wanted: np.uint64) -> Iterator[tuple[int, int]]:
        places = _places(self.hashes, wanted)
        for shard in np.unique(self.shard_numbers[places.start : places.stop]).tolist():
            # of a damaged table, there may be no such shard, key or sample
            if shard < len(self.shards) and (keys := self.shards[shard].index.keys) is not None:
                rows = (int(keys.order[at]) for at in _places(keys.hashes, wanted))
                yield from ((shard, row) for row in rows if 0 <= row < len(keys))


def _places(hashes: U64, wanted: np.uint64) -> range:
    """Return the places of a hash in ascending hashes."""
    first = last = int(np.searchsorted(hashes, wanted))
    while last < len(hashes) and hashes[last] == wanted:
        last += 1
    return range(first, last)


class KeyView(Sequence[str]):
    """The keys of a dataset in order, as a sequence that reads them on access."""

    def __init__(self, length: int, take: Callable[[I64], list[str]]) -> None:
        self._length, self._take = length, take

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        shown = [repr(key) for key in self[:3]]
        return (
            f"<{self._length} keys: {', '.join(shown)}{', …' if self._length > len(shown) else ''}>"
        )

    @overload
    def __getitem__(self, item: int) -> str: ...
    @overload
    def __getitem__(self, item: slice) -> list[str]: ...

    def __getitem__(self, item: int | slice) -> str | list[str]:
        if isinstance(item, slice):
            return self._take(np.arange(*item.indices(self._length)))
        position = operator.index(item)
        if not -self._length <= position < self._length:
            raise IndexError(f"position {position} is out of range for {self._length} keys")
        return self._take(np.array([position % self._length], np.int64))[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._length, _CHUNK):
            yield from self[first : first + _CHUNK]


def equal_hashes(left: U64, right: U64) -> tuple[I64, I64]:
    """Return the places of equal hashes. Where one comes several times, the n-th is paired with the n-th.

    Args:
        left: uint64[n], in any order.
        right: uint64[m], in any order.

    Returns:
        Two int64[pairs]: places in `left`, ascending, and their partners in `right`.
    """
    places, order = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    sorted_left, sorted_right = left[places], right[order]
    # the n-th of equal hashes on the left may have the n-th of them on the right
    number = np.arange(len(left)) - np.searchsorted(sorted_left, sorted_left, side="left")
    partner = np.searchsorted(sorted_right, sorted_left, side="left") + number
    inside = np.flatnonzero(partner < len(right))
    inside = inside[sorted_right[partner[inside]] == sorted_left[inside]]
    matched, partners = places[inside], order[partner[inside]]
    back = np.argsort(matched, kind="stable")
    return matched[back].astype(np.int64), partners[back].astype(np.int64)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Sorted hashes in which other hashes are looked up."""

    hashes: U64  # uint64[n], ascending
    order: I64  # int64[n], the place of each hash; ascending where hashes are equal

    @classmethod
    def of(cls, hashes: U64) -> LookedUp:
        """Return these hashes, in order."""
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], order)

    def repeated(self) -> tuple[I64, I64]:
        """Return the places of equal hashes that follow each other in order: of one, and of the next."""
        same = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        return self.order[same], self.order[same + 1]

    def find(self, wanted: LookedUp) -> I64:
        """Return int64[n], by the places of some hashes, the first place of the same hash here; -1 if it is missing."""
        partners = np.full(len(wanted.hashes), -1, np.int64)
        if len(self.hashes):
            at = np.minimum(self.hashes.searchsorted(wanted.hashes), len(self.hashes) - 1)
            is_equal = self.hashes[at] == wanted.hashes
            partners[wanted.order[is_equal]] = self.order[at[is_equal]]
        return partners

    def places(self, hash_: np.uint64) -> Iterator[int]:
        """Yield all places of a hash."""
        return (int(self.order[place]) for place in _places(self.hashes, hash_))
