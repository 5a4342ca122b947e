"""Block files: files that consist of blocks. Pure: no I/O.

A block is a piece of a real file, kept as it is or compressed by a filter. `plan_blocks` returns
the pieces of real files and the blocks to expand that make up a batch of extents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from bushel._runtime.arrays import I32, I64, U8, U64, Bools, joined, offsets_of, ranges
from bushel.errors import FormatError, SpecError
from bushel.filters import MAX_BLOCK, get_filter

IN_TABLE = -1
"""Number of the file of blocks that are in the table itself (`Blocks.held`)."""

EXPANDED = -2
"""Number of the file of pieces of blocks that have to be expanded."""

STORED = "stored"
_BEFORE = 2  # number of blocks in the table that may belong to the block after them
_HINT = "run `bushel index --force` on the dataset"


class Side(Struct, frozen=True):
    """The inputs of filters apart from the stored bytes of each block.

    Attributes:
        offsets: int64[blocks + 1] or uint64[blocks + 1]; the side input of block `i` is
            `data[offsets[i]:offsets[i + 1]]`, none if that is empty.
        data: uint8[total].
    """

    offsets: I64 | U64
    data: U8

    def of(self, block: int) -> memoryview | None:
        """Return the side input of one block."""
        start, stop = int(self.offsets[block]), int(self.offsets[block + 1])
        return self.data[start:stop].data if stop > start else None


class Blocks(Struct, frozen=True):
    """The blocks of one block file: where the stored bytes of each are, and how they become its bytes.

    Attributes:
        start: int64[blocks + 1], position in the block file where each block begins, ascending from
            0; the last is the size of the block file.
        file: int32[blocks], number of the file of the shard that holds the stored bytes;
            `IN_TABLE`: they are in `held`.
        offset: int64[blocks], bytes from the start of that file, or of `held`.
        length: int64[blocks], number of stored bytes.
        filter: uint8[blocks], number in `filters`.
        filters: Names of filters; the blocks of `stored` are kept as they are.
        side: Side inputs of the filters, if any block has one.
        held: uint8[total], stored bytes that are in no file.
    """

    start: I64
    file: I32
    offset: I64
    length: I64
    filter: U8
    filters: tuple[str, ...]
    side: Side | None = None
    held: U8 | None = None

    @classmethod
    def of(
        cls,
        offset: I64,
        length: I64,
        sizes: I64 | None = None,
        name: str = STORED,
        *,
        file: I32 | None = None,
        held: U8 | None = None,
    ) -> Blocks:
        """Return blocks of the filter `name`, one after another: see the attributes.

        `sizes` is int64[blocks], the bytes that each expands to, by default its stored bytes.
        Without `file`, all of them are in the first file of the shard.
        """
        start = offsets_of(length if sizes is None else sizes)
        if file is None:
            file = np.zeros(len(offset), np.int32)
        return cls(
            start, file, offset, length, np.zeros(len(offset), np.uint8), (name,), None, held
        )

    @classmethod
    def in_table(cls, data: U8) -> Blocks:
        """Return the block file of bytes that a table holds itself: values in memory, which are in no file."""
        length, zero = np.array([len(data)], np.int64), np.zeros(1, np.int64)
        return cls.of(zero, length, file=np.full(1, IN_TABLE, np.int32), held=data)

    def __len__(self) -> int:
        return len(self.file)

    @property
    def size(self) -> int:
        """Size of the block file in bytes."""
        return int(self.start[-1])

    @property
    def sizes(self) -> I64:
        """int64[blocks], bytes of each block."""
        sizes: I64 = np.diff(self.start)
        return sizes

    def size_of(self, block: int) -> int:
        """Return the number of bytes of a block."""
        return int(self.start[block + 1] - self.start[block])

    def is_stored(self, block: I64) -> Bools:
        """Return bool[n], which of these blocks are kept as they are; `block` is int64[n], their numbers."""
        is_stored: Bools = np.array([name == STORED for name in self.filters], np.bool_)[
            self.filter[block]
        ]
        return is_stored

    def place(self, position: int, empty: int | None = None) -> tuple[int, int] | None:
        """Return the file and the offset where the byte at a position is stored; None if it is in no file.

        `empty` is the number of an empty value among those at the position: an empty file has a
        block without bytes.

        In a block that is stored as it is, it is the offset of the byte itself, otherwise the
        offset of the block. A position at the end is one after the last byte. For bytes that the
        table puts before the bytes of a file, such as the table before the packets of a frame, it
        is where these begin.
        """
        if not len(self):
            return None
        block = min(max(int(self.start.searchsorted(position, "right")) - 1, 0), len(self) - 1)
        if empty is not None:
            block = min(int(self.start.searchsorted(position, "left")) + empty, block)
        for candidate in range(block, min(block + 1 + _BEFORE, len(self))):
            if (file := int(self.file[candidate])) != IN_TABLE:
                is_plain = candidate == block and self.filters[self.filter[candidate]] == STORED
                return file, int(self.offset[candidate]) + (
                    position - int(self.start[candidate]) if is_plain else 0
                )
        return None

    def check(self, path: str, file_sizes: Sequence[int] | I64) -> Blocks:
        """Check a table that was read from a file.

        Args:
            path: The file, for the message of the error.
            file_sizes: Size of each file of the shard in bytes.

        Returns:
            The same blocks.

        Raises:
            FormatError: The blocks are not in order, not inside their files, larger than their
                stored bytes can be, or of an unknown filter.
        """
        if (problem := _problem(self, file_sizes)) is not None:
            raise FormatError(f"the table of blocks is damaged: {problem}", path, hint=_HINT)
        return self


def _problem(blocks: Blocks, file_sizes: Sequence[int] | I64) -> str | None:
    """Return a description of the first error in blocks, or None."""
    count = len(blocks.file)
    if blocks.start.shape != (count + 1,) or any(
        array.shape != (count,)
        for array in (blocks.file, blocks.offset, blocks.length, blocks.filter)
    ):
        return "its arrays have different lengths"
    if blocks.start[0] != 0 or (blocks.start[1:] < blocks.start[:-1]).any():
        return "the positions of blocks do not ascend from 0"
    sizes, held_bytes = blocks.sizes, 0 if blocks.held is None else len(blocks.held)
    limits = np.append(np.asarray(file_sizes, np.int64), held_bytes)  # IN_TABLE is the last
    if not ((blocks.file >= IN_TABLE) & (blocks.file < len(file_sizes))).all():
        return f"a block is in a file that the shard, which has {len(file_sizes)}, does not have"
    inside = (
        (blocks.offset >= 0)
        & (blocks.length >= 0)
        & (blocks.offset <= limits[blocks.file] - blocks.length)
    )
    if not inside.all():
        return f"block {int(inside.argmin())} is not inside its file"
    if not (blocks.filter < len(blocks.filters)).all():
        return "a block has a filter that is not listed"
    for number, name in enumerate(blocks.filters):
        blocks_of_filter = np.flatnonzero(blocks.filter == number)
        if name == STORED:
            wrong = sizes[blocks_of_filter] != blocks.length[blocks_of_filter]
        else:
            try:
                ratio = get_filter(name).ratio
            except SpecError as error:
                return str(error)
            wrong = sizes[blocks_of_filter] > MAX_BLOCK
            if ratio is not None:
                length = np.minimum(blocks.length[blocks_of_filter], MAX_BLOCK // ratio + 1)
                wrong |= sizes[blocks_of_filter] > length * ratio
        if wrong.any():
            block = int(blocks_of_filter[wrong.argmax()])
            return (
                f"block {block} ({name}) has {blocks.length[block]} stored bytes for {sizes[block]}"
            )
    if blocks.side is None:
        return None
    ends = blocks.side.offsets
    if (
        ends.shape != (count + 1,)
        or ends[0] != 0
        or ends[-1] != len(blocks.side.data)
        or (ends[1:] < ends[:-1]).any()
    ):
        return "the side inputs of blocks are not in order"
    return None


class BlockPlan(Struct, frozen=True):
    """The pieces that make up a batch of extents of one block file. The pieces of an extent follow each other."""

    row: I64  # int64[pieces], number of the extent of each, ascending
    at: I64  # int64[pieces], where the piece begins in the value, in bytes
    size: I64  # int64[pieces], more than 0
    file: I32  # int32[pieces], number of the real file; `IN_TABLE`, or `EXPANDED`
    # int64[pieces], bytes from the start of that file, of `held`, or of the expanded block
    offset: I64
    block: I64  # int64[pieces], for `EXPANDED` the place of its block in `expand`, otherwise -1
    expand: I64  # int64[blocks], numbers of the blocks to expand, ascending, each once


def plan_blocks(blocks: Blocks, offset: I64, length: I64) -> BlockPlan:
    """Plan how to read extents of a block file. Pure: no I/O.

    Args:
        blocks: The blocks.
        offset: int64[n], positions in the block file.
        length: int64[n]; extents of length 0 or less need nothing. The others are within the block
            file.
    """
    row = np.flatnonzero(length > 0)
    begin, end = offset[row], offset[row] + length[row]
    first = blocks.start.searchsorted(begin, "right") - 1
    count = blocks.start.searchsorted(end, "left") - first  # up to the block that has the last byte
    if len(row) and int(count.max()) > 1:
        row, begin, end = np.repeat(row, count), np.repeat(begin, count), np.repeat(end, count)
        block = ranges(first, count)
        start = blocks.start[block]
        from_, to = np.maximum(begin, start), np.minimum(end, blocks.start[block + 1])
        full = np.flatnonzero(to > from_)  # some blocks are empty
        row, begin, block, start, from_ = (
            row[full],
            begin[full],
            block[full],
            start[full],
            from_[full],
        )
        at, size = from_ - begin, to[full] - from_
    else:
        block, start, from_ = first, blocks.start[first], begin
        at, size = np.zeros(len(row), np.int64), end - begin
    stored = blocks.is_stored(block)
    inside = from_ - start
    place_among_expanded = np.full(len(block), -1, np.int64)
    if stored.all():
        return BlockPlan(
            row,
            at,
            size,
            blocks.file[block],
            blocks.offset[block] + inside,
            place_among_expanded,
            place_among_expanded[:0],
        )
    packed = block[~stored]
    ordered = np.sort(packed)  # np.unique would import numpy.ma
    expand = ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]
    place_among_expanded[~stored] = expand.searchsorted(packed)
    return BlockPlan(
        row,
        at,
        size,
        np.where(stored, blocks.file[block], np.int32(EXPANDED)),
        np.where(stored, blocks.offset[block] + inside, inside),
        place_among_expanded,
        expand,
    )


class BlockList(Struct):
    """The blocks of a block file that is being made."""

    starts: list[int] = field(default_factory=lambda: [0])
    offsets: list[int] = []
    lengths: list[int] = []
    filters: list[str] = []
    sides: list[bytes] = []

    def add(self, offset: int, length: int, size: int, name: str, side: bytes = b"") -> int:
        """Add a block, and return its position in the block file."""
        start = self.starts[-1]
        self.starts.append(start + size)
        self.offsets.append(offset)
        self.lengths.append(length)
        self.filters.append(name)
        self.sides.append(side)
        return start

    def blocks(self) -> Blocks:
        """Return the block file."""
        names = tuple(dict.fromkeys(self.filters))
        side = None
        if any(self.sides):
            data, ends = joined(self.sides)
            side = Side(ends, data)
        return Blocks(
            np.array(self.starts, np.int64),
            np.zeros(len(self.offsets), np.int32),
            np.array(self.offsets, np.int64),
            np.array(self.lengths, np.int64),
            np.array([names.index(name) for name in self.filters], np.uint8),
            names,
            side,
        )
