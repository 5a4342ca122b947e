"""Containers in which parts of a file can be indexed on their own, so that a remote file is read only when needed.

A *section* is a run of samples whose bytes are together in one file. The sections of a file must be
known from a small part of it, such as a footer or a table of offsets.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bushel._index.class_names import Labels
from bushel._index.table import FileStamp
from bushel.spec import Field


class Section(Struct, frozen=True):
    """A run of samples of one file."""

    number: int  # its number in the shard
    samples: int
    start: int  # first byte of the file that belongs to it
    stop: int  # end of its bytes
    details: Any  # data that the container needs to index it; they can be pickled
    # first byte and end of each part that is needed, ascending; empty if that is all from `start`
    # to `stop`
    spans: tuple[tuple[int, int], ...] = ()
    fields: tuple[str, ...] = ()  # the fields of its table; empty for all

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First byte and end of each part that is needed."""
        return self.spans or ((self.start, self.stop),)

    @property
    def size(self) -> int:
        """Bytes that are needed."""
        return sum(stop - start for start, stop in self.ranges)


class Outline(Struct, frozen=True):
    """The facts about a shard that are known without its table."""

    stamp: FileStamp
    fields: tuple[Field, ...]
    labels: Labels
    sections: tuple[Section, ...]
