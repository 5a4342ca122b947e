"""Check the keys of samples that a writer appends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from bushel._dataset.read.shards import OpenShard
from bushel._index.key_lookup import KeyTable
from bushel._index.shard import may_lack_samples
from bushel._runtime.arrays import joined
from bushel.containers.stored_column import StoredColumn
from bushel.errors import SpecError
from bushel.kernels import KeySet

_DIGITS = 9
# numbers that become texts in a set when a sample with a key of its own follows them
_MOST_SPELLED = 1 << 20


@dataclass(frozen=True, slots=True)
class NumberedKeys(Sequence[str]):
    """Keys of samples that have none of their own, in a container that needs them: their positions in nine digits."""

    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> NumberedKeys: ...

    def __getitem__(self, at: int | slice) -> str | NumberedKeys:
        if isinstance(at, slice):
            return NumberedKeys(self.numbers[at])
        return f"{self.numbers[at]:0{_DIGITS}d}"

    def __contains__(self, key: object) -> bool:
        if not (isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 20):
            return False
        number = int(key)
        return number in self.numbers and key == f"{number:0{_DIGITS}d}"

    def column(self) -> StoredColumn:
        """Return the keys as text and offsets."""
        if self.numbers and self.numbers[-1] >= 10**_DIGITS:
            return key_column(list(self))
        numbers = np.arange(self.numbers.start, self.numbers.stop)
        digits = np.empty((len(numbers), _DIGITS), np.uint8)
        for place in reversed(range(_DIGITS)):
            numbers, digits[:, place] = np.divmod(numbers, 10)
        digits += ord("0")
        return StoredColumn(digits.reshape(-1), np.arange(len(digits) + 1) * _DIGITS)


def key_column(keys: Sequence[str]) -> StoredColumn:
    """Return keys as text and offsets."""
    if isinstance(keys, NumberedKeys):
        return keys.column()
    return StoredColumn(*joined([key.encode("utf-8", "surrogateescape") for key in keys]))


class RepeatedKeyError(ValueError):
    """A new sample has the key of another one."""


class KeyCheck:
    """The keys of a dataset. Either all samples have a key, or none.

    If the container needs keys, samples without one get their position.
    With `reuse`, a new sample may have the key of a removed one, which is in another file.
    """

    def __init__(self, shards: list[OpenShard], *, needs_keys: bool, reuse: bool = False) -> None:
        # the list loses one that is continued
        self._table = KeyTable.of(tuple(shards)) if shards else None
        self._removed = _removed_positions(shards) if shards and reuse else frozenset[int]()
        self._keys = KeySet()
        self._numbered = NumberedKeys(range(0))  # of the samples without a key of their own
        self._needs_keys = needs_keys

    def check(self, key: str | None, position: int) -> str:
        """Return the key of a new sample.

        Raises:
            TypeError: The key is not a str.
            ValueError: The key is missing, or another sample has it.
            SpecError: The key has half of a surrogate pair, which UTF-8 cannot store.
        """
        if key is None:
            if not self._needs_keys:
                raise ValueError(
                    "this sample has no key, but the samples before it have one: pass key="
                )
            key = f"{position:09d}"
        if not (isinstance(key, str) and key.isascii()):
            _check_text(key)
        if self._has(key):
            raise RepeatedKeyError(f"key {key!r} is in the dataset already")
        return key

    def _has(self, key: str) -> bool:
        in_table = self._table is not None and not self._removed.issuperset(self._table.find(key))
        if in_table or key in self._keys:
            return True
        return bool(self._numbered.numbers) and key in self._numbered

    @property
    def known(self) -> KeySet | None:
        """A set of all keys, to which new ones can be added; None if the keys are not all in a set."""
        if self._table is None and not self._numbered:
            return self._keys
        return None

    def counts_on(self, number: int) -> bool:
        """Return whether all samples have their numbers as keys, and this is the next one: see `count_to`."""
        alone = self._needs_keys and self._table is None and not self._keys
        return alone and self._follows(number)

    def _follows(self, number: int) -> bool:
        return not self._numbered or self._numbered.numbers.stop == number

    def _count_from(self, first: int, stop: int) -> None:
        """Note that samples up to a number have their numbers as keys, the first of the new ones being `first`."""
        numbers = self._numbered.numbers or range(first, stop)
        self._numbered = NumberedKeys(range(numbers.start, stop))

    def count_to(self, number: int) -> None:
        """Note that samples have their numbers up to this one as keys, if all samples before them do."""
        if self._numbered and self._table is None and not self._keys:
            self._count_from(number, number)

    def add(self, key: str, number: int | None) -> None:
        """Add the key of a sample that was written, and its number if that is its key."""
        if number is not None and self.counts_on(number):
            self._count_from(number, number + 1)
            return
        # so that `known` has all
        if 0 < len(self._numbered.numbers) <= _MOST_SPELLED and self._table is None:
            self._keys.add_all(self._numbered)
            self._numbered = NumberedKeys(range(0))
        self._keys.add(key)

    def check_all(self, keys: Sequence[str]) -> None:
        """Check the keys of many new samples.

        Raises:
            TypeError: A key is not a str.
            ValueError: Two samples have the same key, or another sample has one of them.
            SpecError: A key has half of a surrogate pair, which UTF-8 cannot store.
        """
        if isinstance(keys, NumberedKeys) and self._table is None and not self._keys:
            return  # positions, so they are new
        if not (set(map(type, keys)) <= {str} and all(map(str.isascii, keys))):
            for key in keys:
                _check_text(key)
        if (twice := KeySet().add_all(keys)) is not None:
            raise ValueError(f"key {twice!r} is given twice")
        if self._table is None and not self._numbered:
            repeated = self._keys.first_of(keys)
        else:
            repeated = next(filter(self._has, keys), None)
        if repeated is not None:
            raise RepeatedKeyError(f"key {repeated!r} is in the dataset already")

    def add_all(self, keys: Sequence[str]) -> None:
        """Add the keys of samples that were written."""
        if isinstance(keys, NumberedKeys) and self._follows(keys.numbers.start):
            self._count_from(keys.numbers.start, keys.numbers.stop)
        else:
            self._keys.add_all(keys)


def _removed_positions(shards: list[OpenShard]) -> frozenset[int]:
    if not may_lack_samples([opened.shard for opened in shards]):
        return frozenset()
    from bushel._dataset.read.remaining import removed_in

    return frozenset(removed_in(shards).tolist())


def _check_text(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a key must be a str, not {type(key).__name__}: use str({key!r})")
    try:
        key.encode("utf-8", "surrogateescape")  # which stands for bytes of names that are not UTF-8
    except UnicodeEncodeError as error:
        raise SpecError(
            f"the key {key!r} cannot be stored as UTF-8: "
            f"character {error.start} is half of a surrogate pair"
        ) from None
