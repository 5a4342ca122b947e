"""The five containers.

`containers()` lists them in the order in which they are tried on an unknown path; `get_container` finds one by name,
`container_for` by the name of a file that is to be written.
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
    """The container of this name.

    Raises:
        ValueError: There is none.
    """
    if name not in _NAMES:
        raise ValueError(f"there is no container {name!r}: use one of {', '.join(_NAMES)}")
    return cast("Container", import_module(f"bushel.containers.{name}").CONTAINER)


def containers() -> list[Container]:
    """All containers."""
    return [get_container(name) for name in _NAMES]


def container_by_suffix(name: str) -> Container | None:
    """The container whose suffix the name of a file has."""
    return next((each for each in containers() if each.suffix and name.endswith(each.suffix)), None)


def container_for(name: str) -> Container:
    """The container that the name of a target tells.

    Raises:
        ValueError: It tells none.
    """
    found = container_by_suffix(name)
    if found is None:
        raise ValueError(f"say which container to write with container=: {', '.join(_NAMES)}")
    return found
