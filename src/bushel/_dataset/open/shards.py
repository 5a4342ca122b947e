"""The shards of a dataset, each with a table to read it: of its sidecar, or made now.

A folder that is as its writer left it is found here, too: opening it needs none of the modules that find
out what a source is.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.shards import OpenShard
from bushel._index.names import labels_of_fields
from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import Manifest, load_index, readable_manifest
from bushel.containers import ReadOptions, candidates, get_container, needs_index
from bushel.errors import FormatError
from bushel.spec import format_spec
from bushel.storage import AnyPath, is_local, is_object

from .caller_fields import NO_CALLER_FIELDS, CallerFields, IndexPolicy

if TYPE_CHECKING:
    from bushel._index.shard_list import FolderState

    from .completeness import Incomplete
    from .remote_discovery import ListedFiles

_BESIDE = frozenset({FOLDER, "README.md"})
"""Names in a folder that do not belong to its dataset."""

_LARGE_MANIFEST = 64 << 10  # size in bytes of a manifest that may list more than a thousand shards
_NAME = attrgetter("name")

_STAT_ALL, _ASK_ALL = 1000, 32
"""Datasets of up to this many local or remote shards are compared with their sidecars when they are opened. Larger ones
are compared shard by shard, when a shard is first read. The files of a shard are not looked at if
it has more.
"""

_HERE_SECONDS, _HERE_BYTES = 0.05, 8 << 20
"""For how long, in seconds, shards are opened one after another before threads are started; and how many bytes one
without a table may have."""
_QUICK_SECONDS = 0.001
"""A shard that takes less time of the processor is work of the interpreter, for which threads wait in turns."""
_THIS_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # macOS has none

# number of remote shards that are opened or indexed at once; each may have 64 MiB of requests in flight
_REMOTE_WORKERS = 8


def threads_for(shards: Sequence[Shard]) -> int:
    """Return the number of threads that open or index shards at once."""
    if is_local(shards[0].root):
        from bushel._runtime.threads import cpu_count  # which few shards do not need

        return cpu_count()
    return _REMOTE_WORKERS


class Found(Struct, frozen=True):
    """The files of a dataset, before any of them is read."""

    container: str  # name of the container
    shards: list[Shard]  # the shards in order
    # the missing part of the dataset, as far as that was looked for
    incomplete: Incomplete | None = None
    # names of files that are there and not in `shards`, since the manifest does not list them
    unlisted: tuple[str, ...] = ()
    # the manifest that lists all of `shards`, if there is one and it was looked for
    manifest: Manifest | None = None
    listed: ListedFiles | None = None  # their files as a store has listed them


def as_written(folder: AnyPath, container: str | None) -> Found | None:
    """Return the dataset of a folder that has the files in its manifest, all beside each other, and no others.

    That is the usual case, and the containers need not look at the folder then. None of every other
    folder: `discover` finds out what it holds.

    Args:
        folder: A local folder with a manifest.
        container: Name of the container that the dataset must have; by default, any.

    Raises:
        FormatError: The manifest is damaged.
        OSError: The folder cannot be listed.
    """
    with os.scandir(str(folder)) as entries:
        present = [entry for entry in entries if entry.name not in _BESIDE]
    if any(entry.is_symlink() for entry in present):  # there may be lists beside the linked files
        return None
    names = [entry.name for entry in present]
    owners = candidates(names)
    if len(owners) != 1 or container not in (None, owners[0].name):
        return None
    manifest = readable_manifest(folder / f"{FOLDER}/manifest.json")
    if manifest is None or not manifest.complete or manifest.container != owners[0].name:
        return None
    shards = manifest.shards
    files = [tuple(name for name, _, _ in entry.files) for entry in shards]
    # containers sort by names; files of single values do not belong to a shard
    if not all(name < next_name for name, next_name in pairwise(map(_NAME, shards))) or any(
        "(path)" in kind for kind in manifest.spec.values()
    ):
        return None
    # a writer may have left something there
    left = (os.path.isdir(f"{folder}/{FOLDER}/{place}") for place in ("staging", "overwrite"))
    if sorted(chain.from_iterable(files)) != sorted(names) or any(left):
        return None
    listed = [Shard(folder, entry.name, names) for entry, names in zip(shards, files, strict=True)]
    return Found(manifest.container, listed, manifest=manifest)


def manifest_stat(paths: Sequence[AnyPath]) -> os.stat_result | None:
    """Return size and time of the manifest of a local folder; None without one."""
    if len(paths) != 1 or not isinstance(paths[0], Path):
        return None
    try:
        return os.stat(f"{paths[0]}/{FOLDER}/manifest.json")
    except OSError:  # it does not exist, or the path names a file
        return None


def folder_state(folder: AnyPath, manifest: os.stat_result) -> FolderState | None:
    """Return the state of a folder whose manifest may list more than a thousand shards, else None."""
    if manifest.st_size < _LARGE_MANIFEST:
        return None
    from bushel._index.shard_list import FolderState

    changed = os.stat(str(folder)).st_mtime_ns
    return FolderState(changed, manifest.st_mtime_ns, manifest.st_size)


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
    caller = NO_CALLER_FIELDS
    if options.spec or options.pickle:
        caller = CallerFields(options.spec or {}, options.pickle)
    many = len(shards) > _STAT_ALL or (len(shards) > _ASK_ALL and not is_local(shards[0].root))
    if many and options.spec is None and manifest is not None:
        from bushel._dataset.read.listed import as_listed

        return as_listed(container, shards, manifest, caller)

    def work(shard: Shard, *, look: bool = True) -> list[OpenShard]:
        return _open_one(container, shard, options, caller, policy, listed, recover, look=look)

    opened: list[OpenShard] = []
    opened_here, began, before = 0, time.monotonic(), resource.getrusage(_THIS_THREAD)
    for shard in shards:  # in this thread, as long as that is quicker than to start threads
        if not isinstance(shard.root, Path):
            break
        if time.monotonic() - began > _HERE_SECONDS and _is_slow(before, opened_here):
            break
        has_table, unread = _look_at(container, shard, options, caller)
        if not has_table and not _is_quick(container, shard):
            break
        opened += work(shard, look=has_table) if unread is None else [unread]
        opened_here += 1
    if opened_here < len(shards):
        from bushel._runtime.parallel import map_each
        from bushel._runtime.progress import slow_work

        with slow_work("opening") as report:
            options = replace(options, report=report)
            rest = shards[opened_here:]
            opened += chain.from_iterable(map_each(work, rest, threads=threads_for(rest)))
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


def _is_slow(before: resource.struct_rusage, shards: int) -> bool:
    """Return whether this thread has waited for a disk once for each of these shards, or has worked long."""
    now = resource.getrusage(_THIS_THREAD)
    worked = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
    return now.ru_nvcsw - before.ru_nvcsw > shards or worked > shards * _QUICK_SECONDS


def _look_at(
    container: str, shard: Shard, options: ReadOptions, caller: CallerFields
) -> tuple[bool, OpenShard | None]:
    """Return whether a local shard has a sidecar, and the shard if its files have the names, sizes and times there.

    That is the usual case. `tables.table_to_read` handles all others.
    """
    sidecar = shard.sidecar
    if not sidecar.exists():
        return False, None
    if options.spec or options.checksums:
        return True, None
    paths = shard.paths
    try:
        index = load_index(sidecar)
        if len(index.files) != len(paths):
            return True, None
        for name, path, stamp in zip(shard.files, paths, index.files, strict=True):
            stat = path.stat()
            if (name, stat.st_size, stat.st_mtime_ns) != (stamp.name, stamp.size, stamp.mtime_ns):
                return True, None
    except (OSError, FormatError):
        return True, None
    return True, OpenShard.of(container, shard, index, stored=True, asked=caller, checked=True)


def _is_quick(container: str, shard: Shard) -> bool:
    """Return whether a local shard without a sidecar is opened sooner than threads start.

    It has a table of its own, or is so small that it is scanned.
    """
    if len(shard.files) > _STAT_ALL:  # a folder of plain files, which may be a million small ones
        return False
    if get_container(container).has_own_index:
        return True
    with suppress(OSError):  # a missing file is reported when the shard is opened
        return sum(int(path.stat().st_size) for path in shard.paths) <= _HERE_BYTES
    return True


def _open_one(
    container: str,
    shard: Shard,
    options: ReadOptions,
    caller: CallerFields,
    policy: IndexPolicy,
    listed: ListedFiles | None,
    recover: bool,
    *,
    look: bool,
) -> list[OpenShard]:
    """Open a shard, or each of its sections if that saves reading a remote shard.

    `look` says whether it may have a sidecar.
    """
    # fields may name other files, and the folder of a file may hold a column: `year=2020/`
    names_files = any(field.names_file for field in (options.spec or {}).values())
    has_sections = (
        get_container(container).has_sections and not names_files and "=" not in shard.name
    )
    if policy != "require" and is_object(shard.root) and has_sections:
        return _open_sections(container, shard, caller)
    if policy != "memory" and needs_index(shard.name) and not shard.sidecar.exists():
        from .sources import forward_only

        raise forward_only(
            str(shard.path(0)), None if options.spec is None else format_spec(options.spec), True
        )
    from .tables import table_to_read

    table = table_to_read(container, shard, options, policy, listed, recover=recover, look=look)
    shown = OpenShard.of(
        container,
        shard,
        table.index,
        stored=table.stored,
        damage=table.damage,
        asked=caller,
        checked=table.damage is None,
    )
    return [shown]


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
