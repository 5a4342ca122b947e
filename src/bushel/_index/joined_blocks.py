"""One block file of the files and block files of several shards, one after another. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bushel._runtime.arrays import offsets_of
from bushel.storage.blocks import IN_TABLE, STORED, Blocks, Side

from .table import FileStamp, ShardIndex


@dataclass(slots=True)
class JoinedBlocks:
    """The block file that is being made."""

    files: list[FileStamp] = field(default_factory=list)  # the files of all shards
    size: int = 0  # bytes of the block file so far
    held: int = 0  # bytes so far that the tables of the shards hold
    # names of the filters, with their numbers
    filters: dict[str, int] = field(default_factory=lambda: {STORED: 0})
    # the added blocks, as block files that follow one another
    parts: list[Blocks] = field(default_factory=list)

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
            self._add(
                _whole_file(number, index.size_of(number)) if blocks is None else blocks, first
            )
        return {name: starts[extents.file] for name, extents in index.fields.items()}

    def _add(self, blocks: Blocks, first: int) -> None:
        numbers = [self.filters.setdefault(name, len(self.filters)) for name in blocks.filters]
        in_table = blocks.file == IN_TABLE
        bytes_in_table = 0 if blocks.held is None else len(blocks.held)
        self.parts.append(
            Blocks(
                blocks.start + self.size,
                np.where(in_table, np.int32(IN_TABLE), blocks.file + np.int32(first)).astype(
                    np.int32
                ),
                np.where(in_table, blocks.offset + self.held, blocks.offset),
                blocks.length,
                np.array(numbers, np.uint8)[blocks.filter],
                (),
                blocks.side,
                blocks.held,
            )
        )
        self.size += blocks.size
        self.held += bytes_in_table

    def blocks(self) -> Blocks:
        """Return the block file."""
        starts = [part.start[:-1] for part in self.parts]
        in_table = [part.held for part in self.parts if part.held is not None]
        return Blocks(
            np.concatenate([*starts, np.array([self.size], np.int64)]),
            _joined([part.file for part in self.parts], np.int32),
            _joined([part.offset for part in self.parts], np.int64),
            _joined([part.length for part in self.parts], np.int64),
            _joined([part.filter for part in self.parts], np.uint8),
            tuple(self.filters),
            self._side(),
            _joined(in_table, np.uint8) if in_table else None,
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
        return Side(offsets, _joined(data, np.uint8))


def _joined(arrays: list[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _whole_file(number: int, size: int) -> Blocks:
    """Return a file of a shard as a block file of one block."""
    return Blocks.of(
        np.zeros(1, np.int64), np.array([size], np.int64), file=np.array([number], np.int32)
    )
