"""Open block files, and the pieces of real files that a batch of extents in any files consists of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count
from typing import Protocol

import numpy as np
from msgspec import Struct, field
from typing_extensions import Buffer

from bushel._runtime.arrays import I32, I64, NO_NUMBERS, U8
from bushel.filters import FilterError
from bushel.filters import expand as expand_block

from .base import ExtentError, Extents, File, check_extent, extent_error, filter_error
from .blocks import EXPANDED, IN_TABLE, STORED, Blocks, plan_blocks
from .expansion_cache import expansion_cache


class Closed(Protocol):
    """Very many real files, which are not kept open."""

    def files(self, numbers: Sequence[int], /) -> Sequence[File]:
        """Return the files of these numbers, or raise an `OSError`."""

    def read(self, numbers: I64, offset: I64, length: I64, /) -> list[bytes] | None:
        """Return the bytes of an extent of each file; None if one has to be read in another way."""


class BlockFile(Struct, frozen=True, eq=False):
    """An open block file. Its bytes are in blocks, which are in other files of the shard.

    Attributes:
        path: Its name in messages.
        blocks: Its blocks, which were checked.
        file: Returns the open real file of a number in `blocks.file`.
        mtime_ns: Modification time, 0 if unknown.
        closed: The real files, if they are very many that are not kept open.
        number: A number of its own.
    """

    path: str
    blocks: Blocks
    file: Callable[[int], File]
    mtime_ns: int = 0
    closed: Closed | None = None
    number: int = field(default_factory=count().__next__)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.blocks.size

    @classmethod
    def over(cls, file: File, blocks: Blocks) -> BlockFile:
        """Return the block file whose blocks are in one file."""
        return cls(file.path, blocks, lambda _: file, file.mtime_ns)

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent.

        Raises:
            ExtentError: The extent is not within the file, or a block of it cannot be
                expanded.
        """
        check_extent(self, offset, length)
        blocks = self.blocks
        block = int(blocks.start.searchsorted(offset, "right")) - 1
        whole = length > 0 and offset + length <= blocks.start[block + 1]
        if (
            whole
            and blocks.file[block] != IN_TABLE
            and blocks.filters[blocks.filter[block]] == STORED
        ):
            # the usual case: a piece of a file, as it is
            start = int(blocks.offset[block]) + offset - int(blocks.start[block])
            return self.file(int(blocks.file[block])).read(start, length)
        plan = plan_blocks(blocks, np.array([offset], np.int64), np.array([length], np.int64))
        parts: list[Buffer] = []
        for file, start, size, place in zip(
            plan.file.tolist(),
            plan.offset.tolist(),
            plan.size.tolist(),
            plan.block.tolist(),
            strict=True,
        ):
            if file == EXPANDED:
                parts.append(self.expanded(int(plan.expand[place]))[start : start + size].data)
            elif file == IN_TABLE:
                parts.append(self.held[start : start + size].data)
            else:
                parts.append(self.file(file).read(start, size))
        if len(parts) == 1 and isinstance(parts[0], bytes):
            return parts[0]
        return b"".join(parts)

    def read_closed(self, offset: I64, length: I64) -> list[bytes] | None:
        """Read extents, each an uncompressed piece of one of very many files that are not kept open.

        Args:
            offset: int64[n], bytes.
            length: int64[n], bytes.

        Returns:
            The bytes of each; None if one has to be read in another way, which also raises its
            error.
        """
        blocks = self.blocks
        if (
            self.closed is None
            or not ((offset >= 0) & (length > 0) & (offset <= self.size - length)).all()
        ):
            return None
        block = blocks.start.searchsorted(offset, "right") - 1
        inside, number = offset - blocks.start[block], blocks.file[block].astype(np.int64)
        pieces = (number >= 0) & (offset + length <= blocks.start[block + 1])
        if not (pieces & blocks.is_stored(block)).all():
            return None
        return self.closed.read(number, blocks.offset[block] + inside, length)

    @property
    def held(self) -> U8:
        """uint8[n], the stored bytes in the table."""
        if self.blocks.held is None:
            return np.empty(0, np.uint8)
        return self.blocks.held

    def name_of(self, block: int) -> Hashable:
        """Return the name of an expanded block in the cache. The name changes when the file is replaced."""
        blocks = self.blocks
        number = int(blocks.file[block])
        home: File = self
        if number != IN_TABLE:
            home = self.file(number)
        # without a time, the file is known to be the same while it is open only
        stamp = home.mtime_ns or f"open {self.number}"
        place = (int(column[block]) for column in (blocks.start, blocks.offset, blocks.length))
        return home.path, home.size, stamp, *place

    def expand(self, block: int, stored: Buffer) -> U8:
        """Expand a block, given its stored bytes.

        Returns:
            uint8[size of the block], read-only.

        Raises:
            FilterError: That is not possible.
        """
        blocks = self.blocks
        side = None if blocks.side is None else blocks.side.of(block)
        name, size = blocks.filters[blocks.filter[block]], blocks.size_of(block)
        expanded = expand_block(name, stored, size, side)
        expanded.flags.writeable = False
        return expanded

    def failure(self, row: int, block: int, error: FilterError) -> ExtentError:
        """Return the error for an extent in a block that cannot be expanded."""
        blocks = self.blocks
        number, offset = int(blocks.file[block]), int(blocks.offset[block])
        if number == IN_TABLE:
            where = self.path
        else:
            where = f"{self.file(number).path}@{offset}"
        what = f"block {block} ({where}): {error}"
        return filter_error(row, what, blocks.size_of(block), self.path)

    def expanded(self, block: int, row: int = 0) -> U8:
        """Return an expanded block, from the cache if possible.

        `row` is the number of the extent that needs it, for the error.

        Raises:
            ExtentError: It cannot be expanded, or its stored bytes are not in their file.
        """
        blocks = self.blocks
        number, start, length = (
            int(column[block]) for column in (blocks.file, blocks.offset, blocks.length)
        )

        def expand() -> U8:
            if number == IN_TABLE:
                return self.expand(block, self.held[start : start + length].data)
            return self.expand(block, self.file(number).read(start, length))

        try:
            return expansion_cache().obtain(self.name_of(block), expand)
        except FilterError as error:
            raise self.failure(row, block, error) from error


