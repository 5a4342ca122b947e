"""WebDataset shards: tar archives in which neighbouring members form a sample."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bushel.containers.tar.container import CONTAINER
from bushel.containers.tar.names import is_meta, split_name

if TYPE_CHECKING:
    from bushel.containers.tar.contents import Keep, member_contents
    from bushel.containers.tar.writer import end_of_archive, header_of

__all__ = ["CONTAINER", "Keep", "end_of_archive", "header_of", "is_meta", "member_contents", "split_name"]

_MODULES = {"Keep": "contents", "end_of_archive": "writer", "header_of": "writer", "member_contents": "contents"}
"""Names that reading a dataset does not need, and the modules from which they are imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'bushel.containers.tar' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"bushel.containers.tar.{_MODULES[name]}"), name)
    return value
