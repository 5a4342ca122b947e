"""The five containers.

`containers()` lists them in the order in which they are tried on an unknown path; `get_container` finds one by name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from bushel.containers.base import Container

__all__ = ["Container", "containers", "get_container"]

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
