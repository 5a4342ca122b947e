"""The tables of sections of remote shards, which are made when a sample of the section is first needed.

The bytes of a section are then requested once: its table is made of them, and its samples are read from them while they
are kept in memory. The table is kept in the user's cache of tables, so that the next process can read any sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bushel._index.table import FileStamp, Shard, ShardIndex
from bushel._index.table_cache import has_table, keep_table, kept_table
from bushel._runtime.log import log_info
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.containers.sections import HasSections, Section
from bushel.errors import FormatError
from bushel.storage.expansion_cache import expansion_cache
from bushel.storage.objects.heldfile import HeldFile

if TYPE_CHECKING:
    from bushel.storage.objects.location import ObjectPath


def file_of_section(shard: Shard, section: Section, stamp: FileStamp) -> HeldFile:
    """Return the file of a shard, with the bytes of the section as the ranges that it holds."""
    path = cast("ObjectPath", shard.path(0))
    return HeldFile(path, stamp.size, stamp.mtime_ns, section.ranges)


def is_known(container: str, shard: Shard, section: Section, stamp: FileStamp) -> bool:
    """Return whether the cache of tables has the table of a section."""
    return any(has_table(container, shard, (stamp,), section.number, fields) for fields in {section.fields, ()})


def table_of_section(container: str, shard: Shard, section: Section, stamp: FileStamp) -> ShardIndex:
    """Return the table of a section: from the cache of tables, or from its bytes, which are requested then.

    Raises:
        FormatError: The bytes are damaged, or the object was replaced.
        OSError: The store refuses, or cannot be reached.
    """
    for fields in dict.fromkeys((section.fields, ())):
        known = kept_table(container, shard, (stamp,), section.number, fields)
        if known is not None and known.samples == section.samples:
            return known.select(section.fields) if section.fields else known
    own = get_container(container)
    if not isinstance(own, HasSections):
        raise FormatError(f"the container {container!r} has no sections", file=str(shard.path(0)))
    log_info("%s: reading %d bytes of section %d", shard.path(0), section.size, section.number)
    file = file_of_section(shard, section, stamp)
    if section.size <= expansion_cache().limit // 2:
        file.hold()  # else the container reads it in parts
    index = own.index_section(shard, section, file, ReadOptions())
    keep_table(index, shard, section.number, section.fields)
    return index
