"""An open file as a stream in which a library, such as zipfile, can seek. Each stream has its own pointer."""

from __future__ import annotations

import io
import os

from typing_extensions import Buffer

from bushel.kernels import ExtentError

from .base import File


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
