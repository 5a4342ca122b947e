"""Paths, open files and extents: the types that storage back-ends and their users share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I32, I64, U32
from bushel.kernels import ExtentError

if TYPE_CHECKING:
    import os


__all__ = [
    "FROM_TAG",
    "AnyLocation",
    "AnyPath",
    "AnySource",
    "ExtentError",
    "Extents",
    "File",
    "StorePath",
    "StoredObject",
    "check_extent",
    "extent_error",
    "filter_error",
]

FROM_TAG = 1 << 62
"""Stamps of objects are made from their ETags and are at least this; times of modification are below it until 2116."""


class StorePath:
    """Base class of paths in object stores, which can be recognized without importing the code of the stores."""

    __slots__ = ()


class StoredObject:
    """Base class of open objects of stores, which can be recognized in the same way."""

    __slots__ = ()


class AnyPath(Protocol):
    """The methods of paths that Bushel needs: `pathlib.Path` has it, and so have UPath and other path-like objects."""

    @property
    def name(self) -> str:
        """The last component."""

    @property
    def parent(self) -> AnyPath:
        """The folder it is in."""

    def __truediv__(self, name: str, /) -> AnyPath: ...

    def open(self, mode: str, /) -> IO[Any]:
        """Open the file; `mode` is `rb` or `wb`."""

    def exists(self) -> bool:
        """Return whether a file or folder exists."""

    def is_dir(self) -> bool:
        """Return whether it is a folder."""

    def is_file(self) -> bool:
        """Return whether it is a file."""

    def iterdir(self) -> Iterator[Any]:
        """Yield the paths of the entries of the folder."""

    def stat(self) -> Any:
        """Return an object with `st_size`, the size in bytes; `st_mtime_ns` is used if it exists."""


AnyLocation: TypeAlias = "str | os.PathLike[str] | AnyPath"
"""A path or URL as text, a `pathlib.Path`, or a path-like object with `open()`, such as a `UPath`."""
AnySource: TypeAlias = "AnyLocation | Sequence[AnyLocation]"
"""A location or several; text may be a pattern, such as `train-{000..146}.tar`."""


@runtime_checkable
class File(Protocol):
    """An open file that is read by position: safe for threads, without a shared seek pointer."""

    @property
    def path(self) -> str:
        """The path as text."""

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""

    @property
    def mtime_ns(self) -> int:
        """Modification time in nanoseconds, 0 if unknown."""

    def read(self, offset: int, length: int, /) -> bytes:
        """Read one extent.

        Args:
            offset: Bytes from the start of the file.
            length: Number of bytes.

        Raises:
            ExtentError: The extent is not within the file.
        """


class Extents(Struct, frozen=True):
    """A batch of byte strings to read.

    Attributes:
        file: Number of the file of each, int32[n], or one number for all.
        offset: int64[n], bytes.
        length: int64[n], bytes; -1 for a field that is missing.
        crc32: uint32[n] to check against, or None.
    """

    file: I32 | int
    offset: I64
    length: I64
    crc32: U32 | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def numbers(self) -> I32:
        """Return the number of the file of each extent, int32[n]."""
        if isinstance(self.file, int):
            return np.full(len(self), self.file, np.int32)
        return self.file

    def file_of(self, row: int) -> int:
        """Return the number of the file of one extent."""
        return int(self.numbers()[row])


def check_extent(file: File, offset: int, length: int) -> None:
    """Raise ExtentError if an extent is not within a file."""
    if offset < 0 or length < 0 or offset + length > file.size:
        raise extent_error(0, "beyond", offset + length, file.size, file.path)


def extent_error(
    row: int,
    reason: Literal["beyond", "checksum", "shrunk", "filter"],
    expected: int,
    found: int,
    path: str,
) -> ExtentError:
    """Return the error that the kernels raise for local files, for a file of another storage."""
    error = ExtentError(f"row {row} of {path}: {reason}, expected {expected}, found {found}")
    error.row, error.reason, error.expected, error.found = row, reason, expected, found
    return error


def filter_error(row: int, what: str, size: int, path: str) -> ExtentError:
    """Return the error for an extent in a block that does not expand: the reason `what`, the block's `size`."""
    error = ExtentError(f"row {row} of {path}: {what}")
    error.row, error.reason, error.expected, error.found, error.what = row, "filter", size, -1, what
    return error
