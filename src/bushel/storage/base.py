"""What storage back-ends and their users agree on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bushel.errors import UnsupportedError
from bushel.kernels import ExtentError
from bushel.storage.objects.client import SCHEMES
from bushel.storage.objects.location import ObjectPath

__all__ = ["AnyPath", "ExtentError", "Extents", "File", "as_path", "extent_error", "is_local"]


class AnyPath(Protocol):
    """What Bushel asks of a path: `pathlib.Path` has it, and so have UPath and other path-like objects."""

    @property
    def name(self) -> str:
        """The last component."""
        ...

    @property
    def parent(self) -> AnyPath:
        """The folder it is in."""
        ...

    def __truediv__(self, name: str, /) -> AnyPath: ...

    def open(self, mode: str, /) -> IO[Any]:
        """Open it, `rb` or `wb`."""
        ...

    def exists(self) -> bool:
        """Whether it is there."""
        ...

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        ...

    def is_file(self) -> bool:
        """Whether it is a file."""
        ...

    def iterdir(self) -> Iterator[Any]:
        """What is in the folder, as paths."""
        ...

    def stat(self) -> Any:
        """At least `st_size`, in bytes."""
        ...


@runtime_checkable
class File(Protocol):
    """An open file that is read by position: safe for threads, without a shared seek pointer."""

    @property
    def path(self) -> str:
        """The path as text."""
        ...

    @property
    def size(self) -> int:
        """Bytes, when the file was opened."""
        ...

    @property
    def mtime_ns(self) -> int:
        """Modification time in nanoseconds, 0 when not known."""
        ...

    def read(self, offset: int, length: int, /) -> bytes:
        """The bytes of one extent.

        Raises:
            ExtentError: The extent does not lie within the file.
        """
        ...


@dataclass(frozen=True, slots=True)
class Extents:
    """A batch of byte strings to read.

    Attributes:
        file: Number of the file of each, int32[n], or one number for all.
        offset: int64[n], bytes.
        length: int64[n], bytes; -1 for a field that is missing.
        crc32: uint32[n] to check against, or None.
    """

    file: npt.NDArray[np.int32] | int
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc32: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def file_of(self, row: int) -> int:
        """Number of the file of one extent."""
        return self.file if isinstance(self.file, int) else int(self.file[row])


def extent_error(
    row: int, reason: Literal["beyond", "checksum", "shrunk"], expected: int, found: int, path: str
) -> ExtentError:
    """The error that the kernels raise for local files, for files of other storage."""
    error = ExtentError(f"row {row} of {path}: {reason}, expected {expected}, found {found}")
    error.row, error.reason, error.expected, error.found = row, reason, expected, found
    return error


def as_path(path: object) -> AnyPath:
    """Turn what a user gives as a path into an object with `open()`.

    Text is a local path, or a URL: of an object store or an HTTP server (`ObjectPath`), or, with another scheme, one
    of universal-pathlib's when that is installed.

    Raises:
        UnsupportedError: The scheme needs universal-pathlib.
        ValueError: The URL names no bucket or host.
        TypeError: It is no path at all.
    """
    if isinstance(path, str) and "://" in path:
        if path.startswith("file://"):
            return Path(path.removeprefix("file://"))
        if path.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
            return ObjectPath.parse(path)
        try:
            from upath import UPath
        except ImportError as error:
            scheme = path.split("://", 1)[0]
            raise UnsupportedError(
                f"{path}: {scheme}:// needs a package that is not installed; run: pip install universal-pathlib"
            ) from error
        remote: AnyPath = UPath(path)
        return remote
    if isinstance(path, Path):
        return path
    if isinstance(path, ObjectPath):
        return path
    if not isinstance(path, str | os.PathLike) or (hasattr(path, "open") and hasattr(path, "iterdir")):
        if hasattr(path, "open") and hasattr(path, "name"):
            return path  # type: ignore[return-value]
        raise TypeError(f"expected a path or an object with open(), not {type(path).__name__}")
    return Path(os.fsdecode(path))


def is_local(path: AnyPath) -> bool:
    """Whether the path is one of this machine's file system."""
    return isinstance(path, Path)
