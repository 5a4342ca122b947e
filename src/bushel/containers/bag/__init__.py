"""Granular datasets (bag files), generations A, B and C.

`plan_layout` chooses the files of a dataset, and `encode_table` writes the table of a bag.
`read_spec` and `read_refs` read the fields of a dataset, and which records its samples refer to.
"""

from .container import CONTAINER, read_refs, read_spec
from .writer import encode_table, plan_layout

__all__ = ["CONTAINER", "encode_table", "plan_layout", "read_refs", "read_spec"]
