"""Granular datasets (bag files), generations A, B and C.

`plan_layout` chooses the files of a dataset, and `encode_table` writes the table of a bag.
"""

from bushel.containers.bag.container import CONTAINER
from bushel.containers.bag.tables import encode_table
from bushel.containers.bag.writer import plan_layout

__all__ = ["CONTAINER", "encode_table", "plan_layout"]
