"""Filters, which expand the stored bytes of a block.

`expand` expands one block; `register` adds a filter, and so does the entry point `bushel.filters`
of a package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from bushel._runtime.arrays import U8
from bushel._runtime.public import broken_plugin, has_plugin, load_plugin, plugin_names
from bushel.errors import SpecError

from .base import MAX_BLOCK, Buffer, Expander, Filter, FilterError

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

_NAME = re.compile(r"[a-z0-9_-]+")

_MODULES: Mapping[str, str] = {
    "stored": "base",
    **dict.fromkeys(("deflate", "gzip", "zlib"), "deflate"),
    **dict.fromkeys(("lz4", "lz4-block", "lz4-hadoop", "brotli", "bzip2"), "by_cramjam"),
    **dict.fromkeys(("snappy", "snappy-tags", "zstd"), "by_cramjam"),
    **dict.fromkeys(("parquet", "parquet-values"), "parquet"),
    "riegeli": "riegeli",
}
"""The built-in filters by the modules that define them, which are imported on first use."""

_GROUP = "bushel.filters"

_registered: dict[str, Filter] = {}


def expand(name: str, stored: Buffer, size: int, side: Buffer | None = None) -> U8:
    """Expand the stored bytes of one block.

    Args:
        name: Name of the filter.
        stored: The stored bytes.
        size: Size of the block in bytes.
        side: The side input of the block, if it has one.

    Returns:
        uint8[size].

    Raises:
        FilterError: The stored bytes do not expand to `size` bytes, or the size is beyond
            `MAX_BLOCK`, or beyond what the stored bytes can expand to.
        SpecError: The filter does not exist.

    Examples:
        >>> import zlib
        >>> from bushel.filters import expand
        >>> expand("zlib", zlib.compress(b"bushel"), 6).tobytes()
        b'bushel'
    """
    return get_filter(name).expanded(stored, size, side)


@cache
def get_filter(name: str) -> Filter:
    """Return the filter with a name.

    Raises:
        SpecError: The filter is unknown.
        UnsupportedError: An installed package adds it, and importing it fails.

    Examples:
        >>> from bushel.filters import get_filter
        >>> get_filter("zstd").name
        'zstd'
    """
    if name in _registered:
        return _registered[name]
    if name in _MODULES:
        filters: Mapping[str, Filter] = import_module(f"bushel.filters.{_MODULES[name]}").FILTERS
        return filters[name]
    if has_plugin(_GROUP, name):
        plugin = load_plugin(_GROUP, name)
        if isinstance(plugin, Filter):
            return plugin
        raise broken_plugin(_GROUP, name, f"it is a {type(plugin).__name__}, not a Filter")
    names = ", ".join(filter_names())
    raise SpecError(
        f"unknown filter {name!r}: known filters are "
        f"{names}. Add your own with bushel.filters.register"
    )


def filter_names() -> tuple[str, ...]:
    """Return the names of all filters, sorted.

    Examples:
        >>> from bushel.filters import filter_names
        >>> {"stored", "deflate", "zstd", "snappy"} <= set(filter_names())
        True
    """
    return tuple(sorted({*_MODULES, *_registered, *plugin_names(_GROUP)}))


def register(
    name: str, expand: Expander, *, ratio: int | None = None, replace: bool = False
) -> Filter:
    """Add a filter, for this process, under a name that tables of blocks can use.

    Any exception of the function reaches the reader as a `FilterError`. Threads call it at the same
    time.

    Args:
        name: Lower-case letters, digits, `_` and `-`.
        expand: Expands the stored bytes of one block (`Expander`).
        ratio: Bytes to which one stored byte expands at most, if there is such a bound
            (`Filter.ratio`).
        replace: Whether to replace an existing filter.

    Raises:
        SpecError: The name is malformed, or taken and `replace` is False.

    Examples:
        >>> import bz2
        >>> from bushel import filters
        >>> def expand(stored, out, side):
        ...     data = bz2.decompress(stored)
        ...     out[:] = data
        ...     return len(data)
        >>> filter = filters.register("bz2", expand)
        >>> filters.expand("bz2", bz2.compress(b"bushel"), 6).tobytes()
        b'bushel'
    """
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"invalid filter name {name!r}: use lower-case letters, digits, '_' and '-'"
        )
    if not replace and (name in _MODULES or name in _registered):
        raise SpecError(
            f"filter {name!r} exists: choose another name, or pass replace=True to replace it"
        )
    _registered[name] = filter = Filter(name, expand, ratio)
    get_filter.cache_clear()
    return filter
