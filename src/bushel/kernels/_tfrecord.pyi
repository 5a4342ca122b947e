"""Kernels for TFRecord files. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class ExampleScanner:
    """A scan of a TFRecord file whose records all are usual Examples, into blocks of lines.

    In a usual Example, a feature has at most one value of bytes, or its numbers in one piece. `TfrecordScanner` reads
    all other files.
    """

    def __init__(self) -> None: ...
    def feed(self, data: _Bytes, start: int) -> int:
        """Read complete records until the scan is full, and return how many bytes they have.

        Args:
            data: The bytes that follow the records read before.
            start: Their position in the file.
        """
    def take(self) -> NDArray[np.uint8]:
        """Take out the samples as a block, which `LineBlocks` reads."""
    @property
    def features(self) -> list[tuple[bytes, int, int]]:
        """The features so far, in order of appearance: the numbers of fields in the blocks.

        They have a name, a kind (1 bytes, 2 floats, 3 integers), and a bit for each kind of value that was taken: 0 for
        a missing one, 1 for an empty list of bytes, 2 for bytes, and for a list without numbers, 7 for an integer, 10
        for a float, and 11 for more numbers.
        """
    @property
    def full(self) -> bool:
        """Whether the samples must be taken out before more bytes are fed."""
    @property
    def unusual(self) -> bool:
        """Whether a record is not a usual Example, or is damaged, which ends the scan."""
    @property
    def need(self) -> int:
        """If `feed` returned 0 and the scan is not full: the number of bytes that the next record needs."""
    @property
    def rows(self) -> int:
        """Number of samples that `take` would return."""
    @property
    def values(self) -> int:
        """Number of values of all samples."""

class TfrecordScanner:
    """A scan of a TFRecord file, whose caller fetches the bytes.

    Args:
        examples: Whether to read the features of records that are `tf.train.Example`.
        checksums: Whether to compare the checksums of the data; checksums of lengths are always compared.
    """

    def __init__(self, examples: bool = True, checksums: bool = False) -> None: ...
    def feed(self, data: _Bytes) -> int:
        """Read the complete records of the bytes at `end`, and return how many bytes these have."""
    @property
    def end(self) -> int:
        """End of the last complete record."""
    @property
    def need(self) -> int:
        """After `feed` returned 0: the number of bytes from `end` on that the next record needs."""
    @property
    def problem(self) -> str | None:
        """The problem at `end`, which ended the scan, or None."""
    @property
    def other(self) -> int:
        """Number of the first record that is not an Example, -1 if all are Examples."""
    @property
    def reason(self) -> str | None:
        """The reason why it is not an Example."""
    @property
    def others(self) -> bool:
        """Whether records before the first one that is not an Example have features; of the first, the next one."""
    @property
    def rows(self) -> int:
        """Number of records, features of each and values of bytes that `take` would return."""
    @property
    def features(self) -> list[tuple[bytes, int, int, bool]]:
        """The features so far, in order of appearance.

        They have a name, a kind (1 bytes, 2 floats, 3 integers), the number of values of the record that has most of
        them, and whether values of a record were copied.
        """
    def take(
        self,
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.uint8],
        list[
            tuple[
                int,
                NDArray[np.int64],
                NDArray[np.int64],
                NDArray[np.int64],
                NDArray[np.int64],
                NDArray[np.int64],
                NDArray[np.int64],
                NDArray[np.int64],
            ]
        ],
    ]:
        """Return the rows that were found since the last call, and forget them.

        First come offset and length of the data of each record, the numbers of the records whose data have another
        checksum, and lists of numbers that are not in one piece in the file, as bytes. Then come the features that
        these records have: the number of the feature, and the numbers of the records; for bytes, how many values each
        record has; for floats and integers, offset and length of the packed values, and the first one (the bits of a
        float); for bytes, offset and length of all values. An offset of `-1 - n` stands for position `n` of the copied
        bytes of all calls.
        """

def decode_varints(data: _Bytes) -> NDArray[np.int64]:
    """Decode packed varints of Protocol Buffers as signed integers.

    Raises:
        ValueError: One is truncated or has more than 64 bits.
    """

def crc32c(data: _Bytes) -> int:
    """Return the CRC-32C (Castagnoli) of some bytes."""
