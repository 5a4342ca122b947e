"""The fields that every sample of a dataset has, which samples that are appended to it need, too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from bushel._index.table import MISSING
from bushel._reader.shards import OpenShard
from bushel.errors import SpecError
from bushel.storage import AnyPath

__all__ = ["UsualFields"]


class UsualFields:
    """The fields of a dataset, as far as no sample lacks them.

    They are looked up when a new sample lacks a field, so that others cost nothing.

    Args:
        path: Path of the dataset, for messages.
        shards: Its shards before anything is appended.
    """

    def __init__(self, path: AnyPath, shards: Sequence[OpenShard]) -> None:
        self._path, self._shards = path, tuple(shard for shard in shards if shard.samples)

    def check(self, given: Collection[str], fields: Collection[str]) -> None:
        """Check that new samples lack no field that every sample has.

        Args:
            given: The fields of the new samples; those whose value is None count.
            fields: All fields of the dataset.

        Raises:
            SpecError: They lack one.
        """
        lacking = [name for name in fields if name not in given]
        if wanted := next((name for name in lacking if name in self._names), None):
            raise SpecError(
                f"the sample lacks {wanted!r}, which every sample of {self._path} has: add it; or, if it has no value, "
                f"append it with {wanted!r}: None; or write the samples to another path, and read both with "
                "bushel.concat"
            )

    @cached_property
    def _names(self) -> frozenset[str]:
        shards = [shard.index.fields for shard in self._shards]
        found = set(shards[0]) if shards else set()
        for fields in shards:
            for name in list(found):
                column = fields.get(name)
                if column is None or (column.length == MISSING).any():
                    found.discard(name)
                elif column.starts is not None and not np.diff(column.starts).all():
                    found.discard(name)  # an empty list is stored as no list
        return frozenset(found)
