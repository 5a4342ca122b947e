"""Kernels for files: mapped files, and reading of many extents. `_kernels` documents their rules."""

from collections.abc import Callable, Collection, Sequence
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class ExtentError(ValueError):
    """An extent cannot be read.

    Attributes:
        row: Index of the extent in the arguments.
        reason: ``"beyond"``: the extent is not inside its file, or is negative. ``"checksum"``: the CRC-32 of the bytes
            differs. ``"shrunk"``: the file is smaller than when it was opened. ``"filter"``: the extent is in a block
            that cannot be expanded; `bushel.storage` raises that.
        expected: beyond: the end of the extent (offset + length). checksum: the given CRC-32. shrunk: the file size
            when it was opened, in bytes. filter: the size of the block.
        found: beyond: the file size in bytes. checksum: the CRC-32 of the bytes. shrunk: the current file size.
            filter: -1.
        what: filter: the damage of the block, as text. Other errors do not have it.
    """

    row: int
    reason: Literal["beyond", "checksum", "shrunk", "filter"]
    expected: int
    found: int
    what: str

class MappedFile:
    """A read-only local file that is mapped into memory.

    A MappedFile records (one bit per 4 KiB) which pages it has read. Rows of a batch on such pages are copied from the
    map, without a system call. So are rows of up to 64 pages that are in memory, if the system reports it (``mincore``
    of Linux, which reports it to users who may write to the file). For other rows it first tries to read without
    waiting; the pages that are not in memory are requested for the whole batch at once (``posix_fadvise``) and then
    read. If pages have left memory in the meantime, which the thread's count of major page faults shows, the record is
    cleared.

    A file that grows is read up to its size at opening. A file that shrinks raises `ExtentError` at the next batch:
    each batch checks the sizes of its files first. Only truncation between that check and the copy kills the process.

    Args:
        path: The file. It may be empty.

    Raises:
        OSError: The file cannot be opened (`FileNotFoundError`, `IsADirectoryError`, …) or is not a regular file.
    """

    def __init__(self, path: str | bytes | PathLike[str]) -> None: ...
    @property
    def path(self) -> str:
        """The path that was opened."""
    @property
    def size(self) -> int:
        """Size in bytes at opening."""
    @property
    def mtime_ns(self) -> int:
        """Modification time in nanoseconds at opening."""
    def direct(self) -> MappedFile | None:
        """Return the same file, open for direct reads (``O_DIRECT``), whose bytes the system does not keep in memory.

        It is not mapped. All reads of a batch are requested at the same time. Bytes that were written before, also by
        other processes, are read. None if the file is empty, or its file system does not say that it offers direct
        reads: Linux 6.1 and newer say so of ext4, XFS, f2fs and others, not of tmpfs and network file systems.
        """
    def load_lengths(self, places: NDArray[np.int64]) -> None:
        """Load the lengths of values that follow each other, in several places of the file at the same time.

        It may stop early, for few places, small values or a slow disk. Places outside the file are left out.

        Args:
            places: int64[2 * n], where the first length is, in 4 bytes, and where the last value ends, of each place.

        Raises:
            OSError: The system could not read the file.
        """
    def read(self, offset: int, length: int) -> bytes:
        """Read one extent.

        Raises:
            ExtentError: The extent is not inside the file, or the file has shrunk.
            ValueError: ``length`` is negative.
        """
    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Read bytes past the map and its record, as scans from front to back do, which need each page once.

        Args:
            offset: Offset of the first byte.
            out: uint8[n], which is filled.

        Raises:
            ExtentError: They are not all inside the file, or the file has shrunk.
            OSError: The system could not read the file.
        """

def cold_reads() -> int:
    """Return the number of batches of this thread so far that waited for a row that was not in memory."""

def read_many(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> list[bytes | None]:
    """Read many extents; None stands for a missing one.

    Args:
        files: The files that ``file`` refers to.
        file: int32[rows], indices into ``files``; or one int for all rows.
        offset: int64[rows], bytes.
        length: int64[rows], bytes, or -1.
        crc32: uint32[rows], the expected CRC-32 of each row. None (the default): checksums are not compared.

    Raises:
        ExtentError: The first row that cannot be read. All rows are checked against the sizes of their files before any
            memory is allocated.
        OSError: The system could not read a file.
        ValueError: A file index is out of range, or arrays have different lengths.
        TypeError: An array has another dtype or shape.
    """

def read_samples(
    files: Sequence[MappedFile],
    fields: Sequence[
        tuple[
            str,
            NDArray[np.int32] | int,
            NDArray[np.int64],
            NDArray[np.int64],
            NDArray[np.uint32] | None,
        ]
    ],
    rows: NDArray[np.int64] | None,
    key_name: str,
    keys: list[str] | tuple[NDArray[np.uint8], NDArray[np.int64]],
    views: Collection[str] | None = None,
    room: Callable[[int], _Bytes | None] | None = None,
) -> list[dict[str, str | bytes | memoryview]]:
    """Read a batch of samples: a dict for each, with its key and the bytes of the fields that it has.

    Args:
        files: The files that the fields refer to.
        fields: For each field: its name, and file, offset, length and crc32 of its values, as in `read_many`. The
            crc32 is None for all fields, or for none; lengths may have any stride, such as 0 for one length of all.
        rows: int64[samples], the rows of these arrays to read; None if they are the samples.
        key_name: The name of the key in each dict.
        keys: The key of each sample; or the keys of all rows, as text (uint8[total]) and offsets (int64[rows + 1]).
        views: The fields whose values are read into memory of `room`, and become read-only views of it.
        room: Returns a writable buffer of at least that many bytes; None for bytes objects after all.

    Raises:
        ExtentError: As `read_many`; ``row`` counts the samples of the first field, then of the second, …
        IndexError: A row is out of range.
        OSError: The system could not read a file.
        ValueError: A file index is out of range, arrays have different lengths, or keys overlap or are invalid.
        TypeError: An array has another dtype or shape.
    """

def read_small_files(
    paths: Sequence[str],
    size: NDArray[np.int64],
    mtime_ns: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    *,
    folder: str = "",
) -> list[bytes | None]:
    """Read an extent of each of many files, which are opened one after another, read and closed.

    Args:
        paths: The file of each extent.
        size: int64[rows], bytes that the file should have.
        mtime_ns: int64[rows], time of modification that the file should have, in nanoseconds.
        offset: int64[rows], bytes.
        length: int64[rows], bytes.
        folder: If it is given, paths are relative to it, and none may lead out of it.

    Returns:
        The bytes of each extent; None for a file that cannot be opened or read, has another size or time, or is
        outside of the folder.

    Raises:
        ValueError: An extent is not inside its file; or the arguments have different lengths.
        TypeError: An array has another dtype or shape, or a path is not text.
    """

def file_stamps(
    paths: Sequence[str], *, folder: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes and times of files, which are looked at without the interpreter lock.

    Args:
        paths: The files.
        folder: If it is given, paths are relative to it, and none may lead out of it.

    Returns:
        int64[n], bytes of each file, -1 for one that is gone or outside of the folder; and int64[n],
        its time of modification in nanoseconds.

    Raises:
        TypeError: A path is not text.
    """

