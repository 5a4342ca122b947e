"""The store of tables: the table of a shard is found, loaded and bound to its files, or made from them and kept.

It is in the sidecar, in the folder of a writer that was killed, or in the user's cache. `binding`
says whether it describes the files as they are now. If it has checksums, it is not replaced by a
table without them, or with other ones, unless the user asks for it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import FOLDER, FileStamp, Shard
from bushel._index.sidecar import load_index
from bushel._index.table import ShardIndex, opener
from bushel._runtime.messages import log_info, log_warning
from bushel.containers import ReadOptions, get_container
from bushel.errors import CorruptError, FormatError, UnsupportedError
from bushel.storage import AnyPath, absolute, as_path, below, is_local, is_object
from bushel.storage.base import FROM_TAG

from .binding import bind, same_files, stamped, stamps_of, with_checksums
from .caller_fields import (
    POLICIES,
    CallerFields,
    IndexPolicy,
    has_declared,
    listed_table,
    read_structure,
    with_recorded_names,
)
from .completeness import overwrite_folder
from .damage import Damage, recovered_table

if TYPE_CHECKING:
    from .remote_discovery import ListedFiles


def index_place(index: Any) -> AnyPath:
    """Return the folder that `index=` names.

    Raises:
        ValueError: It is a text without a slash, perhaps a misspelt policy; or a file.
    """
    if isinstance(index, str | os.PathLike) and os.path.isfile(index):
        raise ValueError(
            f"index={str(index)!r} is a file, and the index "
            "of a dataset is kept in a folder: name that"
        )
    if isinstance(index, str) and not any(sign in index for sign in ("/", os.sep)):
        raise ValueError(
            f"index={index!r} should be {', '.join(map(repr, POLICIES))}. "
            f"To name a folder for the index, write {'./' + index!r}"
        )
    return absolute(as_path(index))


def indexed_in(shards: Sequence[Shard], place: AnyPath) -> list[Shard]:
    """Return shards whose index is in a folder of its own.

    Raises:
        FormatError: Two shards have the same name, so that their indexes would be one file.
    """
    counts = Counter((shard.sidecars, shard.name) for shard in shards)
    twice = next((name for (_, name), count in counts.items() if count > 1), None)
    if twice is not None:
        raise FormatError(
            f"two shards have the name {twice!r}: one folder cannot hold the index of both",
            place,
            hint="name a folder for each of their folders, and join the datasets with bushel.concat",
        )
    return [replace(shard, index=place) for shard in shards]


def index_is_in_cache() -> bool:
    """Return whether the user keeps indexes of local data in the cache, too: `BUSHEL_INDEX=cache`.

    Raises:
        ValueError: The variable has another value.
    """
    choice = os.environ.get("BUSHEL_INDEX") or "beside"
    if choice not in ("beside", "cache"):
        raise ValueError(
            f"the environment variable BUSHEL_INDEX is {choice!r}: expected 'cache' or 'beside'"
        )
    return choice == "cache"


_NAMED = 3  # number of changed values that an error names
_TIME = attrgetter("mtime_ns")


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
        note: Whether to store the new times of files that are otherwise unchanged, if possible.
        check: Whether to compare the sidecar with its CRC-32 even if it is large.
        listed: The files in a listing of the store.

    Raises:
        FormatError: A file of the shard is missing.
        OSError: A file cannot be read.
    """
    index, table = _loaded(shard.sidecar, check=check), None
    if index is not None:
        whole = index.shard_with_files(shard)
        is_listed = listed is not None and listed.have(whole.files, index.files)
        table = bound(index, whole, index.files if is_listed else None)
        if note and list(map(_TIME, table.index.files)) != list(map(_TIME, index.files)):
            with suppress(FormatError):  # damaged values do not get a new CRC-32
                load_index(shard.sidecar, check=True)
                _keep(table.index, whole, again=True)
    if table is not None and table.fits:
        return table
    return staged_table(shard) or table


def bound(index: ShardIndex, shard: Shard, now: Sequence[FileStamp] | None = None) -> StoredTable:
    """Return a recorded table, bound to the files of a shard if it describes them.

    `now` are its files as they are now; None if they are to be looked at.

    Raises:
        FormatError: A file of the shard is missing.
        OSError: A file cannot be read.
    """
    shard = index.shard_with_files(shard)
    files = bind(index.files, stamps_of(shard) if now is None else now, shard)
    if files is None:
        log_info("%s: the index is stale", shard.sidecar)
        return StoredTable(index, False, index.files)
    return StoredTable(replace(index, files=files), True, index.files)


