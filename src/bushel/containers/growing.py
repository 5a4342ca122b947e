"""Arrays that grow piece by piece: in memory while they are small, then in a temporary file."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["GrowingArrays"]

_IN_MEMORY = 8 << 20
"""Bytes that are kept in memory before they are written to a file."""

_COPY = 1 << 20
_ALIGNMENT = 64


class GrowingArrays:
    """One-dimensional arrays by name, which grow independently.

    Args:
        limit: Bytes of pieces that are kept in memory. When there are more, they go to a temporary file.
    """

    def __init__(self, limit: int = _IN_MEMORY) -> None:
        self._limit, self._size = limit, 0
        self._pieces: dict[str, list[npt.NDArray[Any]]] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._segments: dict[str, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def append(self, name: str, piece: npt.NDArray[Any]) -> None:
        """Add elements to an array. All pieces of an array have one dtype.

        Raises:
            OSError: The temporary file cannot be written.
        """
        self._dtypes.setdefault(name, piece.dtype)
        self._pieces.setdefault(name, []).append(piece)
        self._size += piece.nbytes
        if self._size > self._limit:
            self._flush()

    def finish(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays, which can be written to. Arrays in a temporary file are mapped, and the file has no name.

        Raises:
            OSError: The temporary file cannot be written.
        """
        if self._file is None:
            return {name: np.concatenate(pieces) for name, pieces in self._pieces.items()}
        self._flush()
        found: dict[str, npt.NDArray[Any]] = {}
        with self._file as source, tempfile.TemporaryFile(prefix="bushel-") as target:
            for name, segments in self._segments.items():
                start = target.tell() + -target.tell() % _ALIGNMENT
                target.seek(start)
                for offset, size in segments:
                    _copy(source, target, offset, size)
                count = (target.tell() - start) // self._dtypes[name].itemsize
                target.flush()
                array = np.memmap(target, self._dtypes[name], "r+", start, (count,)) if count else np.empty(0)
                found[name] = array.view(np.ndarray) if count else array.astype(self._dtypes[name])
        return found

    def _flush(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="bushel-")  # noqa: SIM115 - finish() closes it
        for name, pieces in self._pieces.items():
            offset = self._file.tell()
            for piece in pieces:
                self._file.write(np.ascontiguousarray(piece).data)
            self._segments.setdefault(name, []).append((offset, self._file.tell() - offset))
        self._pieces.clear()
        self._size = 0


def _copy(source: IO[bytes], target: IO[bytes], offset: int, size: int) -> None:
    source.seek(offset)
    while size:
        data = source.read(min(size, _COPY))
        target.write(data)
        size -= len(data)
