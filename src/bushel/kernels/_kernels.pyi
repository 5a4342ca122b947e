"""The compiled hot loops of Bushel (C++17).

Array arguments are contiguous, one-dimensional and of exactly the dtype named here (read-only ones too, such as the
arrays of a memory-mapped index); anything else is a `TypeError`, never a silent copy. Whatever works on more than some
64 KiB releases the GIL. All functions may be called from several threads at once and after a fork.

An extent is (file, offset, length): ``file`` a position in the list ``files``, or one int when all rows lie in the same
file, ``offset`` and ``length`` in bytes. Only the elements of ``files`` that rows refer to are looked at. ``length`` -1
marks a missing
field: nothing is read, and its file and offset are ignored.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares no __buffer__ before Python 3.12

class ExtentError(ValueError):
    """An extent that cannot be read as asked.

    Attributes:
        row: The position of the extent among the arguments.
        reason: ``"beyond"``: it is not inside its file (or negative). ``"checksum"``: the bytes have another CRC-32.
            ``"shrunk"``: the file became smaller since it was opened.
        expected: beyond: where the extent ends (offset + length). checksum: the CRC-32 given. shrunk: the size at
            opening.
        found: beyond: the size of the file. checksum: the CRC-32 of the bytes. shrunk: the size now.
    """

    row: int
    reason: Literal["beyond", "checksum", "shrunk"]
    expected: int
    found: int

class MappedFile:
    """A read-only local file, mapped into memory, whose pages are only touched when they are known to be there.

    It remembers (one bit per 4 KiB) which pages it has read. A batch that lies on such pages is copied from the map
    without a system call per record. Other pages are first asked for without waiting; those that are not in memory are
    announced to the system for the whole batch at once (``posix_fadvise``) and then read. When pages have left memory
    meanwhile, which shows in the thread's count of major faults, it starts to learn anew.

    A file that grows is read up to its size at opening; one that shrinks is an `ExtentError` at the next batch. (Each
    batch asks for the sizes first: only a file that is cut between that and the copy still kills the process.)

    Args:
        path: The file. Empty files are allowed.

    Raises:
        OSError: It cannot be opened (`FileNotFoundError`, `IsADirectoryError`, …) or is no regular file.
    """

    def __init__(self, path: str | bytes | PathLike[str]) -> None: ...
    @property
    def path(self) -> str:
        """The path it was opened by."""
    @property
    def size(self) -> int:
        """Bytes, at opening."""
    @property
    def mtime_ns(self) -> int:
        """Time of the last change in nanoseconds, at opening."""
    def read(self, offset: int, length: int) -> bytes:
        """One extent.

        Raises:
            ExtentError: It is not inside the file, or the file has shrunk.
            ValueError: ``length`` is negative.
        """
    def check(self) -> None:
        """Raises `ExtentError` ("shrunk") when the file is smaller than at opening."""

def read_many(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> list[bytes | None]:
    """Reads many extents at once; None for a missing one.

    Args:
        files: The files that ``file`` counts.
        file: Per row the position in ``files``; or one int for all.
        offset: Per row, bytes.
        length: Per row, bytes, or -1.
        crc32: Per row, the CRC-32 that the bytes must have; None: not checked.

    Raises:
        ExtentError: The first row that cannot be read. All rows are checked against the sizes of their files before
            anything is allocated or read.
        OSError: The system could not read a file.
        ValueError: A file number out of range, or arrays of different lengths.
        TypeError: An array of another dtype or shape.
    """

def gather(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """As `read_many`, but into one buffer.

    Returns:
        ``data`` (uint8, the sum of the lengths) and ``offsets`` (int64, rows + 1): row i is
        ``data[offsets[i]:offsets[i + 1]]``, empty for a missing one.
    """

def gather_into(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None,
    out: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """As `gather`, into an array of the caller's.

    After an `ExtentError` of reason "checksum" or "shrunk", and after an `OSError`, what ``out`` holds is undefined.

    Returns:
        ``offsets`` (int64, rows + 1).

    Raises:
        ValueError: ``out`` is too small.
    """

def map_array(path: str | PathLike[str]) -> NDArray[np.uint8]:
    """Maps a whole local file as a read-only array, without keeping it open.

    Its pages are asked for at once, in the background. For files that are replaced as a whole and never cut, such as
    sidecars: touching a page that is no longer there kills the process.

    Returns:
        uint8[size of the file].

    Raises:
        OSError: The file cannot be opened or mapped.
    """

def announce(
    files: Sequence[MappedFile], file: NDArray[np.int32] | int, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> None:
    """Starts reading the extents of a future batch in the background, and returns at once.

    Raises:
        ExtentError: As `read_many`.
    """

def crc32_many(
    files: Sequence[MappedFile], file: NDArray[np.int32] | int, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The CRC-32 of each extent (uint32, rows), 0 for a missing one.

    Reads in pieces of 256 KiB, whatever the lengths, and in the order of the rows: fastest in the order of the file.

    Raises:
        ExtentError: As `read_many`.
    """

