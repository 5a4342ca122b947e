"""The fields that every sample of a dataset has, and that appended samples need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from bushel._dataset.read.shards import OpenShard
from bushel._index.table import MISSING, FieldExtents
from bushel.errors import SpecError
from bushel.storage import AnyPath


class UsualFields:
    """The fields of a dataset that no sample lacks.

    They are looked up when a new sample lacks a field, so that others cost nothing. Appended
    samples may follow in the last shard; `samples` is their number before anything was appended.
    """

    def __init__(self, path: AnyPath, shards: Sequence[OpenShard], samples: int) -> None:
        self._path, self._shards, self.samples = path, tuple(shards), samples

    def check(self, given: Collection[str], fields: Collection[str]) -> None:
        """Check that new samples lack no field that every sample has. Fields whose value is None count as given.

        Raises:
            SpecError: They lack one.
        """
        lacking = [name for name in fields if name not in given]
        if missing := next((name for name in lacking if name in self._names), None):
            raise SpecError(
                f"the sample lacks {missing!r}, which every sample of {self._path} has: add it;"
                " or, if it has no value, "
                f"append it with {missing!r}: None; or write the samples to another path, and read"
                " both with "
                "bushel.concat"
            )

    @cached_property
    def _names(self) -> frozenset[str]:
        usual: set[str] | None = None
        left = self.samples
        for shard in self._shards:
            rows = min(left, shard.samples)
            left -= rows
            if rows > 0:
                fields = shard.index.fields
                everywhere = {
                    name for name, column in fields.items() if _in_every_row(column, rows)
                }
                usual = everywhere if usual is None else usual & everywhere
        return frozenset(usual or ())


def _in_every_row(column: FieldExtents, rows: int) -> bool:
    """Return whether none of the first `rows` samples lacks a value. An empty list is stored as no list."""
    if column.starts is None:
        return not (column.length[:rows] == MISSING).any()
    starts = column.starts[: rows + 1]
    return bool(np.diff(starts).all()) and not (column.length[: starts[-1]] == MISSING).any()