def cached_table(container: str, shard: Shard) -> StoredTable | None:
    """Return the table that the user's cache has of a shard as it is now; None without one."""
    from bushel._index.table_cache import kept_table

    index = kept_table(container, shard, stamps_of(shard))
    if index is None:
        return None
    return StoredTable(index, True, index.files)


def staged_table(shard: Shard) -> StoredTable | None:
    """Return the table that a killed writer with mode="overwrite" has left, if it fits the files that it replaced."""
    if not (isinstance(shard.root, Path) and shard.sidecars == FOLDER and shard.name):
        return None
    replaced = overwrite_folder(below(shard.root, shard.name, any_text=True))
    index = _loaded(replaced / FOLDER / shard.sidecar.name)
    if index is not None and (table := bound(index, shard)).fits:
        return table
    return None


def _loaded(sidecar: AnyPath, *, check: bool = False) -> ShardIndex | None:
    try:
        return load_index(sidecar, check=check)
    except (FileNotFoundError, PermissionError):
        return None  # a store that forbids listing refuses access to missing objects
    except FormatError as error:
        log_warning("%s; the shard is read without it, until `bushel index` makes it again", error)
        return None


def load_listed(shard: Shard, stamps: Sequence[FileStamp], samples: int) -> ShardIndex:
    """Return the table of a shard, if it and its files match the manifest.

    Raises:
        FormatError: The sidecar is missing, damaged or of other files, or the files have changed.
    """
    now = stamps
    # times made of ETags need no look: each response of the store is compared with them
    if not all(stamp.mtime_ns >= FROM_TAG for stamp in now):
        now = stamps_of(shard)
    wrong = partial(FormatError, hint="run `bushel index` on the dataset, then open it again")
    try:
        index = load_index(shard.sidecar)
    except FileNotFoundError as error:
        raise wrong("the index of the shard is missing", file=str(shard.sidecar)) from error
    if index.samples != samples or not same_files(index.files, stamps):
        message = f"this index does not belong to {shard.path(0)} as the manifest lists it"
        raise wrong(message, file=str(shard.sidecar))
    table = bound(index, shard, now)
    if not table.fits:
        raise wrong("the shard has changed since it was indexed", file=str(shard.path(0)))
    return table.index


class TableToRead(Struct, frozen=True):
    """A table to read a shard with."""

    index: ShardIndex
    stored: bool = False  # whether it is the one in the sidecar
    damage: Damage | None = None  # the damage of the shard, if its structure is damaged


def table_to_read(
    container: str,
    shard: Shard,
    options: ReadOptions,
    policy: IndexPolicy,
    listed: ListedFiles | None = None,
    *,
    recover: bool = False,
    look: bool = True,
) -> TableToRead:
    """Return a table to read a shard with.

    Args:
        container: Name of the container.
        shard: The shard.
        options: The user's declarations about the data.
        policy: What to do about a missing or stale index.
        listed: The files in a listing of the store.
        recover: Whether to read what can be read of a shard with a damaged structure.
        look: Whether the shard may have a sidecar.

    Raises:
        CorruptError: Checksums are asked for, and bytes have other checksums than the recorded
            ones.
        FormatError: The shard is damaged, or `policy` is `require` and it has no table that fits.
    """
    keep = policy == "auto"
    if look:
        table = stored_table(shard, note=keep and options.spec is None, listed=listed)
    else:
        table = staged_table(shard)
    if (
        table is not None
        and table.fits
        # a damaged sidecar may name another container, or one that there is not
        and table.index.container == container
        and has_declared(table.index, options.spec)
        and not lacks_checksums(table.index, options)
    ):
        return TableToRead(table.index, stored=True)
    if policy == "require":
        message = "the shard has no index, or its index is stale"
        raise FormatError(message, shard.path(0), hint="run `bushel index` on the dataset")
    if _is_kept_in_cache(shard) and (
        known_index := _kept(container, shard, options, look=keep and table is None)
    ):
        return TableToRead(known_index)
    try:
        index = build_table(container, shard, options, table)
    except FormatError as error:
        if not recover:
            raise
        recorded = listed_table(container, shard) if table is None else table.index
        index, damage = recovered_table(container, shard, options, error, recorded)
        return TableToRead(index, damage=damage)
    complete = table is not None and table.index.has_checksums
    if table is not None and complete and options.checksums:
        index, complete = accepted(table, index, shard, options.spec or ()), False
    if table is None or not complete:
        worth = options.spec is None and not get_container(container).has_own_index
        stored = _keep(index, shard) if keep and worth else None
        return TableToRead(stored or index, stored=stored is not None)
    if table.fits:
        from bushel._index.identity import with_known_checksums

        return TableToRead(with_known_checksums(table.index, index))
    log_warning(
        "%s has changed since it was indexed: it is read without the checksums of its index, "
        "which is kept. Run `bushel verify` to compare them with the data, `bushel index` to "
        "index added data, or `bushel index --force` to accept the data as they are",
        shard.path(0),
    )
    return TableToRead(index)


