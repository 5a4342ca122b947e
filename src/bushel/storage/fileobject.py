"""Adapters between files that are read by position and file objects.

A `FileObject` reads any path-like object that has `open()`: UPath, fsspec, a path class of your own.
A `Seekable` is an open file as a stream in which a library, such as zipfile, can seek. A `SmallFile`
is opened for each read and closed after it, such as a photo in a folder of a million.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable

from typing_extensions import Buffer

from bushel.errors import FormatError
from bushel.kernels import ExtentError

from .base import AnyPath, File, check_extent, extent_error


class FileObject:
    """A file that is read by position through `path.open("rb")`.

    Every read opens a handle of its own, so threads and forked processes never share a seek
    pointer.

    Raises:
        FileNotFoundError: The file does not exist.
    """

    def __init__(self, path: AnyPath) -> None:
        self._path, self.path = path, str(path)
        stat = path.stat()
        self.size = int(stat.st_size)
        self.mtime_ns = int(
            getattr(stat, "st_mtime_ns", 0) or 1e9 * float(getattr(stat, "st_mtime", 0) or 0)
        )

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent.

        Raises:
            ExtentError: The extent is not within the file, or the file has shrunk.
        """
        check_extent(self, offset, length)
        data = bytearray()
        with self._path.open("rb") as handle:
            handle.seek(offset)
            # raw handles may return fewer at a time
            while len(data) < length and (part := handle.read(length - len(data))):
                data += part
        if len(data) != length:
            raise extent_error(0, "shrunk", self.size, offset + len(data), self.path)
        return bytes(data)


class Seekable(io.RawIOBase):
    """A stream over an open file, for one thread. Wrap it in `io.BufferedReader` for many small reads.

    Args:
        file: The file, which stays open.
        start: Where the stream begins in it.
        size: Bytes of the stream; None for all to the end.

    Examples:
        >>> import zipfile
        >>> from bushel.storage import Seekable, open_file
        >>> with zipfile.ZipFile("one.zip", "w") as archive:
        ...     archive.writestr("a.txt", "text")
        >>> zipfile.ZipFile(Seekable(open_file(Path("one.zip")))).namelist()
        ['a.txt']
    """

    def __init__(self, file: File, start: int = 0, size: int | None = None) -> None:
        self._file, self._start, self._at = file, start, 0
        self._size = file.size - start if size is None else size

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position, which may be after the end.

        Raises:
            io.UnsupportedOperation: The position is negative. It is an OSError, and a ValueError.
        """
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise io.UnsupportedOperation(
                f"position {base + offset} is before the start of the file"
            )
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        """Read up to the end of the buffer or the file.

        Raises:
            OSError: The file cannot be read.
        """
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        if count:
            view[:count] = memoryview(self._read(self._at, count))
            self._at += count
        return count

    def _read(self, at: int, size: int) -> Buffer:
        try:
            return self._file.read(self._start + at, size)
        except ExtentError as error:  # it has shrunk
            raise OSError(str(error)) from error


class SmallFile:
    """A file of known size and time. Each read checks that they have not changed.

    Attributes:
        path: Its path.
        size: Size in bytes.
        mtime_ns: Time of modification in nanoseconds.
        forget: Called if the file has changed.
    """

    __slots__ = ("forget", "mtime_ns", "path", "size")

    def __init__(
        self, path: str, size: int, mtime_ns: int, forget: Callable[[], None] | None = None
    ) -> None:
        self.path, self.size, self.mtime_ns, self.forget = path, size, mtime_ns, forget

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent.

        Raises:
            ExtentError: The extent is not within the file.
            FormatError: The file has changed.
            OSError: The file cannot be read.
        """
        check_extent(self, offset, length)
        # no waiting for a named pipe
        number = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stat = os.fstat(number)
            if stat.st_size != self.size or stat.st_mtime_ns != self.mtime_ns:
                raise changed_since(self.path, stat.st_size, self.size, self.forget)
            data = os.pread(number, length, offset)
            while len(data) < length:
                more = os.pread(number, length - len(data), offset + len(data))
                if not more:
                    raise extent_error(0, "shrunk", offset + length, offset + len(data), self.path)
                data += more
            return data
        finally:
            os.close(number)


def changed_since(
    path: str, size: int, known: int, forget: Callable[[], None] | None
) -> FormatError:
    """Remove the facts that were kept about a file that has changed, and return the error.

    Args:
        path: The file.
        size: Its size now, in bytes.
        known: Its size when the dataset was opened.
        forget: Removes the kept index, so that the next opening looks at all files; None without a
            kept index.
    """
    if forget is not None:
        forget()
    how = f"it had {known} bytes, and has {size}"
    if size == known:
        how = "it was written again, with as many bytes"
    return FormatError(
        f"the file has changed since the dataset was opened: {how}",
        path,
        hint="open the dataset again",
    )
