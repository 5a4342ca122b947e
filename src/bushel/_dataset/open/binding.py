"""Which files a table describes: sizes and stamps of files, and tables bound to them.

A table is bound to files by their sizes and stamps. A stamp is the CRC-32 of a few blocks of a
file; the times of files save computing it. A table whose files were copied or touched is still
used; one whose files have changed is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath

import numpy as np
from msgspec.structs import replace

from bushel._index.shard import FileStamp, Shard
from bushel._index.table import ShardIndex
from bushel.containers import candidates
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile, crc32
from bushel.storage import Extents, File, is_local, is_object, read_many
from bushel.storage.base import FROM_TAG

_BLOCK = 4096  # size of a block of a stamp in bytes
_PIECE = 16 << 20  # bytes of a file of lines that are read together
_LARGE, _BETWEEN = 1 << 20, 6
"""Files of at least this size have this many blocks of their stamp between the first and the last."""


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
