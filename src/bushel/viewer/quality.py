"""The measures of a field so far, and groups of near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel._runtime.arrays import F32, I64, U64, Bools
from bushel.viewer.measures import MEASURES

HASH = "hash"
"""Name of the column of hashes, beside the columns of the measures."""
_FLAT = 1.0  # pictures with less entropy have similar hashes, even if they differ
_BANDS = 4
# largest number of different bits in the hashes of near-duplicates: then one of four bands is equal
_NEAR = _BANDS - 1
_CROWD = 200  # hashes with one band in common are compared with each other up to this number


@dataclass
class Measures:
    """The measures of one field, as far as they are known."""

    field: str  # name of the field
    kind: str  # kind of its values, one of `MEASURES`
    # float32[samples] by measure; NaN for samples that were not measured or have no value
    values: dict[str, F32]
    # uint64[samples], hashes of pictures and texts that are nearly the same in those that are
    # nearly alike
    hashes: U64
    hashed: Bools  # bool[samples], whether a sample has a useful hash
    done: int = 0  # number of samples that were measured, from the first on
    failed: int = 0  # number of samples among them whose value could not be read or decoded

    @classmethod
    def empty(cls, field: str, kind: str, samples: int) -> Measures:
        """Return the measures of a field whose values were not measured yet."""
        values = {name: np.full(samples, np.nan, np.float32) for name in MEASURES[kind]}
        return cls(field, kind, values, np.zeros(samples, np.uint64), np.zeros(samples, np.bool_))

    @property
    def columns(self) -> list[str]:
        """The names of the measures, and of the hashes if there are any."""
        if self.hashed.any():
            return [*self.values, HASH]
        return list(self.values)

    def add(self, position: int, measures: dict[str, float], hash_: int | None) -> None:
        """Record the measures of a sample, and its hash if it has one."""
        for name, value in measures.items():
            self.values[name][position] = value
        if hash_ is not None and measures.get("entropy", _FLAT) >= _FLAT:
            self.hashes[position], self.hashed[position] = hash_, True

    def column(self, name: str) -> tuple[npt.NDArray[np.generic], Bools]:
        """Return the values of a measure, or the hashes, and which of them are missing.

        Raises:
            KeyError: The measure does not exist.
        """
        if name == HASH:
            return self.hashes, ~self.hashed
        if name not in self.values:
            raise KeyError(f"unknown measure {name!r}: known are {', '.join([*self.values, HASH])}")
        values = self.values[name].astype(np.float64)
        return values, np.isnan(values)


def near_duplicates(hashes: Sequence[int] | U64) -> list[list[int]]:
    """Return groups of hashes that differ in at most three bits from another one of their group, largest first.

    Returns:
        For each group the numbers of its members, ascending.
    """
    values = np.asarray(hashes, np.uint64)
    parents = list(range(len(values)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    for band in range(_BANDS):
        part = (values >> np.uint64(16 * band)) & np.uint64(0xFFFF)
        order = np.argsort(part, kind="stable")
        borders = np.flatnonzero(
            np.concatenate([[True], part[order][1:] != part[order][:-1], [True]])
        )
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            members = order[start : min(stop, start + _CROWD)]
            for place, first in enumerate(members[:-1].tolist()):
                later = members[place + 1 :]
                near = _bits(values[later] ^ values[first]) <= _NEAR
                for other in later[near].tolist():
                    parents[root(other)] = root(first)
    groups: dict[int, list[int]] = {}
    for number in range(len(values)):
        groups.setdefault(root(number), []).append(number)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)


def _bits(values: U64) -> I64:
    """Return the number of bits that are set in each value."""
    counts: I64 = np.unpackbits(values.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1)
    return counts
