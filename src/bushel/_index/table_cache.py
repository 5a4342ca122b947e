"""The user's cache of tables of remote files, so that later processes need not read the files again.

It is the folder `BUSHEL_TABLES_DIR`, by default `bushel/tables` in `XDG_CACHE_HOME` or `~/.cache`,
of at most `BUSHEL_TABLES_SIZE` (2 GB by default, 0 for no cache). The tables that were used longest
ago are removed first. The folder may be deleted at any time. A table is found by the URLs, sizes
and stamps of its files, so the table of a replaced object is never found; objects of stores that
give neither an ETag nor a time have none. `containers/kept_folder.py` keeps the tables of local
folders of many files in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from bushel._runtime.messages import log_info
from bushel.errors import FormatError
from bushel.storage.files import absolute
from bushel.storage.objects.blockcache import BlockCache, cache_in

from .saving import encode_index
from .shard import FileStamp, Shard
from .sidecar import decode_index
from .table import ShardIndex

# version of the scanners of containers; it changes when they would make another table from the same
# file
_LAYOUT = 2
_USUAL_SIZE = "2GB"


def kept_table(
    container: str,
    shard: Shard,
    stamps: Sequence[FileStamp],
    section: int = -1,
    fields: Sequence[str] = (),
) -> ShardIndex | None:
    """Return the table that the cache has of a shard, or of one of its sections; None if it has none.

    Args:
        container: Name of the container.
        shard: The shard.
        stamps: Its files as they are now.
        section: Number of the section; -1 for the whole shard.
        fields: The fields of the table; empty for all.
    """
    if (place := _place(container, shard, stamps, fields)) is None:
        return None
    cache, name = place
    if (data := cache.get(name, section + 1)) is None:
        return None
    try:
        index = decode_index(data, Path(cache.folder, name))
    except FormatError as error:
        log_info("a table in the cache of tables is not used: %s", error)
        return None
    if index.container == container and index.files == tuple(stamps):
        return index
    return None


def has_table(
    container: str,
    shard: Shard,
    stamps: Sequence[FileStamp],
    section: int = -1,
    fields: Sequence[str] = (),
) -> bool:
    """Return whether the cache seems to have a table: see `kept_table`. It is not read."""
    place = _place(container, shard, stamps, fields)
    return place is not None and place[0].has(place[1], section + 1)


def keep_table(
    index: ShardIndex, shard: Shard, section: int = -1, fields: Sequence[str] = ()
) -> bool:
    """Keep a table in the cache. Return whether that was possible."""
    if (place := _place(index.container, shard, index.files, fields)) is None:
        return False
    cache, name = place
    data = encode_index(index)
    if len(data) > cache.limit:
        return False
    cache.put(name, section + 1, memoryview(data))
    return True


def _place(
    container: str, shard: Shard, stamps: Sequence[FileStamp], fields: Sequence[str]
) -> tuple[BlockCache, str] | None:
    """Return the cache and the name of a table in it; None without a cache, or for files without stamps."""
    cache = cache_of_tables()
    if cache is None or not all(stamp.mtime_ns for stamp in stamps):
        return None
    files = [
        [str(absolute(shard.path(number))), stamp.size, stamp.mtime_ns]
        for number, stamp in enumerate(stamps)
    ]
    identity = json.dumps([_LAYOUT, container, files, *fields]).encode()
    return cache, hashlib.sha256(identity).hexdigest()[:40]


def cache_of_tables() -> BlockCache | None:
    """Return the `BlockCache` that the environment names, or None if it names no folder."""
    folder = os.environ.get("BUSHEL_TABLES_DIR")
    if not folder:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(home, "bushel", "tables")
    return cache_in(folder, "BUSHEL_TABLES_SIZE", _USUAL_SIZE)
