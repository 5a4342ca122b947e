"""Block files of a table: their arrays in a sidecar, the arrays of several shards as one, records without length words.

The arrays have names such as `__blocks__.0.start`, with the number of the block file. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from bushel._runtime.arrays import I64, concatenated, offsets_of
from bushel.errors import FormatError
from bushel.storage.blocks import IN_TABLE, STORED, Blocks, Side

from .shard import FileStamp
from .table import ShardIndex

_PARTS: dict[str, type[np.generic]] = {
    "start": np.int64,
    "file": np.int32,
    "offset": np.int64,
    "length": np.int64,
    "filter": np.uint8,
}


def arrays_of_blocks(blocks: Sequence[Blocks]) -> dict[str, np.ndarray]:
    """Return the arrays of the block files of a shard, by name.

    They are `start` (int64[blocks + 1]), `file` (int32[blocks]), `offset` and `length`
    (int64[blocks]), `filter` (uint8[blocks]), and where there are some `held` (uint8[bytes]),
    `side_offsets` and `side` (uint8[bytes]).
    """
    arrays: dict[str, np.ndarray] = {}
    for number, block_file in enumerate(blocks):
        name = f"__blocks__.{number}"
        arrays |= {f"{name}.{part}": getattr(block_file, part) for part in _PARTS}
        if block_file.held is not None:
            arrays[f"{name}.held"] = block_file.held
        if (side := block_file.side) is not None:
            arrays[f"{name}.side_offsets"] = side.offsets.astype(np.uint64)
            arrays[f"{name}.side"] = side.data
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def blocks_in(arrays: Any, number: int, filters: Sequence[str], sizes: Sequence[int]) -> Blocks:
    """Return the blocks of a block file, given its number, and the sizes of the files of the shard.

    `arrays` has the arrays of the sidecar.

    Raises:
        FormatError: The arrays do not describe blocks that are inside these files.
    """
    name, get = f"__blocks__.{number}", arrays.get
    count = len(get(f"{name}.file", np.int32))
    side = None
    if (data := arrays.optional(f"{name}.side", np.uint8)) is not None:
        side = Side(get(f"{name}.side_offsets", np.uint64, count + 1), data)
    start, file, offset, length, numbers = (
        get(f"{name}.{part}", dtype, count + (part == "start")) for part, dtype in _PARTS.items()
    )
    held = arrays.optional(f"{name}.held", np.uint8)
    blocks = Blocks(start, file, offset, length, numbers, tuple(filters), side, held)
    return blocks.check(arrays.path, sizes)


class JoinedBlocks(Struct):
    """The block file that is being made."""

    files: list[FileStamp] = []  # the files of all shards
    size: int = 0  # bytes of the block file so far
    held: int = 0  # bytes so far that the tables of the shards hold
    # names of the filters, with their numbers
    filters: dict[str, int] = field(default_factory=lambda: {STORED: 0})
    # the added blocks, as block files that follow one another
    parts: list[Blocks] = []

    def add(self, index: ShardIndex) -> dict[str, int]:
        """Add the files that hold the values of the fields of a shard.

        Returns:
            For each field, where its file begins in the block file.
        """
        first = len(self.files)
        self.files += index.files
        starts: dict[int, int] = {}
        for number in dict.fromkeys(extents.file for extents in index.fields.values()):
            starts[number] = self.size
            blocks = index.blocks_of(number)
            if blocks is None:  # a file is a block file of one block
                size, file = np.array([index.size_of(number)]), np.array([number], np.int32)
                blocks = Blocks.of(np.zeros(1, np.int64), size, file=file)
            self._add(blocks, first)
        return {name: starts[extents.file] for name, extents in index.fields.items()}

    def _add(self, blocks: Blocks, first: int) -> None:
        numbers = [self.filters.setdefault(name, len(self.filters)) for name in blocks.filters]
        in_table = blocks.file == IN_TABLE
        file = np.where(in_table, IN_TABLE, blocks.file + first).astype(np.int32)
        offset = np.where(in_table, blocks.offset + self.held, blocks.offset)
        filters = np.array(numbers, np.uint8)[blocks.filter]
        start, length = blocks.start + self.size, blocks.length
        self.parts.append(
            Blocks(start, file, offset, length, filters, (), blocks.side, blocks.held)
        )
        self.size += blocks.size
        self.held += 0 if blocks.held is None else len(blocks.held)

    def blocks(self) -> Blocks:
        """Return the block file."""
        starts = [part.start[:-1] for part in self.parts]
        in_table = [part.held for part in self.parts if part.held is not None]
        file, offset, length, filters = (
            concatenated([getattr(part, name) for part in self.parts], _PARTS[name])
            for name in ("file", "offset", "length", "filter")
        )
        return Blocks(
            np.append(concatenated(starts, np.int64), self.size),
            file,
            offset,
            length,
            filters,
            tuple(self.filters),
            self._side(),
            concatenated(in_table, np.uint8) if in_table else None,
        )

    def _side(self) -> Side | None:
        """Return the side inputs of all blocks; None if no block has one."""
        if all(part.side is None for part in self.parts):
            return None
        sizes = [
            np.zeros(len(part), np.int64)
            if part.side is None
            else np.diff(part.side.offsets.astype(np.int64))
            for part in self.parts
        ]
        offsets = offsets_of(np.concatenate(sizes))
        first = [part.side for part in self.parts if part.side is not None]
        data = [side.data[int(side.offsets[0]) : int(side.offsets[-1])] for side in first]
        return Side(offsets, concatenated(data, np.uint8))


# Records in pieces, as a block file: RecordIO files whose records have several parts. A record whose
# payload has the magic word of the format is split there. The word itself stands in the header of
# the next part, which consists of that word and the length of the part. So the payload is a
# concatenation of plain pieces of the file: only the length words of later parts are left out. The
# block file of such a file is the file without these words.

WORD = 4
"""Size of a length word in bytes."""

_MAGIC = (0xCED7230A).to_bytes(WORD, "little")
_LENGTH = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = 0, 1, 2, 3


def length_words(raw: bytes | memoryview) -> list[int]:
    """Return where the length words of the later parts of a record are.

    `raw` reaches from the header of the first part to the end of the last one.

    Raises:
        FormatError: These are not the parts of one record; `offset` is the offset of the wrong
            header in `raw`.
    """
    words: list[int] = []
    at = 0
    while True:
        word = int.from_bytes(raw[at + WORD : at + 2 * WORD], "little")
        flag, length = word >> 29, word & _LENGTH
        end = at + 2 * WORD + length
        fits = raw[at : at + WORD] == _MAGIC and flag in (
            (_WHOLE, _FIRST) if at == 0 else (_MIDDLE, _LAST)
        )
        last = flag in (_WHOLE, _LAST)
        if not fits or end > len(raw) or (not last and length % WORD):
            raise FormatError("its parts do not fit together", offset=at)
        if at:
            words.append(at + WORD)
        if last:
            if end != len(raw):
                raise FormatError("bytes follow its last part", offset=end)
            return words
        at = end


def blocks_without(size: int, words: Iterable[int] | I64) -> Blocks:
    """Return the block file that a file is without its length words.

    Args:
        size: Size of the file in bytes, which is the first of the shard.
        words: Offsets of the words, ascending.
    """
    left_out = np.array(words if isinstance(words, np.ndarray) else list(words), np.int64)
    offset = np.concatenate([np.zeros(1, np.int64), left_out + WORD])
    return Blocks.of(offset, np.append(left_out, np.int64(size)) - offset)


def words_of(blocks: Blocks) -> I64:
    """Return the offsets of the words that a block file leaves out."""
    return blocks.offset[1:] - WORD


def position_of(offset: I64, words: I64) -> I64:
    """Return the positions in the block file of bytes of the file, given their offsets."""
    return offset - WORD * np.searchsorted(words, offset)
