"""Builders: the table of a shard while the shard is being written, row by row."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64, U8, U32, if_any
from bushel._runtime.public import public
from bushel.errors import FormatError
from bushel.spec import Field

from .shard import FileStamp, Keys
from .table import MISSING, FieldExtents, ShardIndex

if TYPE_CHECKING:
    from bushel.storage import Blocks


@public("bushel.containers")
class FieldBuilder:
    """The extents of a field under construction. They grow row by row, and the last rows can be removed again."""

    __slots__ = ("absent", "codec", "crc32", "field", "file", "length", "offset", "starts")

    def __init__(self, field: Field, codec: str, file: int) -> None:
        self.field, self.codec, self.file = field, codec, file
        self.offset, self.length, self.crc32 = array("q"), array("q"), array("I")
        self.starts = array("q", [0]) if field.sequence else None
        self.absent = array("b")  # of a sequence field

    def add(self, offset: int, length: int, crc32: int) -> None:
        """Add one extent: the field's value, or the next element of its list."""
        self.offset.append(offset)
        self.length.append(length)
        self.crc32.append(crc32)

    def add_rows(self, offset: I64, length: I64, crc32: U32) -> None:
        """Add many extents: of samples to a plain column, of elements to one of sequences."""
        for growing, rows in ((self.offset, offset), (self.length, length), (self.crc32, crc32)):
            growing.frombytes(np.ascontiguousarray(rows).view(np.uint8).data)

    def close_sample(self, samples: int) -> None:
        """Complete sample number `samples`: a plain field that was not added is missing."""
        if self.starts is not None:
            if len(self.absent) <= samples:
                self.absent.append(0)
            self.starts.append(len(self.offset))
        elif len(self.offset) <= samples:
            self.add(0, MISSING, 0)

    def mark_absent(self) -> None:
        """Mark this sequence field as missing in the sample being added. An empty list is not missing."""
        if self.starts is not None:
            self.absent.append(1)

    def truncate(self, samples: int) -> None:
        """Truncate to the first `samples` samples."""
        rows = samples if self.starts is None else self.starts[samples]
        for values in (self.offset, self.length, self.crc32):
            del values[rows:]
        if self.starts is not None:
            del self.starts[samples + 1 :], self.absent[samples:]

    def load(self, column: FieldExtents) -> None:
        """Add the rows of a finished column."""
        self.add_rows(column.offset, column.length, column.checksums)
        if self.starts is not None and column.starts is not None:
            self.starts.frombytes(column.starts[1:].tobytes())
            self.absent.frombytes(column.empty_and_absent[1].astype(np.int8).tobytes())

    def miss(self, samples: int) -> None:
        """Add a number of samples that lack this field."""
        for sample in range(samples):
            self.mark_absent()
            self.close_sample(sample)

    def build(self) -> FieldExtents:
        """Return the finished column, which has the memory of this one."""
        starts = absent = None
        if self.starts is not None:
            starts = np.frombuffer(self.starts, np.int64)
            absent = if_any(np.array(self.absent, np.bool_))
        return FieldExtents(
            self.field,
            self.codec,
            self.file,
            np.frombuffer(self.offset, np.int64),
            np.frombuffer(self.length, np.int64),
            np.frombuffer(self.crc32, np.uint32),
            starts,
            absent,
        )


@public("bushel.containers")
class IndexBuilder:
    """The table of a shard under construction.

    Attributes:
        container: Name of the container.
        columns: One builder per field.
        samples: Number of complete samples.
        left_out: For each length word that is left out of the first file (`block_arrays`), the
            number of its sample and its offset. If there are any, the extents are positions in the
            file without them.
    """

    def __init__(self, container: str, columns: Iterable[FieldBuilder], *, keyed: bool) -> None:
        self.container = container
        self.columns = {column.field.name: column for column in columns}
        self.samples = 0
        self.left_out: list[tuple[int, int]] = []
        self._text = bytearray()
        self._ends = array("q", [0]) if keyed else None

    @property
    def keyed(self) -> bool:
        """Whether samples carry keys of their own."""
        return self._ends is not None

    def key_arrays(self) -> tuple[U8, I64]:
        """Return the UTF-8 of all keys, and int64[samples + 1]; key `i` is `text[offsets[i]:offsets[i + 1]]`.

        Nothing is copied, so no sample can be added or removed while the arrays exist.
        """
        ends = self._ends or array("q", [0])
        return np.frombuffer(self._text, np.uint8), np.frombuffer(ends, np.int64)

    def close_sample(self, key: str | None) -> None:
        """Complete a sample whose extents have been added to the columns."""
        for column in self.columns.values():
            if column.starts is not None or len(column.offset) <= self.samples:
                column.close_sample(self.samples)
        if self._ends is not None:
            self._text += (key or "").encode("utf-8", "surrogateescape")
            self._ends.append(len(self._text))
        self.samples += 1

    def close_samples(self, count: int, keys: Any) -> None:
        """Complete samples whose extents have been added to all columns, which are plain.

        Args:
            count: Number of samples.
            keys: The keys that `ShardWriter.extend` was given, of these samples and perhaps others.
        """
        if self._ends is not None:
            keys = keys.rows(0, count)
            self._ends.frombytes((keys.ends + len(self._text)).tobytes())
            self._text += keys.content.data
        self.samples += count

    def truncate(self, samples: int) -> None:
        """Truncate to the first `samples` samples and drop an unfinished one."""
        for column in self.columns.values():
            column.truncate(samples)
        self.left_out = [word for word in self.left_out if word[0] < samples]
        if self._ends is not None:
            del self._ends[samples + 1 :]
            del self._text[self._ends[samples] :]
        self.samples = samples

    def load(self, index: ShardIndex) -> None:
        """Add the rows of a finished table, whose columns must have checksums."""
        for name, builder in self.columns.items():
            if (column := index.fields.get(name)) is None:
                builder.miss(index.samples)
            else:
                builder.load(column)
        for blocks in index.blocks:
            from .block_arrays import words_of

            if blocks.filters != ("stored",) or blocks.held is not None:
                raise FormatError(
                    "the shard has values that are not stored "
                    "as they are, so Bushel cannot append to it",
                    index.files[0].name,
                    hint="write a new dataset with `bushel convert` first",
                )
            self.left_out += [(-1, word) for word in words_of(blocks).tolist()]
        if self._ends is not None and index.keys is not None:
            self._text += index.keys.text.tobytes()
            self._ends.frombytes(index.keys.offsets[1:].tobytes())
        self.samples = index.samples

    def build(self, files: Sequence[FileStamp]) -> ShardIndex:
        """Return the finished table of the shard, given the shard's files as they are now.

        The table has the memory of the builder, which takes no more samples.
        """
        fields = {name: builder.build() for name, builder in self.columns.items()}
        blocks: tuple[Blocks, ...] = ()
        if self.left_out:
            from .block_arrays import blocks_without

            blocks = (blocks_without(files[0].size, [word for _, word in self.left_out]),)
            fields = {name: replace(extents, file=len(files)) for name, extents in fields.items()}
        keys = None
        if self._ends is not None:
            keys = Keys.build(*self.key_arrays())
        return ShardIndex(self.samples, tuple(files), fields, self.container, keys, blocks=blocks)
