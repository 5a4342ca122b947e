"""Filters, which expand the stored bytes of a block.

`expand` expands one block; `register` adds a filter, and so does the entry point `bushel.filters`
of a package.
"""

from .base import MAX_BLOCK, Expander, Filter, FilterError
from .registry import expand, filter_names, get_filter, register

__all__ = [
    "MAX_BLOCK",
    "Expander",
    "Filter",
    "FilterError",
    "expand",
    "filter_names",
    "get_filter",
    "register",
]
