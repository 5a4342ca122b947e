"""Binding a table to files: their sizes, their stamps, and their times, which save looking at them.

A stamp is the CRC-32 of a few blocks of a file. A table whose files have other times than it recorded, because they
were copied, touched or unpacked, is still used if sizes and stamps fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bushel.core.index.table import FileStamp, Shard
from bushel.errors import FormatError
from bushel.kernels import ExtentError, crc32
from bushel.storage import Extents, File, is_object, open_file, read_many
from bushel.storage.base import FROM_TAG

__all__ = ["bind", "same_files", "stamp_of", "stamped", "stamps_of"]

_BLOCK = 4096
"""Size of a block of a stamp in bytes."""
_LARGE, _BETWEEN = 1 << 20, 6
"""Files of at least this size have this many blocks of their stamp between the first and the last."""


def stamp_of(file: File) -> int:
    """Return the stamp of a file: the CRC-32 of its first and last 4 KiB, and of six blocks in between if it is large.

    A file of up to 8 KiB is read whole. The blocks of a file of 1 MiB or more start at `size * k // 7`, rounded down to
    a multiple of 4096, for `k` from 1 to 6. So the positions depend on the size only.

    Raises:
        ExtentError: The file has shrunk.
        OSError: The file cannot be read.
    """
    size = file.size
    if size <= 2 * _BLOCK:
        return crc32(file.read(0, size)) if size else 0
    between = _BETWEEN if size >= _LARGE else 0
    inner = [size * number // (_BETWEEN + 1) // _BLOCK * _BLOCK for number in range(1, between + 1)]
    offset = np.array([0, *inner, size - _BLOCK], np.int64)
    blocks = read_many([file], Extents(0, offset, np.full(len(offset), _BLOCK, np.int64)))
    return crc32(b"".join(block for block in blocks if block is not None))


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
                file=str(shard.path(number)),
                hint="put it back; or remove the other files of this shard, and `bushel index` the dataset",
            ) from error
        stamps.append(FileStamp(name, int(stat.st_size), int(getattr(stat, "st_mtime_ns", 0) or 0)))
    return tuple(stamps)


def stamped(stamps: Sequence[FileStamp], shard: Shard) -> tuple[FileStamp, ...]:
    """Return the entries of a table's files with the stamps that they lack, for files that have not changed since.

    Raises:
        OSError: A file cannot be read.
    """
    found = []
    for number, entry in enumerate(stamps):
        if entry.crc32 is None:
            file = open_file(shard.path(number))
            if (file.size, file.mtime_ns) == (entry.size, entry.mtime_ns):
                entry = replace(entry, crc32=stamp_of(file))
        found.append(entry)
    return tuple(found)


def same_files(known: Sequence[FileStamp], now: Sequence[FileStamp]) -> bool:
    """Return whether names and sizes are equal. The folders in the names do not matter."""
    return [_name_and_size(entry) for entry in known] == [_name_and_size(entry) for entry in now]


def bind(known: Sequence[FileStamp], now: Sequence[FileStamp], shard: Shard) -> tuple[FileStamp, ...] | None:
    """Return the entries of a table's files with the times of now if the table describes the files, else None.

    Files of the recorded size and time are not read. Where a time differs, the stamp decides. An object in a store is
    another one if its ETag is another one. A table that was copied to a store is valid if the sizes agree and it was
    stored after the data, or if the stamps fit.

    Args:
        known: The files as the table recorded them.
        now: The files as they are now, from `stamps_of`.
        shard: The shard.

    Raises:
        OSError: A file cannot be read; an object store refuses, or cannot be reached.
    """
    if not same_files(known, now):
        return None
    bound = tuple(replace(there, crc32=was.crc32) for was, there in zip(known, now, strict=True))
    moved = [
        number for number, (was, there) in enumerate(zip(known, now, strict=True)) if was.mtime_ns != there.mtime_ns
    ]
    if not moved or _stored_after_data(known, shard):
        return bound
    for number in moved:
        was, there = known[number], now[number]
        tagged = was.mtime_ns >= FROM_TAG and there.mtime_ns >= FROM_TAG
        if was.crc32 is None or tagged or not _has_stamp(shard, number, was):
            return None
    return bound


def _has_stamp(shard: Shard, number: int, entry: FileStamp) -> bool:
    file = open_file(shard.path(number))
    try:
        return file.size == entry.size and stamp_of(file) == entry.crc32
    except ExtentError:  # it is being changed
        return False


def _stored_after_data(known: Sequence[FileStamp], shard: Shard) -> bool:
    sidecar = shard.sidecar
    if not is_object(sidecar) or any(entry.mtime_ns >= FROM_TAG for entry in known):
        return False
    data = [path.stat().modified for path in map(shard.path, range(len(known))) if is_object(path)]
    return bool(sidecar.stat().modified >= max(data))


def _name_and_size(entry: FileStamp) -> tuple[str, int]:
    return entry.name.rsplit("/", 1)[-1], entry.size