def crc32(data: _Bytes, value: int = 0) -> int:
    """CRC-32 as `zlib.crc32`: the same polynomial, the same continuation from ``value``, many times the speed."""

def hash_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A fixed 64-bit hash of each key (uint64, keys): part of the index format.

    FNV-1a, 64 bit, then the finaliser of splitmix64; all arithmetic modulo 2**64::

        h = 0xCBF29CE484222325
        for byte in key: h = (h ^ byte) * 0x100000001B3
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9
        h = (h ^ h >> 27) * 0x94D049BB133111EB
        h = h ^ h >> 31

    Args:
        data: The bytes of all keys.
        offsets: int64, keys + 1: key i is ``data[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: Offsets that descend or leave ``data``.
    """

def slice_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> list[str]:
    """The keys at ``rows``, decoded from UTF-8; bytes that are not UTF-8 become surrogates (``surrogateescape``).

    Raises:
        IndexError: A row that is negative or behind the last key.
        ValueError: Offsets that descend or leave ``data``.
    """

class TarMembers:
    """What a pass over a tar archive found: one row per member, in the order of the archive."""

    @property
    def names(self) -> NDArray[np.uint8]:
        """The bytes of all names, as stored: prefix joined, GNU and pax long names resolved, no NUL, usually UTF-8."""
    @property
    def name_offsets(self) -> NDArray[np.int64]:
        """int64, members + 1: name i is ``names[name_offsets[i]:name_offsets[i + 1]]``."""
    @property
    def offset(self) -> NDArray[np.int64]:
        """Where the data of each member begins."""
    @property
    def size(self) -> NDArray[np.int64]:
        """Bytes of data; 0 for links, directories, devices and pipes."""
    @property
    def header(self) -> NDArray[np.int64]:
        """Where the member begins: its first header block, that of its long name or pax records where it has them."""
    @property
    def type(self) -> NDArray[np.uint8]:
        """The type byte. 0, ``ord("0")`` and ``ord("7")`` are regular files.

        Changed from what the header says in two cases: an old header (type 0) whose name ends in a slash is a directory
        (``ord("5")``), and sparse files of the pax kind are given GNU's ``ord("S")``: the data of both kinds of sparse
        files is a packed form.
        """
    @property
    def end(self) -> int:
        """Where the last member ends, its padding included; ``start`` when there is none."""
    @property
    def zero_blocks(self) -> int:
        """Blocks of zeros at the end of the archive: 2 in a whole one, 1 or 0 where the end marker is cut."""
    @property
    def terminated(self) -> bool:
        """Whether the end marker of two zero blocks was found."""
    @property
    def tail(self) -> int:
        """Bytes from the first that is not zero behind the end marker to the end of the file; 0: nothing but zeros."""
    @property
    def problem(self) -> str | None:
        """The fault that ended the scan, None when there is none. The members before it are whole."""
    @property
    def problem_offset(self) -> int:
        """Where the block at fault begins; -1 without a fault. Scan on from a later multiple of 512 with ``start``."""
    def __len__(self) -> int:
        """Members."""

class TarScanner:
    """The scan of `scan_tar` for bytes that come from elsewhere.

    ::

        scanner = TarScanner(size)
        while (window := scanner.next_window()) is not None:
            scanner.feed(fetch(*window))
        members = scanner.finish()

    Args:
        size: Of the archive in bytes.
        start: Where a header is expected; a multiple of 512.
        smallest_window: Ask for at least so many bytes at once, where the file has them: with object stores, whose
            requests take long, as much as is transferred in the time of a request (1 MiB).

    Raises:
        ValueError: ``start`` is no multiple of 512 or not inside.
    """

    def __init__(self, size: int, start: int = 0, smallest_window: int = 0) -> None: ...
    def next_window(self) -> tuple[int, int] | None:
        """Offset and length of the bytes to feed next; None when the scan is over."""
    def feed(self, data: _Bytes) -> None:
        """Takes the bytes of the window.

        Raises:
            ValueError: They are too few, or the scan is over.
        """
    def finish(self) -> TarMembers:
        """The members; once.

        Raises:
            ValueError: There is more to feed, or it was called before.
        """

def scan_tar(file: MappedFile | _Bytes, start: int = 0) -> TarMembers:
    """Reads the headers of a tar archive: ustar, pax, GNU, and the headers before them.

    Header by header where members are large, in windows of 256 KiB where they are small. A fault in the archive ends
    the scan and is in the result: a header with a wrong checksum or cut by the end of the file, data beyond the end of
    the file, a malformed pax record, a size that is none, a long name or pax block over 1 MiB. Memory is bounded by the
    size of the archive.

    Args:
        file: The archive, or its bytes.
        start: Where a header is expected; a multiple of 512.

    Raises:
        ExtentError: The file shrank while it was read.
        OSError: The system could not read the file.
        ValueError: ``start`` is no multiple of 512 or not inside.
    """

class RecordioRecords:
    """What a pass over a RecordIO file found: one row per record, in the order of the file."""

    @property
    def offset(self) -> NDArray[np.int64]:
        """Where the header of the record's first part begins (the offset in an ``.idx``)."""
    @property
    def span(self) -> NDArray[np.int64]:
        """Bytes from the first of the payload, at ``offset + 8``, to the last of the last part.

        With one part this is the payload. With more, bytes ``offset`` to ``offset + 8 + span`` go through
        `join_recordio`.
        """
    @property
    def parts(self) -> NDArray[np.int32]:
        """Parts of the record: 1, or one more than the aligned magic words in its payload."""
    @property
    def end(self) -> int:
        """Where the last whole record ends, its padding included; ``start`` when there is none."""
    @property
    def problem(self) -> str | None:
        """The fault that ended the scan, None when there is none. The records before it are whole."""
    @property
    def problem_offset(self) -> int:
        """Where the part header at fault begins or should begin; -1 without a fault."""
    def __len__(self) -> int:
        """Records."""

def scan_recordio(file: MappedFile | _Bytes, start: int = 0) -> RecordioRecords:
    """Reads the part headers of an MXNet (dmlc) RecordIO file.

    A fault ends the scan and is in the result: a wrong magic word, a cut header or part, parts in the wrong order.
    Missing padding behind the last record is accepted.

    Args:
        file: The file, or its bytes.
        start: Where a part header is expected; a multiple of 4.

    Raises:
        ExtentError: The file shrank while it was read.
        OSError: The system could not read the file.
        ValueError: ``start`` is no multiple of 4 or not inside.
    """

def join_recordio(raw: _Bytes) -> bytes:
    """The payload of one record from its framed bytes.

    Args:
        raw: From the first part's header to the end of the last part's payload.

    Raises:
        ValueError: ``raw`` is not exactly one record (padding behind it counts as too much).
    """

def split_recordio(payload: _Bytes) -> bytes:
    """The framed bytes of one record, ready to write: parts with their headers, and padding to a multiple of 4.

    Raises:
        ValueError: The payload is longer than 2**29 - 1 bytes, the limit of the format.
    """
