"""The table of a shard with all checksums, as `bushel.index` makes it."""

from bushel._dataset.open.binding import with_checksums
from bushel._index.shard import Shard
from bushel._index.table import ShardIndex, opener
from bushel.containers.base import Container, ReadOptions
from bushel.spec import Spec


def summed_table(container: Container, shard: Shard, spec: Spec | None = None) -> ShardIndex:
    index = container.index(shard, ReadOptions(spec=spec, checksums=True))
    return with_checksums(index, opener(index, shard))
