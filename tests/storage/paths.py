"""Paths of a class that is not pathlib's."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


class Trickle(io.RawIOBase):
    """A raw handle that gives a few bytes at a time, as sockets do."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset
        return offset

    def readinto(self, buffer: Any, /) -> int:
        part = self._data[self._at : self._at + min(len(buffer), 3)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


class Elsewhere:
    """A path of a class of one's own."""

    def __init__(self, path: Path, *, trickle: bool = False) -> None:
        self._path, self._trickle = path, trickle

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def parent(self) -> Elsewhere:
        return Elsewhere(self._path.parent)

    def __truediv__(self, name: str, /) -> Elsewhere:
        return Elsewhere(self._path / name)

    def open(self, mode: str, /) -> IO[Any]:
        return Trickle(self._path.read_bytes()) if self._trickle else self._path.open(mode)  # type: ignore[return-value]

    def exists(self) -> bool:
        return self._path.exists()

    def is_dir(self) -> bool:
        return self._path.is_dir()

    def is_file(self) -> bool:
        return self._path.is_file()

    def iterdir(self) -> Iterator[Any]:
        return (Elsewhere(path) for path in self._path.iterdir())

    def stat(self) -> os.stat_result:
        return self._path.stat()

    def __str__(self) -> str:
        return f"elsewhere:{self._path.name}"
