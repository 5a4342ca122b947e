"""Open block files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bushel._runtime.arrays import I64, U8
from bushel.filters import FilterError
from bushel.filters import expand as expand_block

from .base import ExtentError, File, extent_error, filter_error
from .blocks import EXPANDED, IN_TABLE, Blocks, plan_blocks
from .expansion_cache import expansion_cache

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TOKENS = count()


class Closed(Protocol):
    """Very many real files, which are not kept open."""

    def files(self, numbers: Sequence[int], /) -> Sequence[File]:
        """Return the files of these numbers, or raise an `OSError`."""
        ...

    def read(self, numbers: I64, offset: I64, length: I64, /) -> list[bytes] | None:
        """Return the bytes of an extent of each file; None if one has to be read in another way."""
        ...


class BlockFile:
    """An open block file. Its bytes are in blocks, which are in other files of the shard.

    Args:
        path: Its name in messages.
        blocks: Its blocks, which were checked.
        file: Returns the open real file of a number in `blocks.file`.
        mtime_ns: Modification time, 0 if unknown.
        closed: The real files, if they are very many that are not kept open.

    Attributes:
        path, blocks, file, mtime_ns, closed: As given.
        size: Size in bytes.
    """

    __slots__ = ("_token", "blocks", "closed", "file", "mtime_ns", "path", "size")

    def __init__(
        self,
        path: str,
        blocks: Blocks,
        file: Callable[[int], File],
        mtime_ns: int = 0,
        closed: Closed | None = None,
    ) -> None:
        self.path, self.blocks, self.file, self.mtime_ns = path, blocks, file, mtime_ns
        self.size, self.closed = blocks.size, closed
        self._token = f"open {next(_TOKENS)}"

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
        if offset < 0 or length < 0 or offset > self.size - length:
            raise extent_error(0, "beyond", offset + length, self.size, self.path)
        blocks = self.blocks
        block = int(blocks.start.searchsorted(offset, "right")) - 1
        whole = length > 0 and offset + length <= blocks.start[block + 1]
        if (
            whole
            and blocks.file[block] != IN_TABLE
            and blocks.filters[blocks.filter[block]] == "stored"
        ):
            # the usual case: a piece of a file, as it is
            inside = offset - int(blocks.start[block])
            return self.file(int(blocks.file[block])).read(
                int(blocks.offset[block]) + inside, length
            )
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
        home = self if number == IN_TABLE else self.file(number)
        # without a time, the file is known to be the same while it is open only
        stamp = home.mtime_ns or self._token
        return (
            home.path,
            home.size,
            stamp,
            int(blocks.start[block]),
            int(blocks.offset[block]),
            int(blocks.length[block]),
        )

    def expand(self, block: int, stored: Buffer) -> U8:
        """Expand a block, given its stored bytes.

        Returns:
            uint8[size of the block], read-only.

        Raises:
            FilterError: That is not possible.
        """
        blocks = self.blocks
        side = None if blocks.side is None else blocks.side.of(block)
        size = int(blocks.start[block + 1] - blocks.start[block])
        expanded = expand_block(blocks.filters[blocks.filter[block]], stored, size, side)
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
        size = int(blocks.start[block + 1] - blocks.start[block])
        return filter_error(row, f"block {block} ({where}): {error}", size, self.path)

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
