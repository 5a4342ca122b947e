"""The five containers.

`containers()` lists them in the order in which they are tried on an unknown path; `get_container` finds one by name,
`container_for` by the name of an output file. A container is imported when it is first needed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import cast

from bushel.containers.base import (
    Container,
    Layout,
    LayoutColumn,
    ReadOptions,
    Shard,
    ShardWriter,
    Stored,
    WriteOptions,
)
from bushel.core.index.builders import ColumnBuilder, IndexBuilder
from bushel.core.index.table import Column, FileStamp, ShardIndex

__all__ = [
    "FILE_NAMES",
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

_SUFFIXES = {"bag": "", "tar": ".tar", "ffrecord": ".ffr", "gulp": ".gulp", "recordio": ".rec"}
"""Names of the containers, and the suffixes of their data files; empty if a dataset is a folder."""

FILE_NAMES = re.compile(
    r"(?P<bag>spec\.json|.*\.bag|[0-9]+)|(?P<tar>.*\.tar)|(?P<ffrecord>.*\.ffr)"
    r"|(?P<gulp>data.*\.gulp|meta.*\.gmeta)|(?P<recordio>.+\.rec(?:\.part[0-9]+)?)",
    re.DOTALL,
)
"""Pattern of the names of files and folders, with a group for each container that may own one.

A container that owns none of the files is not imported.
"""


@cache
def get_container(name: str) -> Container:
    """Return the container of this name.

    Raises:
        ValueError: The name is unknown.
    """
    if name not in _SUFFIXES:
        raise ValueError(f"unknown container {name!r}: use one of {', '.join(_SUFFIXES)}")
    return cast("Container", import_module(f"bushel.containers.{name}").CONTAINER)


def containers() -> list[Container]:
    """Return all containers."""
    return [get_container(name) for name in _SUFFIXES]


def container_by_suffix(name: str) -> Container | None:
    """Return the container whose suffix a file name has, or None."""
    return next((get_container(each) for each, suffix in _SUFFIXES.items() if suffix and name.endswith(suffix)), None)


def container_for(name: str) -> Container:
    """Return the container that the suffix of an output's name implies.

    Raises:
        ValueError: The name implies none.
    """
    found = container_by_suffix(name)
    if found is None:
        raise ValueError(f"the name {name!r} does not imply a container: pass container=: {', '.join(_SUFFIXES)}")
    return found
