"""Computing the CRC-32 of every field, for containers that store none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I32, I64, U32
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile
from bushel.storage import IN_TABLE, BlockFile, Extents, File, checksums_of

from .base import Report, unreported

# bytes between two progress reports, and limit of bytes in memory for files that are not local
_BATCH = 64 << 20
_BATCH_OF_BLOCKS = 16 << 20  # the same, of the blocks of local files
_VALUES = 1 << 16  # values whose checksums are computed together
# the same, of files that are compressed or not local: expanding and requests take longer
_VALUES_OF_REQUEST = 1 << 18


def with_checksums(
    index: ShardIndex, files: Sequence[File], *, report: Report = unreported
) -> ShardIndex:
    """Compute the checksums that an index lacks, in one skip the files.

    Args:
        index: A checked index. Columns that have checksums keep them.
        files: Its files, in the order of `index.files`. Its block files are opened here.
        report: Called with the bytes read since the last call.

    Returns:
        The index with a `crc32` in every column: 0 where a field is missing.

    Raises:
        FormatError: A file has shrunk since it was indexed, or a block cannot be expanded.
    """
    lacking = [column for column in index.fields.values() if column.crc32 is None]
    crc32 = {column.field.name: np.zeros(0, np.uint32) for column in lacking}
    stored = [column for column in lacking if column.rows]
    if stored:
        opened = list(files)
        if index.blocks:
            from bushel._index.opening import block_files

            opened += block_files(index, files.__getitem__)
        reading = _Reading(index, opened, report)
        in_table = [column for column in stored if _in_table(opened[column.file])]
        read = [column for column in stored if not _in_table(opened[column.file])]
        local = all(isinstance(opened[column.file], MappedFile) for column in read)
        at_once = _VALUES if local else _VALUES_OF_REQUEST
        for group, in_order in _groups(read, local=local):
            crc32 |= _sums(group, reading, at_once, in_order=in_order)
        crc32 |= _sums(in_table, reading, _VALUES, in_order=True)
    columns = {
        name: replace(column, crc32=crc32[column.field.name]) if column.crc32 is None else column
        for name, column in index.fields.items()
    }
    return replace(index, fields=columns)


def _in_table(file: File) -> bool:
    """Return whether the bytes of a file are in memory, so that they may be read in any order."""
    return isinstance(file, BlockFile) and bool((file.blocks.file == IN_TABLE).all())


def _groups(columns: list[FieldExtents], *, local: bool) -> list[tuple[list[FieldExtents], bool]]:
    """Return the fields that are read together, and whether their samples follow each other.

    Fields of a local file are together if they do, and else alone. A kernel takes values of one
    file much faster than values of files in turns. Other files are read in one pass, as are fields
    whose values are in no order.
    """
    if not local:
        return [(columns, _follow_each_other(columns))]
    groups = []
    for number in dict.fromkeys(column.file for column in columns):
        columns_of_file = [column for column in columns if column.file == number]
        if _follow_each_other(columns_of_file):
            groups.append((columns_of_file, True))
        elif all(_follow_each_other([column]) for column in columns_of_file):
            groups += [([column], True) for column in columns_of_file]
        else:
            return [(columns, False)]
    return groups


def _samples(column: FieldExtents) -> int:
    if column.starts is None:
        return column.rows
    return len(column.starts) - 1


def _steps(columns: Sequence[FieldExtents], at_once: int) -> Iterator[list[slice]]:
    """Yield the rows of each field for some samples, which have about as many values as are processed at once."""
    samples = _samples(columns[0]) if columns else 0
    step = max(at_once * samples // max(sum(column.rows for column in columns), 1), 1)
    for first in range(0, samples, step):
        ends = [first, min(first + step, samples)]
        yield [
            slice(*(ends if column.starts is None else column.starts[ends].tolist()))
            for column in columns
        ]


def _follow_each_other(columns: Sequence[FieldExtents]) -> bool:
    """Return whether each file has the values of fields in order, and all of some samples before the next samples."""
    if len({_samples(column) for column in columns}) > 1:
        return False
    ends = dict[int, int]()
    for step in _steps(columns, _VALUES):
        before = ends.copy()
        for column, rows in zip(columns, step, strict=True):
            offset = column.offset[rows][column.length[rows] > 0]
            if len(offset):
                if offset[0] < before.get(column.file, 0) or (offset[1:] < offset[:-1]).any():
                    return False
                ends[column.file] = max(ends.get(column.file, 0), int(offset[-1]))
    return True


def _sums(
    columns: Sequence[FieldExtents], reading: _Reading, at_once: int, *, in_order: bool
) -> dict[str, U32]:
    """Return the checksums of fields. Memory does not grow with samples that follow each other."""
    # with temporary files, which reading does not need
    from .growing import GrowingArrays

    sums, computed, total = GrowingArrays(), 0, sum(column.rows for column in columns)
    steps: Iterable[list[slice]] = [[slice(0, column.rows) for column in columns]]
    if in_order:
        steps = _steps(columns, at_once)
    for step in steps:
        sums_of_step = _of_rows(columns, step, reading, in_order=in_order)
        for column, sums_of_column in zip(columns, sums_of_step, strict=True):
            sums.append(column.field.name, sums_of_column)
        computed += sum(map(len, sums_of_step))
        sums.share = computed / total
    return sums.finish()


def _of_rows(
    columns: Sequence[FieldExtents], rows: Sequence[slice], reading: _Reading, *, in_order: bool
) -> list[U32]:
    """Return the checksums of some rows of each field, which are read in the order in which the files have them.

    Fields with a value for each sample are read sample by sample, if that is this order.
    """
    offsets = [column.offset[part] for column, part in zip(columns, rows, strict=True)]
    lengths = [column.length[part] for column, part in zip(columns, rows, strict=True)]
    sizes, numbers = (
        list(map(len, offsets)),
        np.array([column.file for column in columns], np.int32),
    )
    if in_order and len(set(sizes)) == 1:
        offset, length = (np.stack(arrays, axis=1).ravel() for arrays in (offsets, lengths))
        file: int | I32 = int(numbers[0])
        if (numbers != file).any():
            file = np.tile(numbers, sizes[0])
        sums = reading.computed(Extents(file, offset, length), slice(None))
        return [sums_of_column.copy() for sums_of_column in sums.reshape(-1, len(columns)).T]
    file, offset, length = (
        np.repeat(numbers, sizes),
        np.concatenate(offsets),
        np.concatenate(lengths),
    )
    order = np.lexsort((offset, file))
    order = order[length[order] != MISSING]
    return np.split(reading.computed(Extents(file, offset, length), order), np.cumsum(sizes)[:-1])


class _Reading:
    """Reads the values of a table, and computes their checksums."""

    def __init__(self, index: ShardIndex, files: Sequence[File], report: Report) -> None:
        self._index, self._files, self._report = index, files, report
        kinds = {MappedFile if isinstance(file, MappedFile) else type(file) for file in files}
        self._batch = _BATCH_OF_BLOCKS if kinds == {MappedFile, BlockFile} else _BATCH

    def computed(self, extents: Extents, order: I64 | slice) -> U32:
        """Return the checksums of extents, which are read in this order; 0 for others."""
        crc32 = np.zeros(len(extents), np.uint32)
        bytes_until = np.cumsum(np.maximum(extents.length[order], 0))
        start, before = 0, 0
        while start < len(bytes_until):
            stop = max(start + 1, int(np.searchsorted(bytes_until, before + self._batch)))
            rows = slice(start, stop) if isinstance(order, slice) else order[start:stop]
            file = extents.file if isinstance(extents.file, int) else extents.file[rows]
            crc32[rows] = self._sums(Extents(file, extents.offset[rows], extents.length[rows]))
            self._report(int(bytes_until[stop - 1]) - before)
            start, before = stop, int(bytes_until[stop - 1])
        return crc32

    def _sums(self, extents: Extents) -> U32:
        try:
            # block files come last
            return checksums_of(self._files[: int(np.max(extents.file)) + 1], extents)
        except ExtentError as error:
            number, offset = extents.file_of(error.row), int(extents.offset[error.row])
            place = self._index.place(number, offset)
            raise FormatError(
                f"{int(extents.length[error.row])} bytes cannot be read ({error.reason})",
                self._files[number if place.file is None else place.file].path,
                place.offset,
            ) from error
