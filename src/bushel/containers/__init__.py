"""The five containers.

`containers()` lists them in the order in which they are tried on an unknown path; `get_container` finds one by name,
`container_for` by the name of an output file.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from bushel.containers.base import Column as LayoutColumn
from bushel.containers.base import Container, Layout, ReadOptions, Shard, ShardWriter, Stored, WriteOptions
from bushel.core.index.table import Column, ColumnBuilder, FileStamp, IndexBuilder, ShardIndex

__all__ = [
    "Column",
    "ColumnBuilder",
    "Container",
    "FileStamp",
    "IndexBuilder",
    "Layout",
    "LayoutColumn",
    "ReadOptions",
    "Shard",
    "ShardIndex",
    "ShardWriter",
    "Stored",
    "WriteOptions",
    "container_by_suffix",
    "container_for",
    "containers",
    "get_container",
]

_NAMES = ("bag", "tar", "ffrecord", "gulp", "recordio")


@cache
def get_container(name: str) -> Container:
    """Return the container of this name.

    Raises:
        ValueError: The name is unknown.
    """
    if name not in _NAMES:
        raise ValueError(f"unknown container {name!r}: use one of {', '.join(_NAMES)}")
    return cast("Container", import_module(f"bushel.containers.{name}").CONTAINER)


def containers() -> list[Container]:
    """Return all containers."""
    return [get_container(name) for name in _NAMES]


def container_by_suffix(name: str) -> Container | None:
    """Return the container whose suffix a file name has, or None."""
    return next((each for each in containers() if each.suffix and name.endswith(each.suffix)), None)


def container_for(name: str) -> Container:
    """Return the container that the suffix of an output's name implies.

    Raises:
        ValueError: The name implies none.
    """
    found = container_by_suffix(name)
    if found is None:
        raise ValueError(f"the name {name!r} does not imply a container: pass container=: {', '.join(_NAMES)}")
    return found
