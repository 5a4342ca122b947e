"""Kernels for pages of Parquet. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from bushel.kernels._files import MappedFile

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

def scan_byte_arrays(
    data: MappedFile | _Bytes, count: int, start: int = 0, size: int = -1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where values are that follow each other, each after its length in 4 bytes, little-endian.

    Args:
        data: A file, or bytes.
        count: Number of values.
        start: Where the length of the first one is.
        size: Bytes of all values and their lengths; -1 for all from ``start`` on.

    Returns:
        offset: int64[count], bytes from the start of ``data``.
        length: int64[count], bytes.

    Raises:
        ExtentError: The file shrank during the scan.
        OSError: The system could not read the file.
        ValueError: The bytes end inside a value.
    """

def read_hybrid(data: _Bytes, width: int, count: int) -> NDArray[np.uint32]:
    """Decode numbers of the hybrid of run lengths and bit-packing.

    Args:
        data: The bytes, which others may follow.
        width: Bits of a number, 32 at most.
        count: How many numbers to read.

    Returns:
        uint32[count]. A number of a run may have more bits, up to whole bytes.

    Raises:
        ValueError: The bytes hold fewer numbers.
    """

def present_values(
    definition: _Bytes, largest: int, values: int
) -> tuple[int, NDArray[np.bool_] | None]:
    """Find the values of a page that are there.

    Args:
        definition: The definition levels, as the page has them.
        largest: The level of a value that is there.
        values: Number of levels.

    Returns:
        The number of values that are there, and bool[values], which these are; None if all are.

    Raises:
        ValueError: The levels are damaged, or fewer.
    """

def present_elements(
    repetition: _Bytes,
    definition: _Bytes,
    largest: int,
    list: int,
    values: int,
    rows: int,
    counts: NDArray[np.int64],
    absent: NDArray[np.uint8],
) -> tuple[int, int, int, NDArray[np.bool_] | None]:
    """Find the elements of the lists of a page, and the rows to which they belong.

    Args:
        repetition: The repetition levels, as the page has them: 0 and 1.
        definition: The definition levels, as the page has them.
        largest: The definition level of an element that is there.
        list: The definition level of a list that is there. Above it, the list has an element, perhaps a null.
        values: Number of levels.
        rows: Number of rows that have begun on the pages before.
        counts: int64[rows of all pages], is given the number of elements of each row of this page.
        absent: uint8[rows of all pages], is given 1 for a null.

    Returns:
        rows: Number of rows that have begun, which may be more than ``counts`` has room for.
        elements: Number of elements of the page, nulls among them.
        present: Number of those that are there.
        there: bool[elements], which these are; None if all are.

    Raises:
        ValueError: The levels are damaged or fewer, or the first one of all continues a list.
    """

def decode_deltas(data: _Bytes, count: int = -1) -> tuple[NDArray[np.int64], int]:
    """Decode numbers of DELTA_BINARY_PACKED, and return them and the number of bytes that they take.

    Args:
        data: The encoded numbers, which other bytes may follow.
        count: How many there must be; -1 for as many as the bytes announce.

    Raises:
        ValueError: They are fewer or more, or damaged.
    """

def join_prefixed(
    data: _Bytes, prefix: NDArray[np.int64], length: NDArray[np.int64], out: NDArray[np.uint8]
) -> int:
    """Write the byte arrays of DELTA_BYTE_ARRAY one after another, and return how many bytes were written.

    Args:
        data: The ends of the values, one after another.
        prefix: int64[n], how many bytes each value shares with the beginning of the one before it.
        length: int64[n], bytes of the end of each.
        out: uint8, is given the values.

    Raises:
        ValueError: A prefix is longer than the value before it, or there are too few bytes or too little room.
    """
