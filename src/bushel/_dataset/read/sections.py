"""Opening remote shards whose sections alone are known: samples are counted, and indexed when they are needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from bushel._dataset.open.caller_fields import NO_CALLER_FIELDS, CallerFields
from bushel._dataset.open.tables import stored_table
from bushel._dataset.read.shard_fields import only
from bushel._dataset.read.shards import OpenShard
from bushel._index.table import Shard
from bushel._runtime.log import log_warning
from bushel.containers import get_container
from bushel.containers.base import ReadOptions


def has_sections(container: str, options: ReadOptions) -> bool:
    """Return whether a remote shard can be opened without reading all of it: not if fields name other files."""
    files = any(field.names_file for field in (options.spec or {}).values())
    return get_container(container).has_sections and not files


def open_sections(container: str, shard: Shard, options: ReadOptions) -> list[OpenShard]:
    """Open a remote shard with its index if it has one, else each of its sections. Little is read for that.

    Raises:
        FormatError: The shard is damaged.
        OSError: The store refuses, or cannot be reached.
    """
    declared = (
        CallerFields(options.spec or {}, options.pickle)
        if options.spec or options.pickle
        else NO_CALLER_FIELDS
    )
    table = stored_table(shard)
    if table is not None and table.fits:
        return [OpenShard.of(container, shard, table.index, stored=True, asked=declared)]
    outline = get_container(container).outline(shard)
    fields = tuple(map(declared.field, outline.fields))
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
            asked=declared,
            section=section,
        )
        for section in outline.sections
    ]


def narrowed(shard: OpenShard, names: Collection[str]) -> OpenShard:
    """Return a shard with only these fields. If its section is not read yet, only their bytes will be requested."""
    narrow = only(shard, names)
    if shard.section is None or shard.loaded:
        return narrow
    names = [field.name for field in narrow.fields]
    return replace(narrow, section=get_container(shard.container).narrowed(shard.section, names))


def whole_shards(shards: Sequence[OpenShard]) -> list[list[OpenShard]]:
    """Return the shards, with the sections of one shard that follow each other together."""
    together: list[list[OpenShard]] = []
    for shard in shards:
        last = together[-1][-1] if together else None
        follows = (
            last is not None
            and last.section is not None
            and shard.section is not None
            and shard.shard is last.shard
            and shard.section.number == last.section.number + 1
        )
        if follows:
            together[-1].append(shard)
        else:
            together.append([shard])
    return together


def unread_bytes(shards: Sequence[OpenShard]) -> int:
    """Return how many bytes of sections have to be read before all of their samples can be read at random."""
    sections = [shard for shard in shards if shard.section is not None and not shard.loaded]
    if not sections:
        return 0
    from bushel._dataset.read.load_table import is_known

    return sum(
        shard.section.size
        for shard in sections
        if shard.section is not None
        and not is_known(shard.container, shard.shard, shard.section, shard.stamps[0])
    )


def warn_unread(path: str, shards: Sequence[OpenShard]) -> None:
    """Log how much of a remote dataset will be read to find its samples."""
    if (size := unread_bytes(shards)) and shards:
        log_warning(
            (
                "%s has no index: up to %s bytes are read when their samples are needed. `bushel"
                " index` reads them once"
            ),
            path,
            f"{size:,}",
        )
