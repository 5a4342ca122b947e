"""Computing the CRC-32 of every field, for containers that store none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U32
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile
from bushel.storage import BlockFile, Extents, File, checksums_of
from bushel.storage.fileobject import SmallFile

from .base import Report, unreported

# bytes between two progress reports, and limit of bytes in memory for files that are not local
_BATCH = 64 << 20
_BATCH_OF_BLOCKS = 16 << 20  # the same, of the blocks of local files
_VALUES = 1 << 16  # values whose checksums are computed together
# the same, of files that are compressed or not local: expanding and requests take longer
_VALUES_OF_REQUEST = 1 << 18


def with_checksums(
    index: ShardIndex, file_of: Callable[[int], File], *, report: Report = unreported
) -> ShardIndex:
    """Compute the checksums that an index lacks, with one scan of the files.

    Args:
        index: A checked index. Columns that have checksums keep them.
        file_of: Opens one of its files or block files, given its number (`_index.table.opener`).
        report: Called with the bytes read since the last call.

    Returns:
        The index with a `crc32` in every column: 0 where a field is missing.

    Raises:
        FormatError: A file has shrunk since it was indexed, or a block cannot be expanded.
    """
    lacking = [column for column in index.fields.values() if column.crc32 is None]
    crc32 = {column.field.name: np.zeros(0, np.uint32) for column in lacking}
    stored = [column for column in lacking if len(column.offset)]
    if stored and index.blocks:
        for number in range(len(index.files)):  # a pipe in the place of an empty file is an error
            file_of(number).read(0, 0)
    for number in dict.fromkeys(column.file for column in stored):
        columns_of_file = [column for column in stored if column.file == number]
        reading = _Reading(index, file_of, number, report)
        local = isinstance(reading.file, MappedFile)
        for group, in_order in _groups(columns_of_file, index.samples, local=local):
            steps = [[slice(len(column.offset)) for column in group]]
            if in_order:
                at_once = _VALUES if local else _VALUES_OF_REQUEST
                steps = list(_steps(group, index.samples, at_once))
            crc32 |= _sums(group, reading, steps, in_order=in_order)
    columns = dict(index.fields)
    for name, sums in crc32.items():
        columns[name] = replace(columns[name], crc32=sums)
    return replace(index, fields=columns)


def _groups(
    columns: list[FieldExtents], samples: int, *, local: bool
) -> list[tuple[list[FieldExtents], bool]]:
    """Return the fields of one file that are read together, and whether their samples follow each other.

    Fields of a local file are read alone if each is in order and all are not. Other files are read
    in one pass, as are fields whose values are in no order.
    """
    together = _follow_each_other(columns, samples)
    if local and not together and all(_follow_each_other([column], samples) for column in columns):
        return [([column], True) for column in columns]
    return [(columns, together)]


def _steps(columns: Sequence[FieldExtents], samples: int, at_once: int) -> Iterator[list[slice]]:
    """Yield the rows of each field for some samples, which have about as many values as are processed at once."""
    rows = sum(len(column.offset) for column in columns)
    step = max(at_once * samples // max(rows, 1), 1)
    for first in range(0, samples, step):
        ends = [first, min(first + step, samples)]
        yield [
            slice(*(ends if column.starts is None else column.starts[ends].tolist()))
            for column in columns
        ]


def _follow_each_other(columns: Sequence[FieldExtents], samples: int) -> bool:
    """Return whether a file has the values of fields in order, and all of some samples before the next samples."""
    end = 0
    for step in _steps(columns, samples, _VALUES):
        before = end
        for column, rows in zip(columns, step, strict=True):
            offset = column.offset[rows][column.length[rows] > 0]
            if len(offset):
                if offset[0] < before or (offset[1:] < offset[:-1]).any():
                    return False
                end = max(end, int(offset[-1]))
    return True


def _sums(
    columns: Sequence[FieldExtents],
    reading: _Reading,
    steps: Sequence[list[slice]],
    *,
    in_order: bool,
) -> dict[str, U32]:
    """Return the checksums of fields, whose rows come in steps.

    Memory does not grow with samples that follow each other.
    """
    names = [column.field.name for column in columns]
    results = (_of_rows(columns, step, reading, in_order=in_order) for step in steps)
    if len(steps) == 1:
        return dict(zip(names, next(results), strict=True))
    # with temporary files, which reading does not need
    from .growing import GrowingArrays

    sums, computed, rows = GrowingArrays(), 0, sum(len(column.offset) for column in columns)
    for sums_of_step in results:
        computed += sum(map(len, sums_of_step))
        sums.extend(dict(zip(names, sums_of_step, strict=True)), computed / rows)
    return sums.finish()


def _of_rows(
    columns: Sequence[FieldExtents], rows: Sequence[slice], reading: _Reading, *, in_order: bool
) -> list[U32]:
    """Return the checksums of some rows of each field, which are read in the order in which the files have them.

    Fields with a value for each sample are read sample by sample, if that is this order.
    """
    offsets = [column.offset[part] for column, part in zip(columns, rows, strict=True)]
    lengths = [column.length[part] for column, part in zip(columns, rows, strict=True)]
    sizes = list(map(len, offsets))
    if in_order and len(set(sizes)) == 1:
        offset, length = (np.stack(arrays, axis=1).ravel() for arrays in (offsets, lengths))
        sums = reading.computed(offset, length, slice(None))
        return [sums_of_column.copy() for sums_of_column in sums.reshape(-1, len(columns)).T]
    offset, length = np.concatenate(offsets), np.concatenate(lengths)
    order = np.argsort(offset, kind="stable")
    order = order[length[order] != MISSING]
    return np.split(reading.computed(offset, length, order), np.cumsum(sizes)[:-1])


class _Reading:
    """Reads the values of a table that are in one file, and computes their checksums."""

    def __init__(
        self, index: ShardIndex, file_of: Callable[[int], File], number: int, report: Report
    ) -> None:
        self._index, self._file_of, self._number, self._report = index, file_of, number, report
        self.file = file_of(number)
        blocks_of_local_files = (
            isinstance(self.file, BlockFile)
            and bool(index.files)
            and isinstance(file_of(0), MappedFile | SmallFile)
        )
        self._batch = _BATCH_OF_BLOCKS if blocks_of_local_files else _BATCH

    def computed(self, offset: I64, length: I64, order: I64 | slice) -> U32:
        """Return the checksums of extents of the file, which are read in this order; 0 for others."""
        crc32 = np.zeros(len(offset), np.uint32)
        bytes_until = np.cumsum(np.maximum(length[order], 0))
        start, before = 0, 0
        while start < len(bytes_until):
            stop = max(start + 1, int(np.searchsorted(bytes_until, before + self._batch)))
            rows = slice(start, stop) if isinstance(order, slice) else order[start:stop]
            crc32[rows] = self._sums(offset[rows], length[rows])
            self._report(int(bytes_until[stop - 1]) - before)
            start, before = stop, int(bytes_until[stop - 1])
        return crc32

    def _sums(self, offset: I64, length: I64) -> U32:
        try:
            return checksums_of([self.file], Extents(0, offset, length))
        except ExtentError as error:
            place = self._index.place(self._number, int(offset[error.row]))
            path = self.file.path if place.file is None else self._file_of(place.file).path
            raise FormatError(
                f"{int(length[error.row])} bytes cannot be read ({error.reason})",
                path,
                place.offset,
            ) from error
