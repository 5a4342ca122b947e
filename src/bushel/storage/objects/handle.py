"""An object as a file handle, for what is read from front to back."""

from __future__ import annotations

import io

from typing_extensions import Buffer

from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.remotefile import RemoteFile

__all__ = ["open_handle"]

_CHUNK = 1 << 24
"""Bytes fetched at a time, by two requests at once."""


class _Handle(io.RawIOBase):
    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file, self._position = file, 0
        self.name = file.path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = offset + (0, self._position, self._file.size)[whence]
        if position < 0:
            raise ValueError(f"{self.name}: byte {position} lies before its beginning")
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        size = max(0, min(len(view), self._file.size - self._position))
        if size:
            view[:size] = self._file.read(self._position, size)
        self._position += size
        return size


def open_handle(path: ObjectPath) -> io.BufferedReader:
    """Open an object for reading.

    Raises:
        FileNotFoundError: There is none.
        OSError: The store refuses, or cannot be reached.
    """
    return io.BufferedReader(_Handle(RemoteFile.open(path)), _CHUNK)
