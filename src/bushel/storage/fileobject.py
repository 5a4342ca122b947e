"""Files of any path-like object that has `open()`: UPath, fsspec, a path class of your own."""

from __future__ import annotations

from typing import IO, Any

from .base import AnyPath, extent_error


class FileObject:
    """A file that is read by position through `path.open("rb")`.

    Every read opens a handle of its own, so threads and forked processes never share a seek
    pointer.

    Raises:
        FileNotFoundError: The file does not exist.
    """

    __slots__ = ("_path", "mtime_ns", "size")

    def __init__(self, path: AnyPath) -> None:
        self._path = path
        stat = path.stat()
        self.size = int(stat.st_size)
        self.mtime_ns = int(
            getattr(stat, "st_mtime_ns", 0) or 1e9 * float(getattr(stat, "st_mtime", 0) or 0)
        )

    @property
    def path(self) -> str:
        """The path as text."""
        return str(self._path)

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent.

        Raises:
            ExtentError: The extent is not within the file, or the file has shrunk.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise extent_error(0, "beyond", offset + length, self.size, self.path)
        with self._path.open("rb") as handle:
            handle.seek(offset)
            data = _read_fully(handle, length)
        if len(data) != length:
            raise extent_error(0, "shrunk", self.size, offset + len(data), self.path)
        return data


def _read_fully(handle: IO[Any], length: int) -> bytes:
    """Read until `length` bytes are read or the file ends: raw handles may return fewer at a time."""
    parts, missing = [], length
    while missing and (part := handle.read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
