"""Kernels for lines: values in JSON lines and CSV, and values that follow their lengths. `_kernels` has the rules."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class LineScanner:
    """Finds where the values in lines of JSON or records of CSV lie, chunk by chunk.

    ::

        scanner = LineScanner([])
        used = scanner.feed(chunk, start, last=False)  # the next chunk begins at start + used
        first, offset, length, kind, number, *facts = scanner.values(0)  # of scanner.names[0]
        scanner.clear()  # when it is full, or before

    Args:
        names: Names of fields. For CSV, the columns in order; an empty name is a column that is not wanted.
        delimiter: The delimiter of CSV; 0 for lines of JSON.
        closed: Whether other names of JSON than these are passed over.
        most_names: Greatest number of different names of JSON; more of them are a problem.
    """

    def __init__(
        self, names: Sequence[_Bytes], delimiter: int = 0, closed: bool = False, most_names: int = 10000
    ) -> None: ...
    def feed(self, data: _Bytes, start: int, last: bool) -> int:
        """Scan the whole lines in some bytes, up to the one that makes the scanner full.

        Args:
            data: The bytes, which begin with a line.
            start: Position of the bytes in the file, which is added to offsets.
            last: Whether the bytes end with the last line.

        Returns:
            Number of bytes of the lines that were scanned. It is 0 if no line ends in the bytes, and if the scanner was
            full before. After a problem, the damaged line has no values, and the next call may continue after it.
        """
    def clear(self) -> None:
        """Drop all samples and their values, which collect until then. Names stay."""
    def values(
        self, field: int
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], int, int, int]:
        """Take the values of a field out, from the first sample that has it to the last one. A second call finds none.

        Args:
            field: Its number in `names`.

        Returns:
            first: Number of the first sample that has it, of those since `clear`.
            offset: int64[n], bytes: of a text in quotes, the first byte between the quotes; 0 where the value is
                missing.
            length: int64[n], bytes: of a text in quotes, the bytes between the quotes; -1 for null and where the value
                is missing.
            kind: uint8[n]: 0 if the sample lacks the field; 1 null, or an empty cell that is not quoted; 2 text without
                quotes; 3 text in quotes; 4 the same with backslashes or, in CSV, doubled quotes; 5 false; 6 true; 7 an
                integer that fits int64; 8 an integer that fits uint64 only; 9 a larger integer; 10 a real number; 11 an
                object or a list (only its strings and the balance of brackets are checked). A cell without quotes
                that is a number as JSON has it is a number.
            number: int64[n], the number: the bits of a uint64 for kind 8, the bits of a float64 for kind 10, 0 or 1 for
                truth values; else 0. It is empty if the field has neither numbers nor truth values.
            kinds: The bit ``1 << kind`` of each kind that occurs.
            least, most: The least and the greatest number of kind 7; 0 without such numbers.

        Raises:
            IndexError: The field does not exist.
        """
    def include_quotes(self, field: int) -> None:
        """Make the extents of texts in quotes include the quotes, from the next value of a field on.

        Args:
            field: Its number in `names`.

        Raises:
            IndexError: The field does not exist.
        """
    @property
    def full(self) -> bool:
        """Whether `clear` must be called before more values are scanned."""
    @property
    def names(self) -> list[bytes]:
        """Names of the fields, in the order in which they appeared. Escapes are resolved."""
    @property
    def rows(self) -> int:
        """Number of samples since `clear`. Empty lines have none."""
    @property
    def lines(self) -> int:
        """Number of lines that were scanned in all calls, empty ones too."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the last call, or None."""
    @property
    def problem_offset(self) -> int:
        """Position of the problem in the file, or -1."""

def csv_record(
    data: _Bytes, delimiter: int, last: bool, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], int]:
    """Return the cells of the first record of CSV.

    Args:
        data: The bytes.
        delimiter: The delimiter.
        last: Whether no more bytes follow.
        most: Greatest number of cells.

    Returns:
        offset, length, kind: as `LineScanner.values` has them, where kinds are 1 to 4.
        end: Where the next record begins; -1 if the record does not end in the bytes.

    Raises:
        ValueError: Quotes are damaged, or there are too many cells.
    """

def scan_byte_arrays(data: _Bytes, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where values lie that follow each other, each after its length in 4 bytes, little-endian.

    Args:
        data: The bytes.
        count: Number of values.

    Returns:
        offset: int64[count], bytes from the start of ``data``.
        length: int64[count], bytes.

    Raises:
        ValueError: The bytes end inside a value.
    """
