"""Small samples that `append` has accepted, and that a shard writer frames together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from bushel._index.builders import IndexBuilder
from bushel.codecs import get_codec
from bushel.containers.base import ColumnLimits, Layout, Stored
from bushel.containers.stored_column import StoredColumn
from bushel.kernels import KeySet, SampleBuffer
from bushel.spec import KEY

_FOREVER = 1e6  # seconds
_LARGE = 1 << 15  # bytes of a sample above which `SampleBuffer` does not take it


class Room(NamedTuple):
    """Room for further samples before they have to be written."""

    samples: int
    size: int  # bytes that the shard might have more with them


class PendingSamples:
    """Samples of a shard that follow those in its index builder.

    A sample is checked and encoded when it is added, so that writing it later can fail only as
    writing to a file can.

    Args:
        limits: The samples that the shard writer's `extend` takes.
        layout: How samples are stored.
        builder: The index of the samples that are written.
        numbered: Whether a sample without a key gets its position as its key.

    Attributes:
        add: `SampleBuffer.add`, which threads may call at once. It takes no sample before
            `restart`. It returns the position of the sample; -1 for one that has to be written in
            another way, or that is invalid; and -2 minus the position if it has taken the last one
            before all have to be written.
        pause: Take no more samples until `restart`, and return the number of samples in the
            dataset, these included.
    """

    __slots__ = ("_buffer", "_builder", "_first", "add", "pause")

    def __init__(
        self, limits: ColumnLimits, layout: Layout, builder: IndexBuilder, *, numbered: bool
    ) -> None:
        fields = [(column.field.name, get_codec(column.codec).encode) for column in layout.columns]
        keyed = layout.options.keyed
        self._buffer = SampleBuffer(
            fields, KEY, keyed, numbered, limits.longest_key, limits.refused_start
        )
        self._builder = builder
        self._first = 0
        self.add, self.pause = self._buffer.add, self._buffer.pause

    @property
    def end(self) -> int:
        """Number of samples in the shard when these are written."""
        return max(self._first + self._buffer.count, self._builder.samples)

    @property
    def is_empty(self) -> bool:
        """Whether no sample was added since the last `restart` or `clear`."""
        return self._buffer.count == 0

    @property
    def next(self) -> int:
        """Position in the dataset of the sample that is added next."""
        return self._buffer.next

    def takes(self, values: Mapping[str, Stored]) -> bool:
        """Return whether a sample of this size is taken. Larger ones are written alone."""
        return sum(len(cast("bytes", value)) for value in values.values()) <= _LARGE

    def ends_with(self, position: int) -> bool:
        """Return whether the sample at a position is the last one, and not written yet."""
        return self._buffer.next == position + 1 and self.end > self._builder.samples

    def clear(self) -> None:
        """Forget the samples, which are written, and take no others."""
        self._first = self._builder.samples
        self._buffer.clear()

    def restart(self, room: Room, position: int, number: int, known: KeySet | None) -> None:
        """Take samples. All earlier ones are written.

        Args:
            room: How many.
            position: Position in the dataset of the next one.
            number: A sample without a key gets its position and this number, added up, as its key.
            known: All keys of the dataset, to which the keys of the samples are added. None if they
                are numbers of this kind: then samples with a key of their own are not taken.
        """
        self._first = self._builder.samples
        self._buffer.restart(*room, _FOREVER, position, number, known)

    def rows(self) -> tuple[StoredColumn | None, dict[str, StoredColumn]] | None:
        """Return keys and columns of the samples that are not written; None if all are.

        They are counted by the builder's samples, so a sample is not written twice if Ctrl-C comes
        in between.
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
        if self.end > self._builder.samples:
            return self._buffer.drop_last()
        return None
