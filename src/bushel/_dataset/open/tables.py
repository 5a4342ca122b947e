"""The table of one shard: read from its sidecar and bound to the files, or made from the files and stored.

A table is bound to files by their sizes and stamps. A stamp is the CRC-32 of a few blocks of a
file; the times of files save computing it. A table whose files were copied or touched is still
used; one whose files have changed is not. If it has checksums, it is not replaced by a table
without them, or with other ones, unless the user asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.caller_fields import CallerFields, IndexPolicy
from bushel._dataset.open.folders import overwrite_folder
from bushel._dataset.open.index_place import announce_folder, is_kept_in_cache
from bushel._index.class_names import labels_of_fields
from bushel._index.sidecar import FOLDER, load_index
from bushel._index.table import FileStamp, Shard, ShardIndex
from bushel._runtime.log import log_info, log_warning
from bushel._runtime.structs import Struct
from bushel.containers import candidates, get_container
from bushel.containers.base import ReadOptions
from bushel.errors import CorruptError, FormatError, UnsupportedError
from bushel.kernels import ExtentError, crc32
from bushel.storage import AnyPath, Extents, File, below, is_local, is_object, open_file, read_many
from bushel.storage.base import FROM_TAG

if TYPE_CHECKING:
    from bushel._dataset.open.damaged import Damage
    from bushel._dataset.open.remote_discovery import ListedFiles

_NO_SIDECAR = (FileNotFoundError, PermissionError)
"""Errors that mean that a sidecar does not exist. A store that forbids listing refuses access to missing objects."""

_NAMED = 3  # number of changed values that an error names


class StoredTable(Struct, frozen=True):
    """The table in a sidecar."""

    index: ShardIndex  # the table; its files have the times of now if it fits
    fits: bool  # whether it describes the files as they are now
    recorded: Sequence[FileStamp]  # its files as the sidecar has them


def stored_table(
    shard: Shard, *, note: bool = False, check: bool = False, listed: ListedFiles | None = None
) -> StoredTable | None:
    """Return the table of a shard's sidecar; None if the sidecar is missing or damaged.

    Args:
        shard: The shard.
        note: Whether to store the new times of files that are otherwise unchanged, if that is
            possible.
        check: Whether to compare the sidecar with its CRC-32 even if it is large.
        listed: The files in a listing of the store.

    Raises:
        FormatError: A file of the shard is missing.
        OSError: A file cannot be read.
    """
    table = _read(shard, shard.sidecar, note=note, check=check, listed=listed)
    return table if table is not None and table.fits else staged_table(shard) or table


def staged_table(shard: Shard) -> StoredTable | None:
    """Return the table that a killed writer with mode="overwrite" has left, if it fits the files that it replaced."""
    if not (isinstance(shard.root, Path) and shard.sidecars == FOLDER and shard.name):
        return None
    path = (
        overwrite_folder(below(shard.root, shard.name, any_text=True)) / FOLDER / shard.sidecar.name
    )
    staged = _read(shard, path, note=False, check=False, listed=None) if path.exists() else None
    return staged if staged is not None and staged.fits else None


def _read(
    shard: Shard, sidecar: AnyPath, *, note: bool, check: bool, listed: ListedFiles | None
) -> StoredTable | None:
    try:
        index = load_index(sidecar, check=check)
    except _NO_SIDECAR:
        return None
    except FormatError as error:
        log_warning("%s; the shard is read without it, until `bushel index` makes it again", error)
        return None
    shard = shard.with_files_of(index)
    now = index.files if listed and listed.have(shard.files, index.files) else stamps_of(shard)
    files = bind(index.files, now, shard)
    if files is None:
        log_info("%s: the index is stale", sidecar)
        return StoredTable(index, False, index.files)
    table = StoredTable(replace(index, files=files), True, index.files)
    if note and [entry.mtime_ns for entry in files] != [entry.mtime_ns for entry in index.files]:
        with suppress(FormatError):  # damaged values do not get a new CRC-32
            load_index(sidecar, check=True)
            _keep(table.index, shard, again=True)
    return table


class TableToRead(Struct, frozen=True):
    """A table to read a shard with."""

    index: ShardIndex
    stored: bool = False  # whether it is the one in the sidecar
    damage: Damage | None = None  # the damage of the shard, if its structure is damaged


def table_to_read(
    container: str,
    shard: Shard,
    options: ReadOptions,
    listed: ListedFiles | None,
    policy: IndexPolicy,
    recover: bool,
) -> TableToRead:
    """Return a table to read a shard with.

    Args:
        container: Name of the container.
        shard: The shard.
        options: The user's declarations about the data.
        listed: The files in a listing of the store.
        policy: What to do about a missing or stale index.
        recover: Whether to read what can be read of a shard with a damaged structure.

    Raises:
        CorruptError: Checksums are asked for, and bytes have other checksums than the recorded
            ones.
        FormatError: The shard is damaged, or `policy` is `require` and it has no table that fits.
    """
    keep = policy == "auto"
    table = stored_table(shard, note=keep and options.spec is None, listed=listed)
    if table is not None and table.fits and _serves(table.index, options):
        return TableToRead(table.index, stored=True)
    if policy == "require":
        raise FormatError(
            "the shard has no index, or its index is stale",
            file=str(shard.path(0)),
            hint="run `bushel index` on the dataset",
        )
    if is_kept_in_cache(shard) and (
        known_index := _kept(container, shard, options, look=keep and table is None)
    ):
        return TableToRead(known_index)
    try:
        index = build_table(container, shard, options, table)
    except FormatError as error:
        if not recover:
            raise
        from bushel._dataset.open.damaged import recovered_table

        types = (
            None
            if table is None
            else {name: column.field for name, column in table.index.fields.items()}
        )
        index, damage = recovered_table(container, shard, options, error, types)
        return TableToRead(index, damage=damage)
    complete = table is not None and table.index.has_checksums
    if table is not None and complete and options.checksums:
        index, complete = accepted(table, index, shard), False
    if table is None or not complete:
        worth = options.spec is None and not _has_own_index(container, shard)
        stored = _keep(index, shard) if keep and worth else None
        return TableToRead(stored or index, stored=stored is not None)
    if table.fits:
        from bushel._index.matching import with_known_checksums

        return TableToRead(with_known_checksums(table.index, index))
    log_warning(
        "%s has changed since it was indexed: it is read without the checksums of its index,"
        " which is kept. Run "
        "`bushel verify` to compare them with the data, `bushel index` to index added data, or"
        " `bushel index "
        "--force` to accept the data as they are",
        shard.path(0),
    )
    return TableToRead(index)


def accepted(table: StoredTable, index: ShardIndex, shard: Shard) -> ShardIndex:
    """Return the new table of a shard, or raise if it would give up checksums of the old one."""
    from bushel._index.matching import checked, compare_values, with_known_checksums

    try:
        stored = checked(table.index, str(shard.sidecar))
    except FormatError as error:
        log_warning("%s; the checksums in it are not compared", error)
        return index
    if table.fits:
        index = with_known_checksums(stored, index)
    compared = compare_values(stored, index)
    if not (compared.differing or compared.missing or compared.empties):
        return index
    hint = "restore the data; or accept them as they are with `bushel index --force` (force=True)"
    counted = {
        "values with other bytes": compared.differing,
        "values that are missing or would lose their checksums": compared.missing,
        "sequences that were empty and are missing now, or the reverse": compared.empties,
    }
    counts = "; ".join(f"{what}: {number}" for what, number in counted.items() if number)
    counts = f"the data differ from the recorded checksums ({counts})"
    named = list(islice(compared.differences(), _NAMED))
    if not named:
        raise FormatError(counts, file=str(shard.path(0)), hint=hint)
    places = [index.place(change.file, change.offset) for change in named]
    files = (shard.locate(place)[0].removeprefix(f"{shard.root}/") for place in places)
    texts = (
        f"sample {change.key if change.key is not None else change.sample!r},"
        f" field {change.field!r} at {file}@{place.offset}"
        for change, file, place in zip(named, files, places, strict=True)
    )
    more = compared.differing - len(named)
    file, offset = shard.locate(index.place(named[0].file, named[0].offset))
    raise CorruptError(
        f"{counts}: {'; '.join(texts)}{f'; and {more} more' if more else ''}",
        key=named[0].key,
        field=named[0].field,
        file=file,
        offset=offset,
        expected=named[0].expected,
        found=named[0].found,
        hint=hint,
    )


def build_table(
    container: str, shard: Shard, options: ReadOptions, table: StoredTable | None
) -> ShardIndex:
    """Make the table of a shard from its data.

    A stale table, or the manifest, may hold what the data do not: the names and types that were
    given to the writer, and the names of classes. They are used again if they fit the data.

    Raises:
        FormatError: The shard is damaged.
        SpecError: `options.spec` does not fit the data.
    """
    from bushel._dataset.open.declared import listed_table, read_structure

    stored, changed = (
        (listed_table(container, shard), False) if table is None else (table.index, not table.fits)
    )
    structure = read_structure(container, shard, options, stored, changed=changed)
    index = CallerFields(options.spec or {}, options.pickle).table(structure)
    if lacks_checksums(index, options):
        from bushel.containers.checksums import with_checksums

        shard = shard.with_files_of(index)
        files = list(map(open_file, shard.paths))
        index = with_checksums(index, files, report=options.report)
    if stored is None or not stored.labels or index.labels:
        return index
    return replace(index, labels=labels_of_fields(stored.labels, index.fields))


def _has_own_index(container: str, shard: Shard) -> bool:
    return get_container(container).has_own_index(shard)


def _serves(index: ShardIndex, options: ReadOptions) -> bool:
    """Return whether a table has the declared fields, and the checksums that are asked for."""
    if options.spec is not None:
        from bushel._dataset.open.declared import has_declared

        if not has_declared(index, options.spec):
            return False
    return not lacks_checksums(index, options)


def lacks_checksums(index: ShardIndex, options: ReadOptions) -> bool:
    """Return whether checksums are requested, and a table lacks the checksums of a field."""
    return options.checksums and any(column.crc32 is None for column in index.fields.values())


def _kept(container: str, shard: Shard, options: ReadOptions, *, look: bool) -> ShardIndex | None:
    """Return the table that the user's cache has of a remote shard, or say how much is read now to make it."""
    try:
        stamps = stamps_of(shard)
    except FormatError:  # making the table finds the error
        return None
    if look and options.spec is None:
        from bushel._index.table_cache import kept_table

        index = kept_table(container, shard, stamps)
        if index is not None and not lacks_checksums(index, options):
            return index
    if is_object(shard.root) and not _has_own_index(container, shard):
        size = sum(stamps[number].size for number in get_container(container).index_reads(shard))
        log_warning(
            "%s has no index: up to %s bytes are read to make one", shard.path(0), f"{size:,}"
        )
    return None


