"""Read many remote files of a source at once, before their samples are made."""

from __future__ import annotations

import copy
import io
import os
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path, is_local, read_all, read_whole
from bushel.storage.names import below


class Fetched:
    """The path of a file that has been read, or could not be read.

    Args:
        path: The path.
        found: The file's bytes, or the error of reading them.
    """

    __slots__ = ("_found", "_path")

    def __init__(self, path: AnyPath, found: bytes | Exception) -> None:
        self._path, self._found = path, found

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str) -> AnyPath:
        return self._path / name

    @property
    def name(self) -> str:
        """The last component."""
        return self._path.name

    @property
    def parent(self) -> AnyPath:
        """The folder that holds it."""
        return self._path.parent

    def read_bytes(self) -> bytes:
        """Return the file's bytes. Raise OSError if the file could not be read."""
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def open(self, mode: str = "rb") -> IO[Any]:
        """Return a file object over the file's bytes."""
        if mode != "rb":
            raise ValueError(f"{self} can only be opened for reading, not with mode {mode!r}")
        return io.BytesIO(self.read_bytes())

    def exists(self) -> bool:
        """Return whether the path exists."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Return whether the path is a file."""
        return isinstance(self._found, bytes)

    def is_dir(self) -> bool:
        """Return whether the path is a folder."""
        return isinstance(self._found, FileNotFoundError) and self._path.is_dir()

    def iterdir(self) -> Iterator[Any]:
        """Yield the paths in the folder."""
        return self._path.iterdir()

    def stat(self) -> Any:
        """Return an object with at least `st_size`, in bytes."""
        return self._path.stat()


class FileSource(ABC):
    """Base of the sources that read one or more files for each sample: see `Fetching`."""

    _ahead: Mapping[str, Fetched] = {}

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def _files(self, position: int) -> Sequence[AnyPath]:
        """Return the files of a sample."""

    @property
    def remote(self) -> bool:
        """Whether the files are remote. The files of the first sample decide."""
        with suppress(Exception):  # a damaged first sample raises when it is read
            return len(self) > 0 and not all(map(is_local, self._files(0)))
        return False

    def fetched(self, positions: Sequence[int]) -> Self:
        """Return the same source with the files of these samples in memory."""
        paths: list[AnyPath] = []
        for position in positions:
            with suppress(Exception):  # as above
                paths += self._files(position)
        other = copy.copy(self)
        other._ahead = {
            str(path): Fetched(path, content)
            for path, content in zip(paths, read_all(paths), strict=True)
        }
        return other

    def _at(self, path: AnyPath) -> AnyPath:
        """Return the path, or its `Fetched` if it has been read."""
        if self._ahead:
            return self._ahead.get(str(path), path)
        return path


def read_file(path: AnyPath) -> bytes:
    """Return the bytes of a file, which may have been read already."""
    if isinstance(path, Fetched):
        return path.read_bytes()
    return read_whole(path)


@contextmanager
def relative_to(root: AnyPath, what: str) -> Iterator[None]:
    """Say in an error of the body about a missing local file which folder its relative path starts from.

    Args:
        root: The folder.
        what: A name of the folder, such as "the folder of the list".
    """
    try:
        yield
    except FileNotFoundError as error:
        if error.strerror is not None:
            error.strerror += (
                f" (relative paths start from {str(root) or '.'}, {what}: root="
                " names another folder)"
            )
        raise


def caller_path(root: AnyPath, name: str) -> AnyPath:
    """Return the path of a file that the caller's own program names: relative to a folder, or any path."""
    if "://" in name:
        return as_path(name)
    return root / name


def listed(root: AnyPath, name: str) -> AnyPath:
    """Return the path of a file that a list names: relative to a folder, an absolute path in it, or a URL.

    Raises:
        FormatError: The name leads out of the folder, or is a URL of this machine's files.
    """
    if "://" in name and not name.startswith("file:"):
        return as_path(name)
    inner = posixpath.normpath(name.removeprefix("file://"))
    if isinstance(root, Path) and inner.startswith("/"):
        inner = posixpath.relpath(inner, os.path.abspath(root))
    try:
        return below(root, inner, any_text=True)
    except FormatError:
        hint = (
            f"name a folder that holds all files of the list, such as root={'/'!r}, if you"
            " trust the list"
        )
        raise FormatError(
            f"{name!r} leads out of the folder of the list's files", file=str(root), hint=hint
        ) from None
