"""Kernels for numbers: columns of stored numbers. `_kernels` documents their rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from bushel.kernels._files import MappedFile

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class NumberForms:
    """The headers of a codec's stored values of numbers. It does not change.

    Args:
        headers: The header of stored values by their length in bytes, header and content together.

    Raises:
        ValueError: A header is longer than its value.
    """

    def __init__(self, headers: Mapping[int, bytes]) -> None: ...

def decode_numbers(
    data: _Bytes, length: NDArray[np.int64], kind: str, forms: NumberForms | None, out: NDArray[Any]
) -> NDArray[np.int64] | None:
    """Decode stored numbers in memory, as a `NumberTable` does.

    Args:
        data: The stored values, one after another.
        length: int64[n], bytes; -1 for a missing value.
        kind: As for `NumberTable`, except ``"bytes"``.
        forms: The headers, or None if no value has one.
        out: int64[n], or float64[n] for ``"real"``.

    Returns:
        int64[k], the rows that are missing or hold other values. Their elements of ``out`` are undefined. None without
        such rows.

    Raises:
        ValueError: The values do not fit into ``data``, or ``out`` has another size.
    """

class NumberTable:
    """Where the numbers of some fields (columns) are in some shards, for gathering them into arrays.

    It does not change and keeps the files and arrays that it is given alive, so threads may share it. A value can be
    gathered if its extent is inside its file, its length and header are known, and its checksum fits. Its content, the
    bytes after the header, becomes by kind:

    - ``"bytes"``: the same bytes;
    - ``"signed"``, ``"unsigned"``: int64, from a little-endian integer of at most 8 bytes;
    - ``"real"``: float64, from a little-endian float32 or float64;
    - ``"whole-real"``: int64, from the same, if it is an integer of at most 2**53;
    - ``"decimal"``: int64, from decimal text, which may have a sign and surrounding white space.

    Args:
        shards: For each shard, in ascending order: the position of its first sample, the number of samples, and its
            columns. A column is a tuple of file, offset (int64[samples], bytes), length (int64[samples], bytes; -1 for
            a sample without the field), crc32 (uint32[samples] to compare with, or None), kind, and the headers (None:
            no value has a header).
        columns: Number of columns in each shard.

    Raises:
        ValueError: Shards overlap, an array has the wrong length, or a kind is unknown.
        TypeError: An argument has another type.
    """

    def __init__(
        self,
        shards: Sequence[
            tuple[
                int,
                int,
                Sequence[
                    tuple[
                        MappedFile,
                        NDArray[np.int64],
                        NDArray[np.int64],
                        NDArray[np.uint32] | None,
                        str,
                        NumberForms | None,
                    ]
                ],
            ]
        ],
        columns: int,
    ) -> None: ...
    def gather(
        self, samples: NDArray[np.int64], targets: Sequence[Sequence[NDArray[Any]] | None]
    ) -> tuple[list[NDArray[np.int64] | None], bool]:
        """Gather all columns of samples into arrays.

        Args:
            samples: int64[n], positions.
            targets: For each column: writable C-contiguous arrays that have n rows of one size together. The first
                array gets the first samples. None: the column is not gathered.

        Returns:
            bad: For each column: int64[k], the places in ``samples`` of those that could not be gathered, or that are
                in none of the shards; None if all could be gathered. Their rows hold anything.
            waited: Whether a value was not in memory.

        Raises:
            ExtentError: A file has shrunk.
            OSError: The system could not read a file.
            ValueError: The arrays do not have the rows.
        """
    def gather_rows(
        self,
        column: int,
        samples: NDArray[np.int64],
        out: NDArray[Any],
        offsets: NDArray[np.int64],
        fill: bytes | None,
        skip: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """Gather one column of samples into rooms of different sizes.

        Args:
            column: Number of the column.
            samples: int64[n], positions.
            out: A writable C-contiguous array.
            offsets: int64[n + 1], in bytes: the room of sample ``i`` is ``out[offsets[i]:offsets[i + 1]]``.
            fill: Fills the rest of each room, over and over. None: a content must have the size of its room.
            skip: int64[n], bytes of each content before those that fill its room; any may follow these. None for
                whole contents.

        Returns:
            bad and waited, as `gather` for one column.

        Raises:
            IndexError: The column does not exist.
            ValueError: Offsets are not ascending, or not inside ``out``; or there are both ``fill`` and ``skip``.
            ExtentError, OSError: As `gather`.
        """
    def measure(self, column: int, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of content of each sample, -1 for one that cannot be gathered. No data are read."""
    def prefetch(self, samples: NDArray[np.int64]) -> None:
        """Start to read, in the background, the values that have not been in memory yet."""