def _keep(index: ShardIndex, shard: Shard, *, again: bool = False) -> ShardIndex | None:
    """Store a table beside the data if possible, and return it as it is stored. Many folders are read-only.

    Without `again`, a sidecar that is there stays: it is damaged or cannot be read, and may have
    checksums. The table of a remote shard is kept in the user's cache: writing beside it may cost
    money, so only `bushel.index` does.
    """
    in_cache = is_kept_in_cache(shard)
    if in_cache or not is_local(shard.sidecar):
        if in_cache and not again:
            from bushel._index.table_cache import keep_table

            keep_table(index, shard)
        return None
    from bushel._index.saving import save_index

    try:
        if not again and shard.sidecar.exists():
            return None
        announce_folder(shard)
        index = replace(index, files=stamped(index.files, shard))
        save_index(index, shard.sidecar)
    except (OSError, UnsupportedError) as error:
        log_info("%s: the index is not stored: %s", shard.sidecar, error)
        return None
    return index


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
        return crc32(file.read(0, size)) if size else 0
    if "://" not in file.path and _is_edited("".join(PurePath(file.path).suffixes[-2:])):
        stamp = 0
        for first in range(0, size, _PIECE):
            stamp = crc32(file.read(first, min(_PIECE, size - first)), stamp)
        return stamp
    between = _BETWEEN if size >= _LARGE else 0
    inner = [size * number // (_BETWEEN + 1) // _BLOCK * _BLOCK for number in range(1, between + 1)]
    offset = np.array([0, *inner, size - _BLOCK], np.int64)
    blocks = read_many([file], Extents(0, offset, np.full(len(offset), _BLOCK, np.int64)))
    return crc32(b"".join(block for block in blocks if block is not None))


@lru_cache(maxsize=64)
def _is_edited(suffix: str) -> bool:
    """Return whether files with such a suffix hold lines of text."""
    return any(container.stores_text for container in candidates([f"x{suffix}"]))


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
                hint=(
                    "put it back; or remove the other files of this shard, and `bushel index`"
                    " the dataset"
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
            file = open_file(shard.path(number))
            if (file.size, file.mtime_ns) == (entry.size, entry.mtime_ns):
                entries[number] = replace(entry, crc32=stamp_of(file))
    return tuple(entries)


def digest_in_memory(index: ShardIndex, shard: Shard) -> str:
    """Return the digest of a table that is not stored. Without checksums, stamps of its local files enter."""
    from bushel._index.identity import table_digest

    if is_local(shard.root) and any(column.crc32 is None for column in index.fields.values()):
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
        number
        for number, (was, stamp) in enumerate(zip(known, now, strict=True))
        if was.mtime_ns != stamp.mtime_ns
    ]
    if not moved or _stored_after_data(known, shard):
        return stamps
    for number in moved:
        was, stamp = known[number], now[number]
        tagged = was.mtime_ns >= FROM_TAG and stamp.mtime_ns >= FROM_TAG
        if was.crc32 is None or tagged or not _has_stamp(shard, number, was):
            return None
    return stamps


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
    if sidecar.immutable:  # files of one commit have no times of their own
        return True
    data = [path.stat().modified for path in map(shard.path, range(len(known))) if is_object(path)]
    return bool(sidecar.stat().modified >= max(data))
