"""Remote shards whose tables are loaded when they are needed: many at once, or only of some sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from bushel._index.table import FileStamp, Shard, ShardIndex
from bushel._index.table_cache import has_table, keep_table, kept_table
from bushel._runtime.log import log_info, log_warning
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.containers.sections import Section
from bushel.storage.expansion_cache import expansion_cache
from bushel.storage.objects.heldfile import HeldFile

if TYPE_CHECKING:
    from bushel.storage.objects.location import ObjectPath

_AT_ONCE, _SECTION_BYTES = 32, 512 << 20
"""Number of remote tables that are loaded at once; and bytes of sections that are read to make some."""


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
        known = kept_table(container, shard, (stamp,), section.number, fields)
        if known is not None and known.samples == section.samples:
            if section.fields:
                return known.select(section.fields)
            return known
    log_info("%s: reading %d bytes of section %d", shard.path(0), section.size, section.number)
    file = file_of_section(shard, section, stamp)
    if section.size <= expansion_cache().limit // 2:
        file.hold()  # else the container reads it in parts
    index = get_container(container).index_section(shard, section, file, ReadOptions())
    keep_table(index, shard, section.number, section.fields)
    return index


class Loadable(Protocol):
    """The part of `OpenShard` that loading uses; `OpenShard` describes these members."""

    @property
    def container(self) -> str: ...
    @property
    def shard(self) -> Shard: ...
    @property
    def stamps(self) -> Sequence[FileStamp]: ...
    @property
    def section(self) -> Section | None: ...
    @property
    def loaded(self) -> bool: ...
    @property
    def local(self) -> bool: ...
    @property
    def index(self) -> ShardIndex: ...


Shards = TypeVar("Shards", bound=Loadable)


def load_together(shards: Sequence[Loadable]) -> None:
    """Load the tables of these shards, many at once if each is a request to an object store."""
    missing = [shard for shard in shards if not shard.loaded]
    if len(missing) > 1 and not missing[0].local:
        from bushel._runtime.parallel import map_all

        largest = max((each.section.size for each in missing if each.section), default=1)
        threads = max(1, min(_AT_ONCE, _SECTION_BYTES // largest))
        map_all(lambda shard: shard.index, missing, threads=threads, name="bushel-index")


def whole_shards(shards: Sequence[Shards]) -> list[list[Shards]]:
    """Return the shards, with the sections of one shard that follow each other together."""
    together: list[list[Shards]] = []
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


def unread_bytes(shards: Sequence[Loadable]) -> int:
    """Return how many bytes of sections have to be read before all of their samples can be read at random."""
    sections = [shard for shard in shards if shard.section is not None and not shard.loaded]
    if not sections:
        return 0
    return sum(
        shard.section.size
        for shard in sections
        if shard.section is not None
        and not is_known(shard.container, shard.shard, shard.section, shard.stamps[0])
    )


def warn_unread(path: str, shards: Sequence[Loadable]) -> None:
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
