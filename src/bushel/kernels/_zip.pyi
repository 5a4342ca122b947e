"""Kernels for zip archives, and for the samples of archives. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from bushel.kernels._files import MappedFile

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class ZipScanner:
    """Reads the entries of the directory of a zip archive, whose bytes the caller feeds.

    Sizes and offsets come from the zip64 extra field if they are there; names from the extra field of Unicode paths, or
    else from UTF-8 or code page 437, by the flag of the entry. Names end before their first zero byte.

    Args:
        size: Bytes of the directory.
        shift: Bytes of the file before the archive, which are added to offsets.

    Raises:
        ValueError: ``size`` is negative.
    """

    def __init__(self, size: int, shift: int = 0) -> None: ...
    def feed(self, data: _Bytes) -> int:
        """Read the complete entries of bytes that follow those which earlier calls used, and return how many bytes."""
    @property
    def end(self) -> int:
        """Bytes of the directory that were used so far."""
    @property
    def need(self) -> int:
        """Bytes to feed next if the last call used none."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the scan at `end`, or None."""
    def take(
        self,
    ) -> tuple[
        NDArray[np.uint8],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.uint32],
        NDArray[np.uint16],
        NDArray[np.uint16],
    ]:
        """Return the entries since the last call.

        Returns:
            names: uint8: all names in UTF-8, one after another.
            name_offsets: int64[entries + 1], offsets of the names in it, and its end.
            header: int64[entries], offset in the file of the header before the data.
            stored: int64[entries], bytes in the file.
            size: int64[entries], bytes of the value.
            crc32: uint32[entries], CRC-32 of the value.
            method: uint16[entries], compression: 0 for stored, 8 for deflate, 93 for zstd.
            flags: uint16[entries]: 1 is encryption.
        """

class MemberGroups:
    """Divides the names of the members of an archive into the keys of samples and extensions.

    Members with the same key are one sample, wherever they are. Names that belong to no sample are those for which
    `bushel.containers.tar.names.split_name` returns None.

    Args:
        names: uint8: all names, one after another.
        offsets: int64[members + 1], offsets of the names in it, and the end of the last one.
    """

    def __init__(self, names: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None: ...
    def group(self, members: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the sample and the extension of each of some members; -1 for one that belongs to no sample.

        Samples are numbered in the order in which calls find them, extensions are positions in `extensions`.

        Raises:
            ValueError: A member is not among the names, or a name not inside the text.
        """
    def take_keys(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the keys of the samples that were found since the last call, one after another, and their ends."""
    @property
    def extensions(self) -> list[bytes]:
        """The extensions so far, in the order of their first appearance."""

def zip_data(file: MappedFile, header: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the data of members of a zip archive begin, given the offsets of the headers before them.

    Headers that follow each other closely are read together, so ascending offsets are fastest.

    Returns:
        int64[members]: the offsets; -1 where no header is in the file.

    Raises:
        ExtentError: The file has shrunk.
    """
