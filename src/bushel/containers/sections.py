"""Containers in which parts of a file can be indexed on their own, so that a remote file is read only when needed.

A *section* is a run of samples whose bytes lie together in one file. The sections of a file must be
known from a small part of it, such as a footer or a table of offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bushel._index.class_names import Labels
from bushel._index.table import FileStamp, Shard, ShardIndex
from bushel.containers.base import ReadOptions
from bushel.spec import Field
from bushel.storage import File


@dataclass(frozen=True, slots=True)
class Section:
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


@dataclass(frozen=True, slots=True)
class Outline:
    """The facts about a shard that are known without its table."""

    stamp: FileStamp
    fields: tuple[Field, ...]
    labels: Labels
    sections: tuple[Section, ...]


@runtime_checkable
class HasSections(Protocol):
    """A container whose shards are one file each, that can be indexed section by section."""

    def outline(self, shard: Shard, /) -> Outline:
        """Return the facts about a remote shard, after one or two requests.

        Raises:
            FormatError: The file is damaged.
        """
        ...

    def narrowed(self, section: Section, names: Collection[str], /) -> Section:
        """Return a section with only these fields, which needs only their bytes."""
        ...

    def index_section(
        self, shard: Shard, section: Section, file: File, options: ReadOptions, /
    ) -> ShardIndex:
        """Return the table of the samples of one section. Offsets count from the start of the file.

        The bytes of the section are in memory, unless they are very many.

        Raises:
            FormatError: The file is damaged.
        """
        ...
