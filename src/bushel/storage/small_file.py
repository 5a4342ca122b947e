"""A small local file that is opened for each read and closed after it, such as a photo in a folder of a million."""

from __future__ import annotations

import os
from collections.abc import Callable

from bushel.errors import FormatError

from .base import extent_error


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
        if offset < 0 or length < 0 or offset + length > self.size:
            raise extent_error(0, "beyond", offset + length, self.size, self.path)
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
    return FormatError(
        f"the file has changed since the dataset was opened: {size} bytes, then {known}",
        file=path,
        hint="open the dataset again",
    )
