"""Which files a table describes: sizes and stamps of files, tables bound to them, and checksums of their values.

A table is bound to files by their sizes and stamps. A stamp is the CRC-32 of a few blocks of a
file; the times of files save computing it. A table whose files were copied or touched is still
used; one whose files have changed is not. Containers that store no checksums get them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePath

import numpy as np
from msgspec.structs import replace

from bushel._index.shard import FileStamp, Shard
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U32, GrowingArrays
from bushel.containers import candidates
from bushel.containers.base import Report, unreported
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile, crc32
from bushel.storage import Extents, File, checksums_of, is_local, is_object, read_many
from bushel.storage.base import FROM_TAG

_BLOCK = 4096  # size of a block of a stamp in bytes
_PIECE = 16 << 20  # bytes of a file of lines that are read together
_LARGE, _BETWEEN = 1 << 20, 6
"""Files of at least this size have this many blocks of their stamp between the first and the last."""

# bytes between two progress reports, and limit of bytes in memory for files that are not local
_BATCH = 64 << 20
_BATCH_OF_BLOCKS = 16 << 20  # the same, of the blocks of local files
_VALUES = 1 << 16  # values whose checksums are computed together
# the same, of files that are compressed or not local: expanding and requests take longer
_VALUES_OF_REQUEST = 1 << 18


def stamp_of(file: File) -> int:
    """Return the stamp of a file: the CRC-32 of its first and last 4 KiB, and of six blocks in between if it is large.

    A file of up to 8 KiB is read whole. The blocks of a file of 1 MiB or more start at
    `size * k // 7`, rounded down to a multiple of 4096, for `k` from 1 to 6. So the positions
    depend on the size only. People edit local files of lines, anywhere in them: their stamp is the
    CRC-32 of all bytes.

    Raises:
        ExtentError: The file has shrunk.
        OSError: The file cannot be read.
    """
    size = file.size
    if size <= 2 * _BLOCK:
        if size:
            return crc32(file.read(0, size))
        return 0
    if "://" not in file.path and _is_edited("".join(PurePath(file.path).suffixes[-2:])):
        stamp = 0
        for first in range(0, size, _PIECE):
            stamp = crc32(file.read(first, min(_PIECE, size - first)), stamp)
        return stamp
    between = _BETWEEN if size >= _LARGE else 0
    inner = [size * number // (_BETWEEN + 1) // _BLOCK * _BLOCK for number in range(1, between + 1)]
    places = [0, *inner, size - _BLOCK]
    if isinstance(file, MappedFile):
        return crc32(b"".join(file.read(place, _BLOCK) for place in places))
    lengths = np.full(len(places), _BLOCK, np.int64)
    # all blocks are requested at once
    blocks = read_many([file], Extents(0, np.array(places, np.int64), lengths))
    return crc32(b"".join(filter(None, blocks)))


@lru_cache(maxsize=64)
def _is_edited(suffix: str) -> bool:
    """Return whether files with such a suffix are always lines of text; `.gz` files may hold anything."""
    owners = candidates([f"x{suffix}"])
    return bool(owners) and all(container.stores_text for container in owners)


def stamps_of(shard: Shard) -> tuple[FileStamp, ...]:
    """Return size and time of a shard's files as they are now. The files are not read.

    Raises:
        FormatError: A file is missing.
    """
    stamps = []
    for number, name in enumerate(shard.files):
        try:
            stat = shard.path(number).stat()
        except FileNotFoundError as error:
            raise FormatError(
                "a file of the dataset is missing",
                shard.path(number),
                hint=(
                    "put it back; or remove the other files of "
                    "this shard, and `bushel index` the dataset"
                ),
            ) from error
        stamps.append(FileStamp(name, int(stat.st_size), int(getattr(stat, "st_mtime_ns", 0) or 0)))
    return tuple(stamps)


# files without checksums whose stamps enter the digest of a table that is not stored
_STAMPED = 1000


def stamped(
    stamps: Sequence[FileStamp], shard: Shard, most: int | None = None
) -> tuple[FileStamp, ...]:
    """Return the entries of a table's files with the stamps that they lack, for files that have not changed since.

    Of more than `most` files, that many at equal distances get one.

    Raises:
        OSError: A file cannot be read.
    """
    entries = list(stamps)
    for number in range(0, len(entries), 1 if most is None else -(-len(entries) // most) or 1):
        entry = entries[number]
        if entry.crc32 is None:
            file = shard.open(number)
            if (file.size, file.mtime_ns) == (entry.size, entry.mtime_ns):
                entries[number] = replace(entry, crc32=stamp_of(file))
    return tuple(entries)


def digest_in_memory(index: ShardIndex, shard: Shard) -> str:
    """Return the digest of a table that is not stored. Without checksums, stamps of its local files enter."""
    from bushel._index.identity import table_digest

    if is_local(shard.root) and not index.has_all_checksums:
        index = replace(index, files=stamped(index.files, shard, _STAMPED))
    return table_digest(index)


def same_files(known: Sequence[FileStamp], now: Sequence[FileStamp]) -> bool:
    """Return whether names and sizes are equal. The folders in the names do not matter."""
    facts = [
        [(entry.name.rsplit("/", 1)[-1], entry.size) for entry in stamps] for stamps in (known, now)
    ]
    return facts[0] == facts[1]


def bind(
    known: Sequence[FileStamp], now: Sequence[FileStamp], shard: Shard
) -> tuple[FileStamp, ...] | None:
    """Return the entries of a table's files with their current times if the table describes the files, else None.

    Files of the recorded size and time are not read. Where a time differs, the stamp decides. An
    object in a store is a different one if its ETag differs. A table that was copied to a store
    is valid if the sizes agree and it was stored after the data, or if the stamps fit.

    Args:
        known: The files as the table recorded them.
        now: The files as they are now, from `stamps_of`.
        shard: The shard.

    Raises:
        OSError: A file cannot be read; an object store refuses, or cannot be reached.
    """
    if not same_files(known, now):
        return None
    stamps = tuple(replace(stamp, crc32=was.crc32) for was, stamp in zip(known, now, strict=True))
    moved = [
        (number, was, stamp)
        for number, (was, stamp) in enumerate(zip(known, now, strict=True))
        if was.mtime_ns != stamp.mtime_ns
    ]
    if not moved or _stored_after_data(known, shard):
        return stamps
    for number, was, stamp in moved:
        tagged = was.mtime_ns >= FROM_TAG and stamp.mtime_ns >= FROM_TAG
        if was.crc32 is None or tagged or not _has_stamp(shard, number, was):
            return None
    return stamps


def _has_stamp(shard: Shard, number: int, entry: FileStamp) -> bool:
    file = shard.open(number)
    try:
        return file.size == entry.size and stamp_of(file) == entry.crc32
    except ExtentError:  # it is being changed
        return False


def _stored_after_data(known: Sequence[FileStamp], shard: Shard) -> bool:
    sidecar = shard.sidecar
    if not is_object(sidecar) or any(entry.mtime_ns >= FROM_TAG for entry in known):
        return False
    if sidecar.immutable:  # files of one commit have no times of their own
        return True
    data = [path.stat().modified for path in map(shard.path, range(len(known))) if is_object(path)]
    return bool(sidecar.stat().modified >= max(data))


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
        # which a table with checksums does not need
        from bushel.storage import BlockFile
        from bushel.storage.fileobject import SmallFile

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
