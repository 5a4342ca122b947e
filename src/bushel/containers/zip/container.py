"""Zip archives: members that share directory and name up to the first dot are one sample.

A member that is stored is an extent of the file; one that is compressed by deflate or zstd is a
block. The directory of the archive has the CRC-32 of each value. docs/format-zip.md has the rules.
"""

from __future__ import annotations

from bushel._index.table import Shard, ShardIndex
from bushel.containers.base import Container, ReadOptions
from bushel.containers.shard_names import file_shards
from bushel.containers.zip.members import members_of
from bushel.containers.zip.samples import tabulate
from bushel.storage import AnyPath, open_file


class _Zip(Container):
    name = "zip"
    suffixes = (".zip",)
    holds_files = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a `.zip` file, or a shard for each `.zip` file of a folder, sorted by name."""
        return file_shards(path, lambda name: name.endswith(self.suffixes))

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one archive, from its directory and the headers of its members."""
        file = open_file(shard.path(0))
        return tabulate(shard, file, members_of(file), options.spec)


CONTAINER = _Zip()
