"""A file under construction: buffered appending, and truncation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

from typing_extensions import Buffer

from bushel.errors import name_file, naming

from .whole import write_all

_BUFFER = 1 << 20
_LARGE = 1 << 15  # a copy of more bytes than this costs more than the system call that it saves
_SLICE = 1 << 18
"""Least bytes of one system call. Linux keeps the bytes of a larger one in larger pages, and copies them slower."""
_MOST_PIECES = 1024  # IOV_MAX

_Piece = bytes | bytearray | memoryview


class Sink:
    """A file under construction, to which bytes are appended, and which can be truncated.

    The last bytes are buffered. A write that fails, for example on a full disk, leaves the sink as
    it was: the same bytes, and others after them, can be written again.
    """

    def __init__(self, path: Path, position: int = 0) -> None:
        """Open the file, keeping its first `position` bytes (0: a new file).

        Raises:
            FileExistsError: `position` is 0 and the file exists.
            OSError: The file cannot be written, or is shorter than `position`.
        """
        self.path = path
        self.position = self._written = position
        self._pieces: list[_Piece] = []  # buffered, followed by
        self._waiting = bytearray()  # bytes copied since the last piece
        new = position == 0 and not path.exists()
        if not new and path.stat().st_size < position:
            raise OSError(
                f"{path} has {path.stat().st_size} bytes, but {position} were written before"
            )
        self._handle: FileIO | None = open(path, "xb" if new else "r+b", buffering=0)  # noqa: SIM115 - see close()
        if not new:  # ext4 writes a file that was ever truncated to its disk when it is closed
            self._truncate(position)

    def write(self, data: Buffer) -> int:
        """Append bytes, and return their offset."""
        start = self.position
        raw = data if isinstance(data, bytes) else memoryview(data)
        size = len(raw) if isinstance(raw, bytes) else raw.nbytes
        if start - self._written + size > _BUFFER:
            self.flush()
        if size < _LARGE:
            self._waiting += raw
        elif isinstance(raw, bytes) and size < _BUFFER:
            if self._waiting:
                self._pieces.append(bytes(self._waiting))
                self._waiting.clear()
            self._pieces.append(raw)
        else:  # too large to buffer, or it may be changed in the meantime
            self.flush()
            if isinstance(raw, bytes):
                self._put([raw])
            else:
                with raw, raw.cast("B") as view:
                    self._put([view])
            self._written += size
        self.position = start + size
        return start

    def write_pieces(self, pieces: Sequence[_Piece]) -> int:
        """Append many pieces, which are passed to the operating system at once, without a copy.

        Returns:
            The offset of the first one.
        """
        self.flush()
        start = self.position
        self._put(pieces)
        self._written = self.position = start + sum(map(len, pieces))
        return start

    def truncate(self, position: int) -> None:
        """Truncate the file to `position` bytes."""
        if position < self._written:
            self._drop()
            self._truncate(position)
            self._written = position
        elif position <= self.position:
            rest = b"".join([*self._pieces, self._waiting])[: position - self._written]
            self._drop()
            self._waiting += rest
        else:
            self.flush()
            self._truncate(position)
            self._written = position
        self.position = position

    def flush(self) -> None:
        """Pass everything written so far to the operating system."""
        if self.position > self._written:
            self._put([*self._pieces, self._waiting])
            self._drop()
            self._written = self.position

    def close(self, *, sync: bool = True) -> None:
        """Close the file. With `sync`, wait until it is on disk.

        If the disk reports an error then, the file becomes empty: what the system could not write
        may be lost although it can still be read, and waiting again would not report it.
        """
        if self._handle is None:
            return
        try:
            self.flush()
            if sync:
                try:
                    os.fsync(self._handle.fileno())
                except OSError as error:
                    name_file(error, self.path)
                    with suppress(OSError):
                        self._handle.truncate(0)
                    raise
        finally:
            self._handle.close()
            self._handle = None

    def abandon(self) -> None:
        """Close the file without writing the buffer."""
        self._drop()
        self.position = self._written
        self.close(sync=False)

    @property
    def _open(self) -> FileIO:
        if self._handle is None:
            raise ValueError(f"{self.path} is closed")
        return self._handle

    def _truncate(self, position: int) -> None:
        with naming(self.path):
            self._open.truncate(position)

    def _drop(self) -> None:
        self._pieces.clear()
        # not cleared: after Ctrl-C a traceback may still hold a view of it
        self._waiting = bytearray()

    def _put(self, pieces: Sequence[_Piece]) -> None:
        """Append pieces in few system calls, so that other threads interrupt them less often."""
        handle, end = self._open, self._written
        with ExitStack() as stack:
            try:
                for views in _slices(pieces, stack):
                    written, size = os.pwritev(handle.fileno(), views, end), sum(map(len, views))
                    if written < size:
                        write_all(handle, b"".join(views)[written:], end + written)
                    end += size
            except BaseException as error:
                if isinstance(error, OSError):
                    name_file(error, self.path)
                self._truncate(self._written)
                raise


def _slices(pieces: Sequence[_Piece], stack: ExitStack) -> Iterator[list[_Piece]]:
    """Yield pieces, and parts of large ones, for one system call after another."""
    views: list[_Piece] = []
    size = 0
    for piece in pieces:
        for part in (piece,) if len(piece) <= 2 * _SLICE else _parts(piece, stack):
            views.append(part)
            size += len(part)
            if size >= _SLICE or len(views) == _MOST_PIECES:
                yield views
                views, size = [], 0
    if views:
        yield views


def _parts(piece: _Piece, stack: ExitStack) -> Iterator[memoryview]:
    view = stack.enter_context(memoryview(piece))
    for at in range(0, len(view), _SLICE):
        yield stack.enter_context(view[at : at + _SLICE])
