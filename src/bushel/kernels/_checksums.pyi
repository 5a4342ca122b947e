"""Kernels for checksums. `_kernels` documents their rules."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from bushel.kernels._files import MappedFile

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

def crc32_many(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
) -> NDArray[np.uint32]:
    """Return the CRC-32 of each extent (uint32[rows]); 0 for a missing one.

    Files are read in pieces of 256 KiB, in the order of the rows. Rows in the order of the file are fastest.

    Raises:
        ExtentError: As in `read_many`.
    """

def crc32(data: _Bytes, value: int = 0) -> int:
    """Return the CRC-32 of ``data``, continued from ``value``, as `zlib.crc32` does, but many times as fast."""

def join_crc32(beginning: int, rest: int, length: int) -> int:
    """Return the CRC-32 of bytes, given the CRC-32 of their beginning and of the ``length`` bytes after it."""

def crc32_pieces(pieces: Sequence[_Bytes]) -> tuple[list[int], int]:
    """Return the CRC-32 of each of several pieces, and of all of them one after another."""

def crc32_rows(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Compute the CRC-32 of many values in one buffer.

    Args:
        data: uint8[total].
        offsets: int64[n + 1]; value i is ``data[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: The offsets do not ascend, or are outside ``data``. So do the functions below.
    """
