"""Scans of stored values, for facts that an index holds beside extents.

There are three kinds, which `scans` defines: segments of tiled JPEGs, seek tables of plain ones, and packets of clips.
Each is an attribute of `Column`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from bushel.core.index.table import INLINE, MISSING, Column, ShardIndex
from bushel.core.parallel import cpu_count
from bushel.storage import AnyPath, File, open_file

__all__ = ["Scanned", "ValueScan", "chunks_of", "rows_in_one_piece", "scanned_in"]

_CHUNK_BYTES = 4 << 20

T = TypeVar("T")

Scanned = Literal["segments", "frames", "seek"]
"""The attribute of `Column` that a scan fills."""


@dataclass(frozen=True, slots=True)
class ValueScan(Generic[T]):
    """One kind of knowledge about stored values.

    Attributes:
        attribute: The attribute of `Column` that holds it.
        fits: Whether the values of a column in a file can have it.
        scan: Reads the values of a column and returns it. The arguments are the column, its file, what is known of its
            first rows (None: nothing), which are not read again, and the number of threads.
    """

    attribute: Scanned
    fits: Callable[[Column], bool]
    scan: Callable[[Column, File, T | None, int], T]

    def fields(self, index: ShardIndex) -> list[str]:
        """Return the fields that can have it."""
        return [name for name, column in index.columns.items() if column.file != INLINE and self.fits(column)]

    def add(self, index: ShardIndex, path_of: Callable[[int], AnyPath], before: ShardIndex | None = None) -> ShardIndex:
        """Return the index of a shard with what its fields lack. Values are read once.

        Args:
            index: The table of the shard.
            path_of: Returns the path of one of the shard's files, given its number.
            before: The table of a shard that has grown since: only the values that came later are read.

        Returns:
            The same index if nothing was missing.

        Raises:
            ExtentError: The files are shorter than the index says.
        """
        found = {}
        for name in self.fields(index):
            column = index.columns[name]
            if getattr(column, self.attribute) is None:
                known = None if before is None else getattr(before.columns.get(name), self.attribute, None)
                value: Any = self.scan(column, open_file(path_of(column.file)), known, cpu_count())
                found[name] = replace(column, **{self.attribute: value})
        return replace(index, columns={**index.columns, **found}) if found else index


def scanned_in(index: ShardIndex) -> frozenset[Scanned]:
    """Return the kinds that an index holds for any of its fields."""
    kinds: tuple[Scanned, ...] = ("segments", "frames", "seek")
    return frozenset(
        kind for kind in kinds if any(getattr(column, kind) is not None for column in index.columns.values())
    )


def rows_in_one_piece(column: Column, first: int) -> npt.NDArray[np.int64]:
    """Return the rows of a column from `first` on whose values exist and are not stored in pieces."""
    whole = column.length != MISSING
    if column.fragments is not None:
        whole[column.fragments.rows] = False
    return np.flatnonzero(whole[first:]) + first


def chunks_of(
    rows: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], most: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield rows in groups that one thread reads at a time: of 4 MiB, and of `most` rows, at most.

    Args:
        rows: int64[n].
        lengths: int64[rows of the column], in bytes.
        most: Number of rows.
    """
    first = size = 0
    for at, length in enumerate(lengths[rows].tolist()):
        if at > first and (size + length > _CHUNK_BYTES or at - first >= most):
            yield rows[first:at]
            first, size = at, 0
        size += length
    if first < len(rows):
        yield rows[first:]