def read_files(
    paths: Sequence[str], out: NDArray[np.uint8], *, folder: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Read whole files into one buffer, one after another, until a file cannot be read.

    It ends before a file that is missing, is not a regular one, does not fit, has another size than when it was opened,
    or is outside of the folder. The caller finds out why, if that file is the first one.

    Args:
        paths: The files.
        out: The buffer. One byte of it is not used, by which a file that grows is noticed.
        folder: If it is given, paths are relative to it, and none may lead out of it.

    Returns:
        Offsets of the files that were read in ``out`` (int64[n + 1]), and their CRC-32 (uint32[n]).

    Raises:
        TypeError: The array has another dtype or shape, or a path is not text.
    """

def gather(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read many extents into one buffer, with the arguments and errors of `read_many`.

    Returns:
        ``data`` (uint8, the sum of the lengths) and ``offsets`` (int64, rows + 1). Row i is
        ``data[offsets[i]:offsets[i + 1]]``, which is empty for a missing one.
    """

def gather_into(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None,
    out: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """Read many extents into an array of the caller, with the arguments and errors of `read_many`.

    After an `ExtentError` of reason "checksum" or "shrunk", or an `OSError`, the contents of ``out`` are undefined.

    Returns:
        ``offsets`` (int64, rows + 1), as `gather` returns them.

    Raises:
        ValueError: ``out`` is too small.
    """

def read_pieces(
    files: Sequence[object],
    buffers: Sequence[_Bytes],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None,
    source: NDArray[np.int32],
    offset: NDArray[np.int64],
    size: NDArray[np.int64],
    row: NDArray[np.int64],
    at: NDArray[np.int64],
) -> list[bytes | None]:
    """Read values that consist of pieces of mapped files and of buffers; None stands for a missing one.

    The pieces of a value cover it, and may come in any order.

    Args:
        files: The files that ``source`` refers to. Those that no piece is in need not be a `MappedFile`.
        buffers: Bytes in memory, which ``source`` numbers on from the number of files.
        length: int64[values], bytes, or -1 for a missing value, which has no pieces.
        crc32: uint32[values], the expected CRC-32 of each value. None: checksums are not compared.
        source: int32[pieces], file or buffer of each piece.
        offset: int64[pieces], bytes from its start.
        size: int64[pieces], bytes.
        row: int64[pieces], number of the value.
        at: int64[pieces], where the piece begins in the value, in bytes.

    Raises:
        ExtentError: The first piece that cannot be read, or value with another CRC-32; ``row`` is the number of the
            value. All pieces are checked against the sizes of their files before any memory is allocated.
        OSError: The system could not read a file.
        ValueError: A piece is not inside its buffer or its value, or pieces do not cover a value.
        TypeError: An array has another dtype or shape, or a file is not mapped.
    """

def gather_pieces(
    files: Sequence[object],
    buffers: Sequence[_Bytes],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None,
    source: NDArray[np.int32],
    offset: NDArray[np.int64],
    size: NDArray[np.int64],
    row: NDArray[np.int64],
    at: NDArray[np.int64],
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read values into one buffer, with the arguments and errors of `read_pieces`.

    Returns:
        ``data`` (uint8, the sum of the lengths) and ``offsets`` (int64, values + 1), as `gather` returns them.
    """

class RangeValues:
    """The values in a range of a file, copied out of the chunks in which the range arrives.

    New pages of memory are taken from the system when the first byte of a value arrives, many in one call. Chunks are
    copied without the interpreter lock.

    Args:
        offset: int64[values], bytes from the start of the range, ascending. Values may overlap.
        length: int64[values], bytes.

    Raises:
        ValueError: The extents are not ordered by offset, or one is negative; or the arrays have different sizes.
        TypeError: An array has another dtype or shape.
    """

    def __init__(self, offset: NDArray[np.int64], length: NDArray[np.int64]) -> None: ...
    @property
    def arrived(self) -> int:
        """Bytes of the range that have arrived."""

    def put(self, data: _Bytes) -> None:
        """Take the next bytes of the range.

        Raises:
            ValueError: The values have been taken.
        """

    def restart(self) -> None:
        """Begin with the first byte of the range again, such as after a request that failed."""

    def take(self) -> list[bytes]:
        """Return the values.

        Raises:
            ValueError: Not all of their bytes have arrived, or they have been taken.
        """

def first_outside(offset: NDArray[np.int64], length: NDArray[np.int64], size: int) -> int:
    """Return the row of the first extent that is not inside a file of ``size`` bytes, or -1.

    Args:
        offset: int64[n], bytes from the start of the file.
        length: int64[n], bytes; -1 for a missing value, whose offset is not looked at.
        size: Size of the file in bytes.
    """

def map_array(path: str | PathLike[str]) -> NDArray[np.uint8]:
    """Map a whole local file as a read-only array, without keeping it open.

    All of its pages are requested at once, in the background. Use it for files that are replaced as a whole and never
    truncated, such as sidecars: access to a page that no longer exists kills the process.

    Returns:
        uint8[size of the file].

    Raises:
        OSError: The file cannot be opened or mapped.
    """

def prefetch(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
) -> None:
    """Start to read the extents of a future batch in the background, and return at once.

    Raises:
        ExtentError: As in `read_many`.
    """
