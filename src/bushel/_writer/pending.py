"""Small samples that `append` has accepted, and that a shard writer frames together."""

from __future__ import annotations

from typing import Final

from bushel._index.builders import IndexBuilder
from bushel.codecs import get_codec
from bushel.containers.base import ColumnLimits, Layout
from bushel.containers.stored_column import StoredColumn
from bushel.kernels import SampleBuffer
from bushel.spec import KEY

__all__ = ["ADDED", "PendingSamples"]

ADDED: Final = 1
"""`add` has taken the sample, and can take another one."""


class PendingSamples:
    """Samples of a shard that follow those in its index builder.

    A sample is checked and encoded when it is added, so that writing it later can fail only as writing to a file can.

    Args:
        limits: The samples that the shard writer's `extend` takes.
        layout: How samples are stored.
        builder: The index of the samples that are written.
        numbered: Whether a sample without a key gets its position as its key.

    Attributes:
        add: `SampleBuffer.add`. It takes no sample before `restart`. It returns 0 for a sample that has to be written
            in another way, or that is invalid, and 2 if it has taken the last one before all have to be written.
    """

    __slots__ = ("_buffer", "_builder", "_first", "add")

    def __init__(self, limits: ColumnLimits, layout: Layout, builder: IndexBuilder, *, numbered: bool) -> None:
        fields = [(column.field.name, get_codec(column.codec).encode) for column in layout.columns]
        keyed = layout.options.keyed
        self._buffer = SampleBuffer(fields, KEY, keyed, numbered, limits.longest_key, limits.refused_start)
        self._builder = builder
        self._first = 0
        self.add = self._buffer.add

    @property
    def end(self) -> int:
        """Number of samples in the shard when these are written."""
        return max(self._first + self._buffer.count, self._builder.samples)

    def restart(self, samples: int, size: int, seconds: float) -> None:
        """Take samples until the shard has this many more, or might have this many more bytes, or this time has passed.

        All earlier ones are written.
        """
        self._first = self._builder.samples
        self._buffer.restart(samples, size, seconds)

    def rows(self) -> tuple[StoredColumn | None, dict[str, StoredColumn]] | None:
        """Return keys and columns of the samples that are not written; None if all are.

        They are counted by the builder's samples, so a sample is not written twice if Ctrl-C comes in between.
        """
        if (written := self._builder.samples - self._first) >= self._buffer.count:
            return None
        keys, columns = self._buffer.rows(written)
        return (
            None if keys is None else StoredColumn(*keys),
            {name: StoredColumn(*column) for name, column in columns.items()},
        )

    def drop_last(self) -> str | None:
        """Forget the last sample if it is not written, and return its key."""
        return self._buffer.drop_last() if self.end > self._builder.samples else None
