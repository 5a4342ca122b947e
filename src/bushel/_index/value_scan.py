"""Scans of stored values, for facts that an index holds beside extents.

There are three kinds, which `scans` defines: segments of tiled JPEGs, seek tables of plain ones,
and packets of clips. Each is an attribute of `FieldExtents`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from msgspec.structs import replace

from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64
from bushel._runtime.parallel import parallel_map
from bushel._runtime.threads import cpu_count
from bushel.storage import File

_CHUNK_BYTES = 4 << 20

T = TypeVar("T")
U = TypeVar("U")

Scanned = Literal["segments", "frames", "seek"]
"""The attribute of `FieldExtents` that a scan fills."""


@dataclass(frozen=True, slots=True)
class ValueScan(Generic[T]):
    """One kind of scan of stored values."""

    attribute: Scanned  # the attribute of `FieldExtents` that holds it
    fits: Callable[[FieldExtents], bool]  # whether the values of a field can have it
    # reads the values of a field and returns it; the arguments are the extents, their file, the
    # known array of the first rows, which are not read again (None without one), and the number of
    # threads
    scan: Callable[[FieldExtents, File, T | None, int], T]

    def fields(self, index: ShardIndex) -> list[str]:
        """Return the fields that can have it."""
        return [name for name, column in index.fields.items() if self.fits(column)]

    def add(
        self, index: ShardIndex, file_of: Callable[[int], File], before: ShardIndex | None = None
    ) -> ShardIndex:
        """Return the index of a shard with the missing arrays of this kind. Values are read once.

        Args:
            index: The table of the shard.
            file_of: Opens a file or block file of the shard, given its number.
            before: The table of a shard that has grown since: only the values that came later are
                read.

        Returns:
            The same index if nothing was missing.

        Raises:
            ExtentError: A file is shorter than an extent in the index requires.
        """
        scanned = {}
        for name in self.fields(index):
            column = index.fields[name]
            if getattr(column, self.attribute) is None:
                if before is None:
                    scanned_before = None
                else:
                    scanned_before = getattr(before.fields.get(name), self.attribute, None)
                value: Any = self.scan(column, file_of(column.file), scanned_before, cpu_count())
                scanned[name] = replace(column, **{self.attribute: value})
        if scanned:
            return replace(index, fields={**index.fields, **scanned})
        return index


def scanned_in(index: ShardIndex) -> frozenset[Scanned]:
    """Return the kinds that an index holds for any of its fields."""
    kinds: tuple[Scanned, ...] = ("segments", "frames", "seek")
    return frozenset(
        kind
        for kind in kinds
        if any(getattr(column, kind) is not None for column in index.fields.values())
    )


def present_rows(column: FieldExtents, first: int = 0) -> I64:
    """Return the rows from `first` on that have a value."""
    return np.flatnonzero(column.length[first:] != MISSING) + first


def each_chunk(
    column: FieldExtents, rows: I64, read: Callable[[I64], U], threads: int, most: int = 4096
) -> Iterator[tuple[I64, U]]:
    """Yield some rows in chunks with the results of a function, which threads call with each chunk.

    A chunk has 4 MiB of values and `most` rows at most.
    """
    chunks = list(_chunks(rows, column.length, most))
    yield from zip(
        chunks, parallel_map(read, chunks, threads=threads, name="bushel-scan"), strict=True
    )


def _chunks(rows: I64, lengths: I64, most: int) -> Iterator[I64]:
    ends = np.cumsum(lengths[rows], dtype=np.int64)
    first = before = 0
    while first < len(rows):
        fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        last = min(max(fitting, first + 1), first + most, len(rows))
        yield rows[first:last]
        first, before = last, int(ends[last - 1])
