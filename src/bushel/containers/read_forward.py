"""Read a file from front to back, plain or compressed, with memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.kernels import MappedFile
from bushel.storage import BlockFile, File

_CHUNK = 1 << 20
"""Bytes of a local file that are scanned at a time: the scan finds them in the processor's cache."""

_CHUNK_OF_REQUEST = 1 << 22


class _Local:
    """Reads a local file into memory that is used again, since new memory takes more time than reading."""

    def __init__(self, file: MappedFile) -> None:
        self._file, self._data = file, np.empty(0, np.uint8)

    def read(self, at: int, length: int) -> memoryview:
        """Return bytes, until the next call."""
        if len(self._data) != length:
            self._data = np.empty(length, np.uint8)
        self._file.read_into(at, self._data)
        return self._data.data


class _Expanded:
    """Reads a compressed file from front to back. Expanded blocks are not kept, unlike those that values are in."""

    def __init__(self, real: File, blocks: BlockFile) -> None:
        self._real, self._blocks, self._block = real, blocks, 0
        # where each expanded block begins, and its bytes
        self._held: list[tuple[int, memoryview]] = []

    def read(self, at: int, length: int) -> bytes | memoryview:
        """Return bytes that begin at or after the bytes of the last call: a large block is not copied for each call.

        Raises:
            FormatError: A block cannot be expanded.
        """
        self._held = [(start, data) for start, data in self._held if start + len(data) > at]
        while not self._held or self._held[-1][0] + len(self._held[-1][1]) < at + length:
            number, self._block = self._block, self._block + 1
            start, data = int(self._blocks.blocks.start[number]), self._expanded(number)
            if start + len(data) > at:
                self._held.append((start, data))
        parts = [data[max(at - start, 0) : at + length - start] for start, data in self._held]
        if len(parts) == 1:
            return parts[0]
        return b"".join(parts)

    def _expanded(self, number: int) -> memoryview:
        blocks, real = self._blocks.blocks, self._real
        offset = int(blocks.offset[number])
        try:
            return self._blocks.expand(number, real.read(offset, int(blocks.length[number]))).data
        except FilterError as error:
            raise FormatError(str(error), real.path, offset) from error


def forward_reader(file: File, real: File) -> tuple[Callable[[int, int], bytes | memoryview], int]:
    """Return a reader of a file from front to back, and the number of bytes to ask for at a time.

    The reader takes an offset, which is not before that of the call before, and a length inside the
    file. The bytes are valid until the next call.

    Args:
        file: The file, or a block file.
        real: The file that has the bytes of its blocks.
    """
    if isinstance(file, BlockFile):
        return _Expanded(real, file).read, _CHUNK_OF_REQUEST
    if isinstance(file, MappedFile):
        return _Local(file).read, _CHUNK
    return file.read, _CHUNK_OF_REQUEST
