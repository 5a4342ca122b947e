"""Loading the tables of shards, or of their sections, that were opened without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from bushel._dataset.open.tables import bind, same_files, stamps_of
from bushel._index.sidecar import load_index
from bushel._index.table import FileStamp, Shard, ShardIndex
from bushel._index.table_cache import has_table, keep_table, kept_table
from bushel._runtime.log import log_info
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.containers.sections import Section
from bushel.errors import FormatError
from bushel.storage.base import FROM_TAG
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
            return known.select(section.fields) if section.fields else known
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
    def section(self) -> Section | None: ...
    @property
    def loaded(self) -> bool: ...
    @property
    def local(self) -> bool: ...
    @property
    def index(self) -> ShardIndex: ...


def load_table(shard: Shard, stamps: Sequence[FileStamp], samples: int) -> ShardIndex:
    """Return the table of a shard, if it and the files are as the manifest lists them.

    Raises:
        FormatError: The sidecar is missing, damaged or of other files, or the files have changed.
    """
    now = stamps
    # times made of ETags need no look: each response of the store is compared with them
    if not all(stamp.mtime_ns >= FROM_TAG for stamp in now):
        now = stamps_of(shard)
    try:
        index = load_index(shard.sidecar)
    except FileNotFoundError as error:
        raise FormatError(
            "the index of the shard is missing",
            file=str(shard.sidecar),
            hint="run `bushel index` on the dataset, then open it again",
        ) from error
    if index.samples != samples or not same_files(index.files, stamps):
        raise FormatError(
            f"this index does not belong to {shard.path(0)} as the manifest lists it",
            file=str(shard.sidecar),
            hint="run `bushel index` on the dataset, then open it again",
        )
    files = bind(index.files, now, shard)
    if files is None:
        raise FormatError(
            "the shard has changed since it was indexed",
            file=str(shard.path(0)),
            hint="run `bushel index` on the dataset, then open it again",
        )
    return replace(index, files=files)


def load_together(shards: Sequence[Loadable]) -> None:
    """Load the tables of these shards, many at once if each is a request to an object store."""
    missing = [shard for shard in shards if not shard.loaded]
    if len(missing) > 1 and not missing[0].local:
        from bushel._runtime.parallel import map_all

        largest = max((each.section.size for each in missing if each.section), default=1)
        threads = max(1, min(_AT_ONCE, _SECTION_BYTES // largest))
        map_all(lambda shard: shard.index, missing, threads=threads, name="bushel-index")
