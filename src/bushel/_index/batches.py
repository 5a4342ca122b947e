"""Extents of a read plan that are read with one call. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel.storage import Extents

__all__ = ["Batch", "batch_of_rows"]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Extents of a plan that are read with one call.

    Attributes:
        files: (shard number, file number) of the files to which the extents refer.
        extents: The extents. All of them have a checksum to compare with, or none has.
        rows: int64[n], the number of each extent in the plan; None if these are all extents of the plan, in order.
    """

    files: Sequence[tuple[int, int]]
    extents: Extents
    rows: I64 | None = None

    def row(self, number: int) -> int:
        """Return the number in the plan of one of the extents."""
        return number if self.rows is None else int(self.rows[number])

    def parts(self) -> list[Batch]:
        """Return the extents file by file; those of one file, which may be a block file, in halves."""
        return list(self._by_file() if len(self.files) > 1 else self._halves())

    def _halves(self) -> Iterator[Batch]:
        whole = self.extents
        rows = np.arange(len(whole), dtype=np.int64) if self.rows is None else self.rows
        for own in (slice(None, len(whole) // 2), slice(len(whole) // 2, None)):
            crc32 = None if whole.crc32 is None else whole.crc32[own]
            yield Batch(self.files, Extents(0, whole.offset[own], whole.length[own], crc32), rows[own])

    def _by_file(self) -> Iterator[Batch]:
        """Yield the extents of each file, and those that are missing with the first."""
        whole, extents = self.extents, self.extents
        rows = np.arange(len(extents), dtype=np.int64) if self.rows is None else self.rows
        file = np.full(len(extents), whole.file) if isinstance(whole.file, int) else whole.file
        for number, name in enumerate(self.files):
            own = np.flatnonzero(file == number)
            crc32 = None if whole.crc32 is None else whole.crc32[own]
            yield Batch([name], Extents(0, whole.offset[own], whole.length[own], crc32), rows[own])


def batch_of_rows(files: Sequence[tuple[int, int]], extents: Extents, rows: I64) -> Batch:
    """Return some of the extents of a plan as a batch."""
    file = extents.file if isinstance(extents.file, int) else extents.file[rows]
    crc32 = None if extents.crc32 is None else extents.crc32[rows]
    return Batch(files, Extents(file, extents.offset[rows], extents.length[rows], crc32), rows)
