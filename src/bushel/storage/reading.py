"""Reading batches of extents from files of any kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._runtime.arrays import I64, U8, U32

from .base import ExtentError, Extents, File, StoredObject, extent_error

if TYPE_CHECKING:
    from .block_file import Pieces
    from .fetch import Held

T = TypeVar("T")


def read_many(
    files: Sequence[File], extents: Extents, held: Held | None = None
) -> list[bytes | None]:
    """Read a batch of extents: local ones in one call, others in few coalesced requests.

    Args:
        files: The files to which the numbers in `extents.file` refer.
        extents: The extents to read. Values with a `crc32` are compared with it.
        held: Bytes that need not be requested.

    Returns:
        The bytes of each extent in order, None for one of length -1.

    Raises:
        ExtentError: An extent is not in its file, is in a block that cannot be expanded, or
            does not match its CRC; `row` is its number.
    """
    if _are_mapped(files):
        return kernels.read_many(
            list(files), extents.numbers(), extents.offset, extents.length, extents.crc32
        )
    if len(files) == 1 and extents.crc32 is None:
        from .block_file import BlockFile

        file = files[0]
        if isinstance(file, BlockFile) and not extents.numbers().any():
            # of very many files that are not kept open; None if they are not, or not all there
            closed = file.read_closed(extents.offset, extents.length)
            if closed is not None:
                return [*closed]
    batch = _Batch.of(files, extents, held)
    whole, length = batch.whole(), extents.length
    if whole:
        length = length.copy()
        length[list(whole)] = -1
    values = _named(
        files, extents, lambda: kernels.read_pieces(*batch.arguments(length, extents.crc32, whole))
    )
    for row, value in whole.items():
        values[row] = value
        if extents.crc32 is not None:
            computed, expected = kernels.crc32(value), int(extents.crc32[row])
            if computed != expected:
                path = files[extents.file_of(row)].path
                raise extent_error(row, "checksum", expected, computed, path)
    return values


def gather(files: Sequence[File], extents: Extents) -> tuple[U8, I64]:
    """Read a batch of extents into one buffer.

    Returns:
        buffer: uint8[total].
        offsets: int64[n + 1]; extent `i` is `buffer[offsets[i]:offsets[i + 1]]`. A missing one is
        empty.

    Raises:
        ExtentError: As `read_many`.
    """
    if _are_mapped(files):
        return kernels.gather(
            list(files), extents.file, extents.offset, extents.length, extents.crc32
        )
    if extents.crc32 is None and all(isinstance(file, StoredObject) for file in files):
        from .fetch import gather_objects

        return gather_objects(files, extents)
    batch = _Batch.of(files, extents, None)
    return _named(
        files,
        extents,
        lambda: kernels.gather_pieces(*batch.arguments(extents.length, extents.crc32, {})),
    )


def checksums_of(files: Sequence[File], extents: Extents) -> U32:
    """Return the CRC-32 of extents. Bytes in mapped files are not copied, also of block files.

    Returns:
        uint32[n]; 0 for a missing or empty value.

    Raises:
        ExtentError: As `read_many`.
    """
    if _are_mapped(files):
        return kernels.crc32_many(list(files), extents.file, extents.offset, extents.length)
    from .block_file import pieces_of

    pieces = pieces_of(files, extents)
    if not (pieces.tables or pieces.packed) and _are_mapped(pieces.files):
        try:
            sums = kernels.crc32_many(pieces.files, pieces.source, pieces.offset, pieces.size)
        except ExtentError as error:
            row = int(pieces.row[error.row])
            path = files[extents.file_of(row)].path
            raise extent_error(row, error.reason, error.expected, error.found, path) from error
        return _joined(pieces, sums, len(extents))
    data, offsets = gather(files, extents)
    return kernels.crc32_rows(data, offsets)


def _joined(pieces: Pieces, sums: U32, rows: int) -> U32:
    """Return the CRC-32 of each value, given that of each of its pieces."""
    crc32 = np.zeros(rows, np.uint32)
    crc32[pieces.row] = sums
    if len(pieces.row) == np.count_nonzero(np.bincount(pieces.row)):  # each value is one piece
        return crc32
    order = np.lexsort((pieces.at, pieces.row))
    row, sums, size = pieces.row[order], sums[order], pieces.size[order]
    later = np.append(False, row[1:] == row[:-1])
    crc32[row[~later]] = sums[~later]
    for row_of_value, rest, length in zip(
        row[later].tolist(), sums[later].tolist(), size[later].tolist(), strict=True
    ):
        crc32[row_of_value] = kernels.join_crc32(int(crc32[row_of_value]), rest, length)
    return crc32


class _Batch(Struct, frozen=True):
    """The pieces of a batch, and the bytes of them that are in memory."""

    pieces: Pieces
    extents: Extents  # the extents that they are pieces of
    # the bytes of pieces in files that are not mapped, by the number of the piece
    far: dict[int, bytes]
    expanded: list[U8]  # the blocks of `pieces.packed`

    @classmethod
    def of(cls, files: Sequence[File], extents: Extents, held: Held | None) -> _Batch:
        """Plan a batch, and fetch the pieces that are not in mapped files."""
        from .block_file import pieces_of
        from .fetch import fetch

        pieces = pieces_of(files, extents)
        return cls(pieces, extents, *fetch(pieces, held))

    def whole(self) -> dict[int, bytes]:
        """Return the values that were fetched in one piece, by their row."""
        numbers = np.fromiter(self.far, np.int64, len(self.far))
        rows = self.pieces.row[numbers]
        alone = np.flatnonzero(self.pieces.size[numbers] == self.extents.length[rows])
        return {
            row: self.far[number]
            for row, number in zip(rows[alone].tolist(), numbers[alone].tolist(), strict=True)
        }

    def arguments(
        self, length: I64, crc32: U32 | None, without: Collection[int]
    ) -> tuple[Any, ...]:
        """Return the arguments of the kernels, for all values but some rows."""
        pieces, source, offset = self.pieces, self.pieces.source.copy(), self.pieces.offset.copy()
        far = np.fromiter(self.far, np.int64, len(self.far))
        buffers: list[U8 | bytes] = [*pieces.tables, *self.expanded]
        source[far] = len(pieces.files) + len(buffers) + np.arange(len(far))
        offset[far] = 0
        buffers += self.far.values()
        columns = (source, offset, pieces.size, pieces.row, pieces.at)
        if without:
            rows = np.zeros(len(length), np.bool_)
            rows[list(without)] = True
            rows_left = np.flatnonzero(~rows[pieces.row])
            columns = tuple(column[rows_left] for column in columns)  # type: ignore[assignment]
        return pieces.files, buffers, length, crc32, *columns


def _named(files: Sequence[File], extents: Extents, read: Callable[[], T]) -> T:
    """Call a kernel, and add the file to its error of a wrong checksum."""
    try:
        return read()
    except ExtentError as error:
        if error.reason == "checksum":
            path = files[extents.file_of(error.row)].path
            raise extent_error(error.row, "checksum", error.expected, error.found, path) from None
        raise


def _are_mapped(files: Sequence[File]) -> TypeGuard[list[kernels.MappedFile]]:
    """Return whether all files are mapped, so that a kernel reads them."""
    return all(isinstance(file, kernels.MappedFile) for file in files)
