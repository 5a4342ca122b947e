"""WebDataset shards: tar archives in which neighbouring members form a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bushel._runtime.public import lazy_names
from bushel.containers.tar.container import CONTAINER
from bushel.containers.tar.names import is_meta, split_name

if TYPE_CHECKING:
    from bushel.containers.tar.contents import Keep, member_contents, member_extensions
    from bushel.containers.tar.writer import end_of_archive, header_of

__all__ = [
    "CONTAINER",
    "Keep",
    "end_of_archive",
    "header_of",
    "is_meta",
    "member_contents",
    "member_extensions",
    "split_name",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Keep": "containers.tar.contents",
        "end_of_archive": "containers.tar.writer",
        "header_of": "containers.tar.writer",
        "member_contents": "containers.tar.contents",
        "member_extensions": "containers.tar.contents",
    },
)
