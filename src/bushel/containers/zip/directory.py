"""The directory at the end of a zip archive, which is read in windows, and the headers before the data of members.

Nothing in it is trusted: a kernel checks that entries are in the directory, and `data_of` that
members are in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bushel._runtime.arrays import I64, U8, U32
from bushel.errors import FormatError
from bushel.kernels import MappedFile, ZipScanner, zip_data
from bushel.storage import ExtentError, Extents, File, gather

ENCRYPTED = 0x1
"""The flag of entries whose members are encrypted."""

STORED = 0
"""The compression method of members that are not compressed."""

_HINT = "the archive is damaged or incomplete: write or download it again"
_END, _LOCATOR, _END_64 = (
    struct.Struct("<4s4H2LH"),
    struct.Struct("<4sLQL"),
    struct.Struct("<4sQ2H2L4Q"),
)
# bytes that have all of them, with the longest comment
_TAIL = (1 << 16) + _END.size + _LOCATOR.size + _END_64.size
_ONLY_DISK = (0, 0xFFFF)  # the number is in the record of zip64 if it is 0xFFFF
_LOCAL_HEADER = 30
# bytes of the directory that are read at once: of local files, and of others
_WINDOW, _FAR_WINDOW = 1 << 20, 8 << 20


class Entries(NamedTuple):
    """Some entries of a directory, in its order."""

    names: U8  # the names in UTF-8, one after another
    name_offsets: I64  # int64[entries + 1] into `names`
    header: I64  # offset of the header before the data
    stored: I64  # bytes in the file
    size: I64  # bytes of the value
    crc32: U32  # CRC-32 of the value
    method: np.ndarray[tuple[int], np.dtype[np.uint16]]
    flags: np.ndarray[tuple[int], np.dtype[np.uint16]]

    def name(self, row: int) -> str:
        """Return the name of one member."""
        return name_in(self.names, self.name_offsets, row)


def name_in(names: U8, offsets: I64, row: int) -> str:
    """Return one of some names that follow one another."""
    return (
        names[int(offsets[row]) : int(offsets[row + 1])]
        .tobytes()
        .decode("utf-8", "surrogateescape")
    )


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the directory of an archive is.

    Attributes:
        file: The archive.
        start: Offset of the directory in bytes.
        size: Its size in bytes.
        shift: Bytes of the file before the archive, which offsets in it do not count.
        tail: The last bytes of the file.
    """

    file: File
    start: int
    size: int
    shift: int
    tail: bytes

    def entries(self, *, hidden: bool = False) -> Iterator[tuple[float, Entries]]:
        """Yield the entries in parts, each with the share of the directory that is read then.

        Args:
            hidden: Whether to keep folders, files whose names begin with a dot, and the folder
                `__MACOSX`.

        Raises:
            FormatError: The directory is damaged, or the file has shrunk.
        """
        scanner = ZipScanner(self.size, self.shift, hidden)
        step = _WINDOW if isinstance(self.file, MappedFile) else _FAR_WINDOW
        window = step
        while scanner.end < self.size:
            used = scanner.feed(self._read(scanner.end, min(window, self.size - scanner.end)))
            if scanner.problem is not None:
                raise unreadable(scanner.problem, self.file, self.start + scanner.end)
            window = step if used else scanner.need
            yield scanner.end / self.size, Entries(*scanner.take())

    def _read(self, position: int, length: int) -> bytes | memoryview:
        """Return some bytes of the directory."""
        offset = self.start + position
        first = self.file.size - len(self.tail)
        if offset >= first:
            return self.tail[offset - first :][:length]
        return _read(self.file, offset, length)


def directory_of(file: File) -> Directory:
    """Find the directory of an archive, by the records at its end.

    Raises:
        FormatError: The file is not a zip archive, or is one of several that make up an archive.
    """
    tail = bytes(_read(file, max(file.size - _TAIL, 0), min(_TAIL, file.size)))
    at = len(tail) - _END.size
    if at < 0 or tail[at : at + 4] != b"PK\5\6" or tail[-2:] != b"\0\0":  # without a comment
        at = tail.rfind(b"PK\5\6")
    if not 0 <= at <= len(tail) - _END.size:
        raise unreadable("it does not end with a directory", file)
    _, disk, _, _, _, size, offset, _ = _END.unpack_from(tail, at)
    end = file.size - len(tail) + at
    before = at - _LOCATOR.size
    disks = 1
    if before >= 0 and tail[before : before + 4] == b"PK\6\7":
        _, first, _, disks = _LOCATOR.unpack_from(tail, before)
        disk = disk or first
        at = before - _END_64.size
        if at >= 0 and tail[at : at + 4] == b"PK\6\6":
            *_, size, offset = _END_64.unpack_from(tail, at)
            end -= _LOCATOR.size + _END_64.size
    if disk not in _ONLY_DISK or disks > 1:
        raise FormatError(
            "it is the last of several files of one archive, which Bushel does not read",
            file=file.path,
            offset=end,
            hint="join them: `zip -s 0 parts.zip --out whole.zip`",
        )
    if size > end:
        raise unreadable(f"its directory of {size} bytes would begin before the file", file, end)
    return Directory(file, end - size, size, end - size - offset, tail)


def data_of(file: File, header: I64) -> I64:
    """Return where the data of members begin, given the offsets of their headers; -1 where no header is.

    Raises:
        FormatError: The file has shrunk.
    """
    if isinstance(file, MappedFile):
        try:
            return zip_data(file, header)
        except ExtentError as error:
            raise _shrunk(file, error) from error
    starts = np.full(len(header), -1, np.int64)
    inside = np.flatnonzero((header >= 0) & (header <= file.size - _LOCAL_HEADER))
    headers = header[inside]
    data, _ = gather([file], Extents(0, headers, np.full(len(headers), _LOCAL_HEADER, np.int64)))
    heads = data.reshape(-1, _LOCAL_HEADER)
    lengths = np.ascontiguousarray(heads[:, 26:30]).view("<u2").astype(np.int64)
    right = (heads[:, :4] == np.frombuffer(b"PK\3\4", np.uint8)).all(axis=1)
    starts[inside] = np.where(right, headers + _LOCAL_HEADER + lengths.sum(axis=1), -1)
    return starts


def unreadable(problem: str, file: File, offset: int | None = None) -> FormatError:
    """Return the error of an archive that cannot be read."""
    return FormatError(
        f"not a zip archive that can be read: {problem}", file=file.path, offset=offset, hint=_HINT
    )


def _read(file: File, offset: int, length: int) -> bytes | memoryview:
    try:
        return file.read(offset, length)
    except ExtentError as error:
        raise _shrunk(file, error) from error


def _shrunk(file: File, error: ExtentError) -> FormatError:
    return FormatError("the file shrank while it was read", file=file.path, offset=error.found)
