"""A small local file that is opened for each read and closed after it, such as one of a million photos of a folder."""

from __future__ import annotations

import os

from bushel.errors import FormatError
from bushel.storage.base import extent_error

__all__ = ["SmallFile"]


class SmallFile:
    """A file of known size and time, which each read compares with those that the file has then.

    Attributes:
        path: Its path.
        size: Size in bytes.
        mtime_ns: Time of modification in nanoseconds.
    """

    __slots__ = ("mtime_ns", "path", "size")

    def __init__(self, path: str, size: int, mtime_ns: int) -> None:
        self.path, self.size, self.mtime_ns = path, size, mtime_ns

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent.

        Raises:
            ExtentError: The extent does not lie within the file.
            FormatError: The file has changed.
            OSError: The file cannot be read.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise extent_error(0, "beyond", offset + length, self.size, self.path)
        number = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            stat = os.fstat(number)
            if stat.st_size != self.size or stat.st_mtime_ns != self.mtime_ns:
                raise FormatError(
                    f"the file has changed since the dataset was opened: {stat.st_size} bytes, then {self.size}",
                    file=self.path,
                    hint="open the dataset again",
                )
            data = os.pread(number, length, offset)
            while len(data) < length:
                more = os.pread(number, length - len(data), offset + len(data))
                if not more:
                    raise extent_error(0, "shrunk", offset + length, offset + len(data), self.path)
                data += more
            return data
        finally:
            os.close(number)
