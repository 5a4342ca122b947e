"""The tables of sections of remote shards, which are made of their bytes when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bushel._index.shard import FileStamp, Shard
from bushel._index.table import ShardIndex
from bushel._index.table_cache import has_table, keep_table, kept_table
from bushel._runtime.messages import log_info
from bushel.containers import get_container
from bushel.containers.base import ReadOptions, Section
from bushel.storage.expansion_cache import expansion_cache
from bushel.storage.objects.remotefile import HeldFile

if TYPE_CHECKING:
    from bushel.storage.objects.location import ObjectPath


def file_of_section(shard: Shard, section: Section, stamp: FileStamp) -> HeldFile:
    """Return the file of a shard, with the bytes of the section as the ranges that it holds."""
    path = cast("ObjectPath", shard.path(0))
    return HeldFile(path, stamp.size, stamp.mtime_ns, section.ranges)


def is_known(container: str, shard: Shard, section: Section, stamp: FileStamp) -> bool:
    """Return whether the cache of tables has the table of a section."""
    return any(
        has_table(container, shard, (stamp,), section.number, fields)
        for fields in {section.fields, ()}
    )


def table_of_section(
    container: str, shard: Shard, section: Section, stamp: FileStamp
) -> ShardIndex:
    """Return the table of a section: from the cache of tables, or from its bytes, which are requested then.

    Raises:
        FormatError: The bytes are damaged, or the object was replaced.
        OSError: The store refuses, or cannot be reached.
    """
    for fields in dict.fromkeys((section.fields, ())):
        table = kept_table(container, shard, (stamp,), section.number, fields)
        if table is not None and table.samples == section.samples:
            if section.fields:
                return table.select(section.fields)
            return table
    log_info("%s: reading %d bytes of section %d", shard.path(0), section.size, section.number)
    file = file_of_section(shard, section, stamp)
    if section.size <= expansion_cache().limit // 2:
        file.hold()  # else the container reads it in parts
    index = get_container(container).index_section(shard, section, file, ReadOptions())
    keep_table(index, shard, section.number, section.fields)
    return index