class PackedBlock(Struct, frozen=True):
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
        return self.file.blocks.size_of(self.block)

    @property
    def name(self) -> Hashable:
        """Name of the expanded block in the cache."""
        return self.file.name_of(self.block)


class Pieces(Struct, frozen=True):
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
    numbers = extents.numbers()
    real: list[File] = []
    place_of: dict[int, int] = {}
    tables: list[U8] = []
    packed: list[PackedBlock] = []
    columns: list[tuple[I32, I64, I64, I64, I64]] = []
    unknown = ((numbers < 0) | (numbers >= len(files))) & (extents.length != -1)
    if unknown.any():
        row = int(unknown.argmax())
        raise ValueError(f"file[{row}] is {numbers[row]}, but there are {len(files)} files")

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
                source = np.full(len(rows), place(file), np.int32)
                columns.append((source, offset, length, rows, np.zeros(len(rows), np.int64)))
            continue
        plan = plan_blocks(file.blocks, offset, length)
        homes = sorted(set(plan.file.tolist()))
        real_homes = [home for home in homes if home >= 0]
        place_of_home = {IN_TABLE: _TABLES + len(tables), EXPANDED: _PACKED + len(packed)}
        if file.closed is None:
            place_of_home |= {home: place(file.file(home)) for home in real_homes}
        else:  # objects that are new
            place_of_home |= zip(real_homes, count(len(real)), strict=False)
            real += file.closed.files(real_homes)
        source = np.array([place_of_home[home] for home in homes], np.int32)
        source = source[np.searchsorted(homes, plan.file)]
        if IN_TABLE in homes:
            tables.append(file.held)
        if EXPANDED in homes:
            expanded = np.flatnonzero(plan.file == EXPANDED)[::-1]
            source[expanded] += plan.block[expanded].astype(np.int32)
            first = np.empty(len(plan.expand), np.int64)
            # of several, the last that is written stays
            first[plan.block[expanded]] = rows[plan.row[expanded]]
            packed += _packed(file, plan.expand, first, place)
        columns.append((source, plan.offset, plan.size, rows[plan.row], plan.at))
    if not columns:
        nothing = NO_NUMBERS
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
