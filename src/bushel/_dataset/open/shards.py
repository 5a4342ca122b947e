"""The shards of a dataset, each with a table to read it: of its sidecar, or made now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bushel._dataset.read.shards import OpenShard
from bushel._index.class_names import labels_of_fields
from bushel._index.shard import Shard
from bushel._index.sidecar import Manifest, load_index
from bushel.containers import get_container, needs_index
from bushel.containers.base import ReadOptions
from bushel.errors import FormatError
from bushel.spec import format_spec
from bushel.storage import is_local, is_object

from .caller_fields import NO_CALLER_FIELDS, CallerFields, IndexPolicy
from .source_paths import forward_only

if TYPE_CHECKING:
    from .remote_discovery import ListedFiles

_STAT_ALL, _ASK_ALL = 1000, 32
"""Datasets of up to this many local or remote shards are compared with their sidecars when they are opened. Larger ones
are compared shard by shard, when a shard is first read. The files of a shard are not looked at if
it has more.
"""

_MANY_FILES = 64  # the files of a larger shard are not named before a table is there
_HERE_SECONDS, _HERE_BYTES = 0.05, 8 << 20
"""For how long, in seconds, shards are opened one after another before threads are started; and how many bytes one
without a sidecar may have."""


def open_shards(
    container: str,
    shards: Sequence[Shard],
    options: ReadOptions,
    policy: IndexPolicy = "auto",
    manifest: Manifest | None = None,
    listed: ListedFiles | None = None,
    *,
    recover: bool = False,
) -> list[OpenShard]:
    """Open every shard: listed in the manifest, with the index of its sidecar, or with an index that is built now.

    Args:
        container: Name of the container.
        shards: The shards of the dataset.
        options: The user's declarations about them.
        policy: What to do about a missing or stale index.
        manifest: The manifest that lists all of these shards, if there is one.
        listed: Their files in a listing of the store.
        recover: Whether to read what can be read of a shard with a damaged structure.

    Raises:
        FormatError: A shard is damaged and `recover` is false, or nothing of it can be read; or a
            shard has no usable index and `policy` is `require`.
    """
    many = len(shards) > _STAT_ALL or (len(shards) > _ASK_ALL and not is_local(shards[0].root))
    if many and options.spec is None and manifest is not None:
        from bushel._dataset.read.listed import as_listed

        return as_listed(container, shards, manifest, CallerFields(pickle=options.pickle))

    def work(shard: Shard) -> list[OpenShard]:
        return _open_one(container, shard, options, policy, listed, recover)

    caller = _caller_fields(options)
    opened: list[OpenShard] = []
    opened_here, until = 0, time.monotonic() + _HERE_SECONDS
    for shard in shards:  # in this thread, as long as that is quicker than to start threads
        if not isinstance(shard.root, Path) or time.monotonic() > until:
            break
        if options.spec or options.checksums:
            unread = None
        else:
            unread = _unchanged(container, shard, caller)
        if unread is None and not _is_quick(shard):
            break
        opened += work(shard) if unread is None else [unread]
        opened_here += 1
    if opened_here < len(shards):
        from bushel._dataset.read.listed import each_shard
        from bushel._runtime.progress import slow_work

        with slow_work("opening") as report:
            options = replace(options, report=report)
            opened += chain.from_iterable(each_shard(shards[opened_here:], work))
    in_manifest = manifest is not None and bool(manifest.labels)
    may_be_named = in_manifest or get_container(container).names_file is not None
    if may_be_named and not any(shard.labels for shard in opened):
        from bushel._dataset.read.shard_fields import labels_beside

        labels = labels_beside(container, shards, manifest)
        for opened_shard in opened:
            opened_shard.labels = labels_of_fields(
                labels, [field.name for field in opened_shard.fields]
            )
    return opened


def _caller_fields(options: ReadOptions) -> CallerFields:
    """Return the declarations of the caller of `bushel.open` about fields."""
    if not options.spec and not options.pickle:
        return NO_CALLER_FIELDS
    return CallerFields(options.spec or {}, options.pickle)


def _unchanged(container: str, shard: Shard, caller: CallerFields) -> OpenShard | None:
    """Return a local shard with the table of its sidecar, if the files have the names, sizes and times in it.

    That is the usual case. `tables.table_to_read` handles all others.
    """
    sidecar = shard.sidecar
    if len(shard.files) > _MANY_FILES and not sidecar.exists():
        return None
    paths = shard.paths
    try:
        index = load_index(sidecar)
        if len(index.files) != len(paths):
            return None
        for name, path, stamp in zip(shard.files, paths, index.files, strict=True):
            stat = path.stat()
            now = (name, stat.st_size, stat.st_mtime_ns)
            if now != (stamp.name, stamp.size, stamp.mtime_ns):
                return None
    except (OSError, FormatError):
        return None
    return OpenShard.of(container, shard, index, stored=True, asked=caller, checked=True)


def _is_quick(shard: Shard) -> bool:
    """Return whether a local shard has a table, or is so small that it is scanned sooner than threads start."""
    if shard.sidecar.exists():
        return True
    if len(shard.files) > _STAT_ALL:  # a folder of plain files, which may be a million small ones
        return False
    size = 0
    with suppress(OSError):  # a missing file is reported when the shard is opened
        for number in range(len(shard.files)):
            size += int(shard.path(number).stat().st_size)
            if size > _HERE_BYTES:
                return False
    return True


def _open_one(
    container: str,
    shard: Shard,
    options: ReadOptions,
    policy: IndexPolicy,
    listed: ListedFiles | None,
    recover: bool,
) -> list[OpenShard]:
    """Open a shard, or each of its sections if that saves reading a remote shard."""
    caller = _caller_fields(options)
    if policy != "require" and is_object(shard.root) and _has_sections(container, shard, options):
        return _open_sections(container, shard, caller)
    if policy != "memory" and needs_index(shard.name) and not shard.sidecar.exists():
        raise forward_only(
            str(shard.path(0)), None if options.spec is None else format_spec(options.spec), True
        )
    from .tables import table_to_read

    table = table_to_read(container, shard, options, listed, policy, recover)
    index, stored, damage = table.index, table.stored, table.damage
    return [
        OpenShard.of(
            container, shard, index, stored=stored, damage=damage, asked=caller, checked=stored
        )
    ]


def _has_sections(container: str, shard: Shard, options: ReadOptions) -> bool:
    """Return whether a remote shard can be opened without reading all of it: not if fields are in other places.

    Fields may name other files, and the folder of a file may hold a column: `year=2020/`.
    """
    files = any(field.names_file for field in (options.spec or {}).values())
    return get_container(container).has_sections and not files and "=" not in shard.name


def _open_sections(container: str, shard: Shard, caller: CallerFields) -> list[OpenShard]:
    """Open a remote shard with its index if it has one, else each of its sections. Little is read for that.

    Raises:
        FormatError: The shard is damaged.
        OSError: The store refuses, or cannot be reached.
    """
    from .tables import stored_table

    table = stored_table(shard)
    if table is not None and table.fits:
        return [OpenShard.of(container, shard, table.index, stored=True, asked=caller)]
    outline = get_container(container).outline(shard)
    fields = tuple(map(caller.field, outline.fields))
    return [
        OpenShard(
            container,
            shard,
            section.samples,
            (outline.stamp,),
            keyed=False,
            checksums=False,
            fields=fields,
            stored=False,
            labels=outline.labels,
            asked=caller,
            section=section,
        )
        for section in outline.sections
    ]
