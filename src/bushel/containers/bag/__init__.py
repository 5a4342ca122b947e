"""Granular datasets (bag files), generations A, B and C.

`plan_layout` chooses the files of a dataset, and `encode_table` writes the table of a bag.
`read_spec` and `read_refs` read the fields of a dataset, and which records its samples refer to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .container import Bag, read_refs, read_spec
from .tables import encode_table
from .writer import plan_layout

if TYPE_CHECKING:
    from bushel._index.shard import Shard
    from bushel.containers.base import ReadOptions
    from bushel.containers.recovery import Fault, Recovered

__all__ = ["CONTAINER", "encode_table", "plan_layout", "read_refs", "read_spec"]


class _Bag(Bag):
    """The container. Recovery uses the functions that read a shard, so it is added here."""

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
        """Return a table of the intact samples of a damaged shard."""
        from .recover import recover

        return recover(shard, options, fault)


CONTAINER = _Bag()
"""The container."""
