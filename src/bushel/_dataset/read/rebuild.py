"""Write the index of a shard again, for `bushel.index`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bushel._dataset.open.tables import (
    accepted,
    build_table,
    lacks_checksums,
    stamped,
    stored_table,
)
from bushel._dataset.read.shards import OpenShard
from bushel._index.class_names import Labels, labels_of_fields
from bushel._index.column_scan import ValueFiles
from bushel._index.contents import Contents
from bushel._index.opening import opener
from bushel._index.saving import save_index
from bushel._index.scans import FRAMES, has_pyav
from bushel._index.table import Shard, ShardIndex
from bushel.containers.base import ReadOptions
from bushel.storage import sync_whole


@dataclass(frozen=True, slots=True)
class Indexing:
    """The wanted contents of the index of each shard."""

    options: ReadOptions  # the user's declarations about the data, and whether checksums are wanted
    # the contents to find by reading values, beside the contents of the old table, which are found
    # again
    contents: Contents | None = None
    labels: Labels = field(default_factory=dict)  # names of classes for shards that have none
    # whether to index shards whose table fits, and to accept other checksums than the recorded ones
    force: bool = False


def _index_again(container: str, shard: Shard, wanted: Indexing) -> tuple[ShardIndex, bool]:
    """Write the sidecar of a shard, unless it fits and has all wanted contents.

    Returns:
        The table, and whether data of the shard were read to make it.

    Raises:
        CorruptError: Bytes have other checksums than the recorded ones, and `wanted.force` is not
            set.
        FormatError: The shard is damaged, or lacks values whose checksums are recorded.
        SpecError: Frames are wanted, there are clips, and PyAV is not installed.
        OSError: The sidecar cannot be written.
    """
    options, force = wanted.options, wanted.force
    table = stored_table(shard, check=True)
    known = None if table is None else table.index
    index = None if force or table is None or not table.fits or options.spec is not None else known
    if index is None or lacks_checksums(index, options):
        index = build_table(container, shard, options, table)
        if table is not None and table.index.has_checksums and not force:
            index = accepted(table, index, shard)
    read = index is not known
    if index.container != container:  # a forged table
        index = replace(index, container=container)
    if wanted.labels and not index.labels:
        index = replace(index, labels=labels_of_fields(wanted.labels, index.fields))
    if wanted.contents is not None or (known is not None and known is not index):
        partial = index
        index = _completed(index, shard, wanted.contents, known)
        read = read or index is not partial
    shard = shard.with_files_of(index)
    files = stamped(index.files, shard)
    if table is None or index is not known or list(files) != list(table.recorded):
        index = replace(index, files=files)
        save_index(index, shard.sidecar)
    else:  # written by another process perhaps, which was killed before the name was on disk
        sync_whole(shard.sidecar)
    return index, read


def again(index: ShardIndex, known: ShardIndex, shard: Shard) -> ShardIndex:
    """Return a table of unchanged files with the contents that the recorded table has, made of the values again."""
    return _completed(index, shard.with_files_of(known), None, known)


def _completed(
    index: ShardIndex, shard: Shard, wanted: Contents | None, known: ShardIndex | None
) -> ShardIndex:
    """Return a table with the requested contents, and with the contents of the shard's other table."""
    wanted, again = wanted or Contents(), Contents() if known is None else Contents.of(known)
    frames = FRAMES.attribute in wanted.scans or (FRAMES.attribute in again.scans and has_pyav())
    if frames:
        index = FRAMES.add(index, opener(index, shard.path))
    return (again | wanted).add_to(index, ValueFiles(opener(index, shard.path)))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A shard whose sidecar is as wanted."""

    shard: OpenShard  # the shard with its table
    # size of its files in bytes if data were read to make the table; 0 if the recorded table fits
    bytes: int


@dataclass(frozen=True, slots=True)
class RebuildIndex:
    """Writes the sidecar of a shard if it does not fit, or lacks requested contents."""

    container: str
    wanted: Indexing

    def __call__(self, shard: Shard) -> Rebuilt:
        """Write the sidecar of a shard."""
        index, read = _index_again(self.container, shard, self.wanted)
        size = sum(file.size for file in index.files) if read else 0
        return Rebuilt(OpenShard.of(self.container, shard, index, stored=True), size)
