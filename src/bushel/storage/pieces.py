"""The pieces that a batch of extents consists of. Pieces are in real files: block files are resolved to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bushel._runtime.arrays import I32, I64, U8

from .base import Extents, File, extent_error
from .block_file import BlockFile
from .blocks import EXPANDED, IN_TABLE, plan_blocks


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """A block that has to be expanded."""

    file: BlockFile
    block: int  # its number in that
    row: int  # number of the first extent that needs it
    # number of the real file of its stored bytes in `Pieces.files`; `IN_TABLE` if they are in the
    # table
    home: int
    offset: int  # bytes from the start of that
    length: int  # number of stored bytes

    @property
    def size(self) -> int:
        """Size of the block when it is expanded."""
        start = self.file.blocks.start
        return int(start[self.block + 1] - start[self.block])


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a batch of extents, in any order."""

    files: list[File]  # the real files
    tables: list[U8]  # stored bytes that are in the tables of block files
    packed: list[PackedBlock]  # the blocks to expand, each once
    # int32[pieces], where each piece is: number of a file; then, on from the number of files, of
    # one of `tables`, and then of one of `packed`
    source: I32
    offset: I64  # int64[pieces], bytes from the start of that
    size: I64  # int64[pieces], more than 0
    row: I64  # int64[pieces], number of the extent
    at: I64  # int64[pieces], where the piece begins in the value, in bytes


def pieces_of(files: Sequence[File], extents: Extents) -> Pieces:
    """Return the pieces of a batch of extents.

    Raises:
        ExtentError: An extent is not in its file.
        OSError: A file of a block file cannot be opened.
    """
    if isinstance(extents.file, int):
        numbers = np.full(len(extents), extents.file, np.int32)
    else:
        numbers = extents.file
    real: list[File] = []
    place_of: dict[int, int] = {}
    tables: list[U8] = []
    packed: list[PackedBlock] = []
    columns: list[tuple[I32, I64, I64, I64, I64]] = []
    _check_numbers(numbers, extents, len(files))

    def place(file: File) -> int:
        if (position := place_of.get(id(file))) is None:
            position = place_of[id(file)] = len(real)
            real.append(file)
        return position

    for number, file in enumerate(files):
        rows = np.flatnonzero(numbers == number)
        check_inside(file, extents, rows)
        rows = rows[extents.length[rows] > 0]
        offset, length = extents.offset[rows], extents.length[rows]
        if not isinstance(file, BlockFile):
            if len(rows):
                columns.append(
                    (
                        np.full(len(rows), place(file), np.int32),
                        offset,
                        length,
                        rows,
                        np.zeros(len(rows), np.int64),
                    )
                )
            continue
        plan = plan_blocks(file.blocks, offset, length)
        source = np.empty(len(plan.row), np.int32)
        homes = sorted(set(plan.file.tolist()))
        real_homes = [home for home in homes if home >= 0]
        chosen = slice(None) if len(real_homes) == len(homes) else np.flatnonzero(plan.file >= 0)
        if real_homes:
            if file.closed is None:
                places = np.fromiter(
                    (place(file.file(home)) for home in real_homes), np.int32, len(real_homes)
                )
            else:  # objects that are new
                places = np.arange(len(real), len(real) + len(real_homes), dtype=np.int32)
                real += file.closed.files(real_homes)
            if len(real_homes) == 1:
                source[chosen] = places[0]
            else:
                source[chosen] = places[np.searchsorted(real_homes, plan.file[chosen])]
        for home in homes[: len(homes) - len(real_homes)]:
            chosen = slice(None) if len(homes) == 1 else plan.file == home
            if home == EXPANDED:
                source[chosen] = _PACKED + len(packed) + plan.block[chosen]
                first = np.empty(len(plan.expand), np.int64)
                # of several, the last that is written stays
                first[plan.block[chosen][::-1]] = rows[plan.row[chosen]][::-1]
                packed += _packed(file, plan.expand, first, place)
            else:
                source[chosen] = _TABLES + len(tables)
                tables.append(file.held)
        columns.append((source, plan.offset, plan.size, rows[plan.row], plan.at))
    if not columns:
        nothing = np.empty(0, np.int64)
        columns.append((np.empty(0, np.int32), nothing, nothing, nothing, nothing))
    source, *rest = map(np.concatenate, zip(*columns, strict=True))
    source[source >= _PACKED] += np.int32(len(real) + len(tables) - _PACKED)
    source[source >= _TABLES] += np.int32(len(real) - _TABLES)
    return Pieces(real, tables, packed, source, *rest)


def _packed(
    file: BlockFile, expand: I64, row: I64, place: Callable[[File], int]
) -> Iterator[PackedBlock]:
    blocks = file.blocks
    columns = (expand, row, blocks.file[expand], blocks.offset[expand], blocks.length[expand])
    for block, first, home, offset, length in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        number = IN_TABLE if home == IN_TABLE else place(file.file(home))
        yield PackedBlock(file, block, first, number, offset, length)


# numbers above the numbers of all files, until the count of files is known
_TABLES, _PACKED = 1 << 29, 1 << 30


def _check_numbers(numbers: I32, extents: Extents, files: int) -> None:
    """Check that each extent that is not missing is in one of the files."""
    unknown = ((numbers < 0) | (numbers >= files)) & (extents.length != -1)
    if unknown.any():
        row = int(unknown.argmax())
        raise ValueError(f"file[{row}] is {numbers[row]}, but there are {files} files")


def check_inside(file: File, extents: Extents, rows: I64) -> None:
    """Check that extents are in their file. Raise ExtentError if one does not."""
    offset, length = extents.offset[rows], extents.length[rows]
    bad = (length != -1) & (
        (offset < 0) | (length < 0) | (length > file.size) | (offset > file.size - length)
    )
    if bad.any():
        row = int(rows[int(bad.argmax())])
        raise extent_error(
            row, "beyond", int(extents.offset[row]) + int(extents.length[row]), file.size, file.path
        )
