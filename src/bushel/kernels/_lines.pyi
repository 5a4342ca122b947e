"""Kernels for lines: values in JSON lines and CSV, and values that follow their lengths. `_kernels` has the rules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class LineScanner:
    """Finds where the values in lines of JSON or records of CSV are, chunk by chunk.

    ::

        scanner = LineScanner([])
        used = scanner.feed(chunk, start, last=False)  # the next chunk begins at start + used
        block = scanner.take()  # when it is full, or before

    Args:
        names: Names of fields. For CSV, the columns in order; an empty name is a column that is not wanted.
        delimiter: The delimiter of CSV; 0 for lines of JSON.
        closed: Whether other names of JSON than these are skipped.
        most_names: Greatest number of different names of JSON; more of them are a problem.
    """

    def __init__(
        self,
        names: Sequence[_Bytes],
        delimiter: int = 0,
        closed: bool = False,
        most_names: int = 10000,
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
    def take(self) -> NDArray[np.uint8]:
        """Take all samples out, and return a block of their values for `LineBlocks`. Names stay."""
    def facts(self, field: int) -> tuple[int, bool, bool]:
        """Return facts of the values of a field, of all samples that were taken out.

        Args:
            field: Its number in `names`.

        Returns:
            kinds: The bit ``1 << kind`` of each kind of `LineBlocks` that occurs; kind 0 if a sample lacks the field.
            negative: Whether a number of kind 7 is negative.
            inexact: Whether a number of kind 7 is beyond 2^53.

        Raises:
            IndexError: The field does not exist, or appeared after the last call of `take`.
        """
    @property
    def full(self) -> bool:
        """Whether `take` must be called before more lines are scanned."""
    @property
    def names(self) -> list[bytes]:
        """Names of the fields, in the order in which they appeared. Escapes are resolved."""
    @property
    def rows(self) -> int:
        """Number of samples since `take`. Empty lines have none."""
    @property
    def lines(self) -> int:
        """Number of lines that were scanned in all calls, empty ones too."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the last call, or None."""
    @property
    def problem_offset(self) -> int:
        """Position of the problem in the file, or -1."""

class LineBlocks:
    """Blocks of lines, which `LineScanner.take` makes.

    ::

        blocks = LineBlocks(block, np.array([0, len(block)]), np.array([0, samples]))
        lengths = LineColumn(blocks, 0, "length", quotes=False).read(0, samples)

    Args:
        data: uint8[bytes], the blocks.
        at: int64[blocks + 1], where each begins, and the end.
        first: int64[blocks + 1], the first sample of each, and the number of samples.

    Raises:
        ValueError: The arrays do not fit each other.
    """

    def __init__(
        self, data: NDArray[np.uint8], at: NDArray[np.int64], first: NDArray[np.int64]
    ) -> None: ...
    @property
    def samples(self) -> int:
        """Number of samples."""

class LineColumn:
    """A part of the values of a field in blocks of lines, int64 unless it is said.

    offset: bytes from the start of the file; 0 for null and where the value is missing.
    length: bytes; -1 for null and where the value is missing.
    kind: 0 if the sample lacks the field; 1 null, or an empty cell that is not quoted; 2 text without quotes; 3 text in
        quotes; 4 the same with backslashes or, in CSV, doubled quotes; 5 false; 6 true; 7 an integer that fits int64; 8
        an integer that fits uint64 only; 9 a larger integer; 10 a real number; 11 an object or a list (only its strings
        and the balance of brackets are checked). A cell without quotes that is a number as JSON has it is a number.
    number: the number: the bits of a uint64 for kind 8, of a float64 for kind 10, 0 or 1 for truth values; else 0.
    real: the same as float64, for a field of the kinds 7 and 10.

    Args:
        blocks: The blocks.
        field: Number of the field. If a block lacks it, all values are missing there.
        part: `offset`, `length`, `kind`, `number` or `real`.
        quotes: Whether the quotes around texts belong to them.

    All methods raise IndexError if a sample does not exist, and ValueError for a damaged block.
    """

    def __init__(self, blocks: LineBlocks, field: int, part: str, quotes: bool) -> None: ...
    def read(self, row: int, count: int) -> NDArray[Any]:
        """Return the part of the values of `count` samples from `row` on."""
    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the part of the values of some samples. Negative ones count from the end."""
    def write(self, rows: NDArray[np.int64], out: NDArray[np.int64]) -> None:
        """Write the part of the values of some samples to an array; of real numbers, the bits of each float64."""
    def extents(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return offset and length of the values of some samples, if the part is one of both."""
    def item(self, row: int) -> Any:
        """Return the part of one value as an int or a float; of a negative one, from the end."""

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
        offset, length, kind: as `LineBlocks` has them without quotes, where kinds are 1 to 4.
        end: Where the next record begins; -1 if the record does not end in the bytes.

    Raises:
        ValueError: Quotes are damaged, or there are too many cells.
    """