def changed_types(known: ShardIndex, now: ShardIndex) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each field of two tables that has another type now, its old type and its new one."""
    for name, extents in known.fields.items():
        field = now.fields[name].field if name in now.fields else extents.field
        if field != extents.field:
            yield name, extents.field.type, field.type


def accepted(
    table: StoredTable, index: ShardIndex, shard: Shard, declared: Collection[str]
) -> ShardIndex:
    """Return the new table of a shard, with the checksums that the old one knows.

    Raises:
        FormatError: It would give up checksums of the old one, or the files give another type to a
            field that is not `declared`. The types of text follow from its values.
    """
    from bushel._index.identity import compare_values, with_known_checksums, with_sound_keys

    try:
        stored = with_sound_keys(table.index.check(str(shard.sidecar)), shard)
    except FormatError as error:
        log_warning("%s; the checksums in it are not compared", error)
        return index
    hint = "restore the data; or accept them as they are with `bushel index --force` (force=True)"
    is_text = get_container(index.container).stores_text
    for name, was, is_now in changed_types(stored, index):
        if not is_text and name not in declared:
            raise FormatError(
                f"field {name!r} is recorded as {was}, and is {is_now} in the files now",
                shard.path(0),
                hint=hint,
            )
    if table.fits:
        index = with_known_checksums(stored, index)
    compared = compare_values(stored, index)
    counted = {
        "values with other bytes": compared.differing,
        "values that are missing or would lose their checksums": compared.missing,
        "sequences that were empty and are missing now, or the reverse": compared.empties,
    }
    if not any(counted.values()):
        return index
    counts = "; ".join(f"{what}: {number}" for what, number in counted.items() if number)
    counts = f"the data differ from the recorded checksums ({counts})"
    named = list(islice(compared.differences(), _NAMED))
    if not named:
        raise FormatError(counts, shard.path(0), hint=hint)
    whole = index.shard_with_files(shard)
    places = [whole.locate(change.place) for change in named]
    texts = (
        f"sample {change.key if change.key is not None else change.sample!r}, "
        f"field {change.field!r} at {file.removeprefix(f'{shard.root}/')}@{offset}"
        for change, (file, offset) in zip(named, places, strict=True)
    )
    more = compared.differing - len(named)
    first, (file, offset) = named[0], places[0]
    raise CorruptError(
        f"{counts}: {'; '.join(texts)}{f'; and {more} more' if more else ''}",
        key=first.key,
        field=first.field,
        file=file,
        offset=offset,
        expected=first.expected,
        found=first.found,
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
    stored = listed_table(container, shard) if table is None else table.index
    changed = table is not None and not table.fits
    structure = read_structure(container, shard, options, stored, changed=changed)
    index = CallerFields(options.spec or {}, options.pickle).table(structure, shard)
    if stored is not None:
        index = with_recorded_names(index, stored)
    if lacks_checksums(index, options):
        index = with_checksums(index, opener(index, shard), report=options.report)
    return index


def lacks_checksums(index: ShardIndex, options: ReadOptions) -> bool:
    """Return whether checksums are requested, and a table lacks the checksums of a field."""
    return options.checksums and not index.has_all_checksums


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
    if is_object(shard.root) and not get_container(container).has_own_index:
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
    in_cache = _is_kept_in_cache(shard)
    if in_cache or not is_local(shard.sidecar):
        if in_cache and not again:
            from bushel._index.table_cache import keep_table

            keep_table(index, shard)
        return None
    from bushel._index.saving import save_index

    try:
        if not again and shard.sidecar.exists():
            return None
        if sys.stderr.isatty() and not (folder := shard.sidecar.parent).exists():
            text = "the index is stored in %s; BUSHEL_INDEX=cache stores it in your cache"
            log_warning(text, folder)
        index = replace(index, files=stamped(index.files, shard))
        save_index(index, shard.sidecar)
    except (OSError, UnsupportedError) as error:
        log_info("%s: the index is not stored: %s", shard.sidecar, error)
        return None
    return index


def _is_kept_in_cache(shard: Shard) -> bool:
    """Return whether an index that opening makes is kept in the user's cache of tables, not beside the data."""
    return is_object(shard.root) or index_is_in_cache()
