"""Keys of all shards of a dataset, found by their hashes without a dict of all keys, and pairs of equal hashes.

Ten million pairs take seconds. Pure: no I/O.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import (
    I64,
    U32,
    U64,
    LazySequence,
    concatenated,
    equal_places,
    joined,
    offsets_of,
)
from bushel.errors import FormatError
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


class KeyLookup(Struct, frozen=True):
    """Finds the positions of keys by their hashes: the shard of each hash, whose table of keys has the sample.

    It takes 12 bytes per sample. Samples without keys of their own have no hash; their key is their
    position.
    """

    shards: Sequence[Any]  # the dataset's `OpenShard`s
    starts: I64  # int64[shards + 1], position of each shard's first sample
    hashes: U64  # uint64[keyed samples], ascending
    # uint32[keyed samples], the place in `shards` of each hash's shard
    shard_numbers: U32

    @classmethod
    def of(cls, shards: Sequence[Any]) -> KeyLookup:
        """Return the lookup of these shards. The hashes of a single one are used without a copy."""
        starts = offsets_of(shard.samples for shard in shards)
        hashes_of = {
            number: keys.hashes
            for number, shard in enumerate(shards)
            if shard.keyed and (keys := shard.index.keys) is not None
        }
        numbers = list(hashes_of)
        if len(numbers) == 1:
            [hashes] = hashes_of.values()
            return cls(shards, starts, hashes, np.broadcast_to(np.uint32(numbers[0]), len(hashes)))
        hashes = concatenated(hashes_of.values(), np.uint64)
        order = np.argsort(hashes, kind="stable")
        shard_numbers = np.repeat(np.array(numbers, np.uint32), list(map(len, hashes_of.values())))
        return cls(shards, starts, hashes[order], shard_numbers[order])

    def find(self, key: str) -> list[int]:
        """Return the positions of the samples with this key, ascending."""
        encoded = _encoded(key)
        # `joined` would take a third of the time of a look-up
        [hash_of_key] = hash_keys(
            np.frombuffer(encoded, np.uint8), np.array([0, len(encoded)], np.int64)
        )
        unkeyed = unkeyed_position(key, self.shards, self.starts)
        positions = [] if unkeyed is None else [unkeyed]
        places = _places(self.hashes, hash_of_key)
        for shard in set(self.shard_numbers[places.start : places.stop].tolist()):
            # of a damaged table, there may be no such shard, key or sample
            if shard < len(self.shards) and (keys := self.shards[shard].index.keys) is not None:
                for at in _places(keys.hashes, hash_of_key):
                    row = int(keys.order[at])
                    if 0 <= row < len(keys) and keys[row] == key:
                        positions.append(int(self.starts[shard]) + row)
        return sorted(positions)


def samples_of_keys(
    keys: Sequence[str], shards: Sequence[Any], starts: I64, lookup: KeyLookup | None = None
) -> tuple[I64, I64]:
    """Return the positions of all samples with some keys, and the numbers of their keys: pairs of both, by shard.

    Args:
        keys: The keys.
        shards: The dataset's `OpenShard`s.
        starts: As in `KeyLookup`.
        lookup: Says which shards may have a key; without it, the keys of all are looked at.

    Raises:
        FormatError: The index of a shard is damaged.
    """
    hashes = hash_keys(*joined([_encoded(key) for key in keys]))
    if lookup is None:
        numbers_in = dict.fromkeys(range(len(shards)), np.arange(len(keys)))
    else:
        places, numbers = equal_places(lookup.hashes, hashes)
        homes = lookup.shard_numbers[places]
        numbers_in = {
            shard: np.unique(numbers[homes == shard]) for shard in np.unique(homes).tolist()
        }
    pairs = [np.zeros((2, 0), np.int64)]
    for shard, numbers in numbers_in.items():
        # a damaged key file may name others
        keyed = shard < len(shards) and shards[shard].keyed
        if not keyed or (stored := shards[shard].index.keys) is None:
            continue
        places, alike = equal_places(stored.hashes, hashes[numbers])
        rows, numbers = stored.samples_at(places), numbers[alike]
        try:
            # two keys may have one hash
            texts = zip(stored.take(rows), numbers.tolist(), strict=True)
            same = np.array([text == keys[number] for text, number in texts], np.bool_)
        except (ValueError, IndexError) as error:
            hint = "run `bushel index --force` on the dataset"
            sidecar = shards[shard].shard.sidecar
            raise FormatError("the index is damaged", sidecar, hint=hint) from error
        pairs.append(np.stack([starts[shard] + rows, numbers])[:, same])
    for number, key in enumerate(keys):
        if (position := unkeyed_position(key, shards, starts)) is not None:
            pairs.append(np.array([[position], [number]]))
    positions, numbers = np.concatenate(pairs, axis=1)
    return positions, numbers


def _encoded(key: str) -> bytes:
    """Return a key as it is stored; no bytes for one with half of a surrogate pair, which no sample has.

    Raises:
        TypeError: The key is not a str.
    """
    if not isinstance(key, str):
        raise TypeError(f"a key must be a str, not {key!r}; for positions use ds[3] or ds[[3, 1]]")
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b""


def _places(hashes: U64, wanted: np.uint64) -> range:
    """Return the places of a hash in ascending hashes."""
    first = last = int(hashes.searchsorted(wanted))
    while last < len(hashes) and hashes[last] == wanted:
        last += 1
    return range(first, last)


class KeyView(LazySequence[str]):
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

    def _made(self, numbers: range) -> list[str]:
        return self._take(np.arange(numbers.start, numbers.stop, numbers.step))

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._length, _CHUNK):
            yield from self[first : first + _CHUNK]

    def index(self, value: Any, start: int = 0, stop: int = sys.maxsize) -> int:
        """Return the first position of a key."""
        try:
            return super().index(value, start, stop)
        except ValueError:
            raise ValueError(f"no sample has the key {value!r}") from None


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


class LookedUp(Struct, frozen=True):
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
