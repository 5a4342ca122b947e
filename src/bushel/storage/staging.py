"""Files that appear under their final names only when they are whole and on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

from typing_extensions import Buffer

from bushel.storage.base import AnyPath

__all__ = ["Sink", "Staging"]

_BUFFER = 1 << 20
_LARGE = 1 << 15  # a copy of more bytes than this costs more than the system call that it saves
_MOST = 1 << 30  # one system call writes 2 GiB at most


class Sink:
    """A file under construction: bytes are only ever added at its end, or taken away from there.

    What was written last waits in memory. A write that fails, on a full disk say, leaves the sink where it was: the
    same bytes, and others after them, can be written again.

    Attributes:
        path: Where the file is staged.
        position: Bytes written so far.
    """

    __slots__ = ("_handle", "_pieces", "_waiting", "_written", "path", "position")

    def __init__(self, path: Path, position: int = 0) -> None:
        """Open the file, keeping its first `position` bytes (0: a new file).

        Raises:
            FileExistsError: It is to be a new file and is there already.
            OSError: It cannot be written, or is shorter than `position`.
        """
        self.path = path
        self.position = self._written = position
        self._pieces: list[bytes] = []  # that wait, and behind them
        self._waiting = bytearray()  # what was copied since the last of them
        new = position == 0 and not path.exists()
        if not new and path.stat().st_size < position:
            raise OSError(f"{path} has {path.stat().st_size} bytes where {position} were written before")
        self._handle: FileIO | None = open(path, "xb" if new else "r+b", buffering=0)  # noqa: SIM115 - see close()
        if not new:  # ext4 writes a file that was ever truncated to its disk when it is closed
            self._handle.truncate(position)

    def write(self, data: Buffer) -> int:
        """Add bytes at the end.

        Returns:
            The offset at which they begin.
        """
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
        else:  # too much to wait, or it may be changed meanwhile
            self.flush()
            self._put([raw])
            self._written += size
        self.position = start + size
        return start

    def truncate(self, position: int) -> None:
        """Take away everything from `position` on."""
        if position < self._written:
            self._drop()
            self._open.truncate(position)
            self._written = position
        elif position <= self.position:
            kept = b"".join([*self._pieces, self._waiting])[: position - self._written]
            self._drop()
            self._waiting += kept
        else:
            self.flush()
            self._open.truncate(position)
            self._written = position
        self.position = position

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        if self.position > self._written:
            self._put([*self._pieces, self._waiting])
            self._drop()
            self._written = self.position

    def close(self, *, sync: bool = True) -> None:
        """Close the file, on disk if `sync`."""
        if self._handle is None:
            return
        try:
            self.flush()
            if sync:
                os.fsync(self._handle.fileno())
        finally:
            self._handle.close()
            self._handle = None

    @property
    def _open(self) -> FileIO:
        if self._handle is None:
            raise ValueError(f"{self.path} is closed")
        return self._handle

    def _drop(self) -> None:
        self._pieces.clear()
        self._waiting.clear()

    def _put(self, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write behind what is written: in one system call, so that other threads interrupt it less often."""
        handle, end = self._open, self._written
        with ExitStack() as stack:
            views = [stack.enter_context(stack.enter_context(memoryview(piece)).cast("B")) for piece in pieces]
            try:
                while views:
                    done = os.pwritev(handle.fileno(), [view[:_MOST] for view in views], end)
                    end += done
                    while views and done >= len(views[0]):
                        done -= len(views.pop(0))
                    if done:
                        views[0] = stack.enter_context(views[0][done:])
            except BaseException:
                handle.truncate(self._written)
                raise


class Staging:
    """A folder beside the final files in which the files of one shard are made.

    Names are relative to the dataset's folder, as they will be in the end. `seal` puts the files on disk; `commit`
    renames each to its final name, or, with `folder`, the shard's whole folder at once. On a storage without rename,
    finished files are copied there. A process that dies before leaves nothing under a final name, and a staging
    folder that `Writer(mode="resume")` goes on with.

    Args:
        root: The dataset's folder.
        name: Name of the shard, for the staging folder.
        folder: The shard's own folder under `root`, when all of its files live in one that does not exist yet.
        positions: Bytes that staged files have already and keep, by name; other files are started anew.
        sync: Whether to wait for the disk before a rename.
    """

    def __init__(
        self,
        root: AnyPath,
        name: str,
        *,
        folder: str | None = None,
        positions: Mapping[str, int] | None = None,
        sync: bool = True,
    ) -> None:
        self.root, self.folder, self.sync = root, folder, sync
        self._positions = dict(positions or {})
        base = root if isinstance(root, Path) else Path(tempfile.mkdtemp(prefix="bushel-"))
        self._temporary = None if isinstance(root, Path) else base
        self.place = base / ".bushel" / "staging" / (name.replace("/", "%2F") or "dataset")
        self.place.mkdir(parents=True, exist_ok=True)
        self.sinks: dict[str, Sink] = {}

    def open(self, name: str) -> Sink:
        """Start the file that will be called `name`, or go on with it where it is staged already."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        position = self._positions.get(name, 0)
        if position == 0:
            path.unlink(missing_ok=True)
        self.sinks[name] = sink = Sink(path, position)
        return sink

    @property
    def positions(self) -> dict[str, int]:
        """Bytes written to each file so far."""
        return {name: sink.position for name, sink in self.sinks.items()}

    def truncate(self, positions: Mapping[str, int]) -> None:
        """Take every file back to where it was when `positions` had these values."""
        for name, sink in self.sinks.items():
            if sink.position != positions[name]:
                sink.truncate(positions[name])

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        for sink in self.sinks.values():
            sink.flush()

    def seal(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Close the files, on disk if `sync`.

        Returns:
            Size in bytes and modification time in nanoseconds of the files of these names.
        """
        for sink in self.sinks.values():
            sink.close(sync=self.sync)
        stats = [(self.place / name).stat() for name in names]
        return [(stat.st_size, stat.st_mtime_ns) for stat in stats]

    def commit(self, names: Iterable[str]) -> None:
        """Give sealed files their final names, in this order. What is staged and not named is thrown away."""
        names = list(names)
        if self.folder is not None and isinstance(self.root, Path):
            for path in [path for path in (self.place / self.folder).rglob("*") if path.is_file()]:
                if path.relative_to(self.place).as_posix() not in names:
                    path.unlink()
            os.rename(self.place / self.folder, self.root / self.folder)
        else:
            for name in names:
                self._publish(name)
        if isinstance(self.root, Path) and self.sync:
            sync_folder(self.root)
        self.discard()

    def close(self) -> None:
        """Close the files, and leave them."""
        with ExitStack() as stack:
            for sink in self.sinks.values():
                stack.callback(sink.close, sync=False)

    def discard(self) -> None:
        """Remove what is staged; what has its final name stays."""
        self.close()
        shutil.rmtree(self._temporary or self.place, ignore_errors=True)
        if self._temporary is None:
            for folder in (self.place.parent, self.place.parent.parent):
                try:
                    folder.rmdir()
                except OSError:  # not empty: other shards are being made, or sidecars live there
                    break

    def _publish(self, name: str) -> None:
        target = self.root / name
        if isinstance(target, Path):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.place / name, target)
            return
        with open(self.place / name, "rb") as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 22)


def sync_folder(folder: Path) -> None:
    """Put a folder's names on disk, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
