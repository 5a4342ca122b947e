"""FFRecord files, also with packed folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .container import FFRecord, index_all_records
from .packed_folder import MAGIC, parse_folder

if TYPE_CHECKING:
    from bushel._index.shard import Shard
    from bushel.containers.base import ReadOptions
    from bushel.containers.recovery import Fault, Recovered

__all__ = ["CONTAINER", "MAGIC", "index_all_records", "parse_folder"]


class _FFRecord(FFRecord):
    """The container. Recovery uses the functions that read a shard, so it is added here."""

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
        """Return a table of the intact samples of a damaged shard."""
        from .recover import recover

        return recover(shard, options, fault)


CONTAINER = _FFRecord()
"""The container."""
