"""Staged files: they appear under their final names only when they are complete and on disk.

Until then they are in a workplace, a local folder, and bytes are appended to them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

from typing_extensions import Buffer

from bushel.errors import name_file, naming, noted_in

from .base import AnyPath
from .files import COMMIT_LIST, below, inside, remove_empty, try_remove_tree
from .lock import Lock
from .publish import Publication, make_workplace, workplace
from .whole import make_folder, place_file, remove, write_all

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


class Staging:
    """The folder in which the files of one shard are written: within a local dataset, else in a temporary folder.

    Names are the final ones, relative to the dataset's folder. `seal` puts the files on disk;
    `commit` renames each to its final name, or, with `folder`, the shard's whole folder at once.
    `upload` copies finished files to a remote dataset. A process that is killed earlier leaves
    nothing under a final name, and a staging folder that the next writer removes.

    Args:
        root: The dataset's folder.
        name: Name of the shard, for the staging folder.
        folder: The shard's own folder under `root`, if all of its files are in one that does not
            exist yet.
        sync: Whether to wait for the disk before a rename.
        new: Whether none of the shard's files exists yet; an upload then refuses to replace one.
        locked: Whether to lock the name until `discard`, for a caller that has no lock of the
            dataset.

    Attributes:
        place: The folder of the staged files.
        sinks: The files that were opened, by name.
        stop: When it is set, an upload in another thread ends soon.

    Raises:
        FormatError: The name leads out of the staging folder.
    """

    def __init__(
        self,
        root: AnyPath,
        name: str,
        *,
        folder: str | None = None,
        sync: bool = True,
        new: bool = False,
        locked: bool = False,
    ) -> None:
        self.root, self.folder, self.new = root, folder, new
        self.local = isinstance(root, Path)
        self.stop = threading.Event()
        # files that are uploaded later need not survive a power cut
        self.sync = sync and self.local
        self._positions: dict[str, int] = {}
        self._temporary: Path | None = None
        if workplace(root) is None:
            import tempfile  # which a local dataset does not need

            self._temporary = Path(tempfile.mkdtemp(prefix="bushel-"))
        base = self._temporary or make_workplace(root)
        self.place = inside(base / ".bushel" / "staging", name.replace("/", "%2F") or "dataset")
        self._lock: Lock | None = None
        if locked:
            locks = base / ".bushel" / "writers"
            places = [(locks / "dataset.lock", True), (locks / f"{self.place.name}.lock", False)]
            self._lock = Lock(places, self.place)
        make_folder(self.place, sync=False)
        self.sinks: dict[str, Sink] = {}

    def open(self, name: str) -> Sink:
        """Create the file that will be called `name`, or continue it if `keep` named it."""
        path = inside(self.place, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        position = self._positions.get(name, 0)
        if position == 0:
            path.unlink(missing_ok=True)
        self.sinks[name] = sink = Sink(path, position)
        return sink

    def path_of(self, name: str) -> Path:
        """Return the path of a staged file."""
        return below(self.place, name, any_text=True)

    def keep(self, positions: Mapping[str, int]) -> None:
        """Continue files that already are here, each after the given number of bytes."""
        self._positions = dict(positions)

    @property
    def positions(self) -> dict[str, int]:
        """Bytes written to each file so far."""
        return {name: sink.position for name, sink in self.sinks.items()}

    def truncate(self, positions: Mapping[str, int]) -> None:
        """Truncate every file to its size in `positions`."""
        for name, sink in self.sinks.items():
            if sink.position != positions[name]:
                sink.truncate(positions[name])

    def flush(self) -> None:
        """Pass everything written so far to the operating system."""
        for sink in self.sinks.values():
            sink.flush()

    def seal(self) -> None:
        """Close the files. With `sync`, wait until they are on disk."""
        for sink in self.sinks.values():
            sink.close(sync=self.sync)

    def rename(self, name: str, folder: str | None, names: Mapping[str, str]) -> None:
        """Give sealed files the names of another shard: see the arguments of the class.

        Args:
            name: Name of the shard.
            folder: Its own folder, which does not exist yet, or None.
            names: The new name of each file that it has.
        """
        for old, new in names.items():
            path = self.path_of(new)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.path_of(old), path)
        place = inside(self.place.parent, name.replace("/", "%2F"))
        os.rename(self.place, place)
        self.place, self.folder = place, folder

    def commit(self, names: Iterable[str], *, index: str | None = None) -> None:
        """Give sealed files of a local dataset their final names, and remove the others: all of them or none.

        The index is the first one: without it, data may be read under other names and types.
        """
        names, left = list(names), list[str]()
        if index is not None:
            # a killed reader that made an index of files by the same name may have left the second
            names, left = [index, *names], [f"{index}.partial"]
        # a file system of the caller, which the drop-ins write to
        if not isinstance(self.root, Path):
            for name in names:
                place_file(self.path_of(name), below(self.root, name, any_text=True))
            self.discard()
            return
        if self.folder is not None:
            for path in [path for path in self.path_of(self.folder).rglob("*") if path.is_file()]:
                if path.relative_to(self.place).as_posix() not in names:
                    path.unlink()
            beside = [name for name in names if not name.startswith(f"{self.folder}/")]
            names = [self.folder, *beside]
        Publication(self.root, self.place, sync=self.sync).commit(names, drop=left)
        self.discard()

    def upload(self, names: Iterable[str], *, replace: bool = False) -> list[tuple[int, int]]:
        """Copy sealed files to a remote dataset, in this order; they stay staged.

        If one of several new files fails, the ones before it are removed again. `replace` is for an
        index that remained when its data were removed: existing files are replaced even if `new`.

        Returns:
            Size and modification time of each, as the storage reports them.

        Raises:
            FileExistsError: `new`, and one of them exists already, or another writer has replaced
                it in the meantime.
            InterruptedError: `stop` was set.
            OSError: The storage refuses, or cannot be reached.
        """
        uploaded: list[AnyPath] = []
        new = self.new and not replace
        try:
            for name in names:
                path = below(self.root, name, any_text=True)
                place_file(self.path_of(name), path, new=new, stop=self.stop)
                uploaded.append(path)
        except BaseException as error:
            if new:
                self._take_back(uploaded, error)
            raise
        stamps = []
        for path, name in zip(uploaded, names, strict=True):
            stat, size = path.stat(), self.path_of(name).stat().st_size
            if stat.st_size != size:
                raise FileExistsError(
                    f"{path} was uploaded with {size} bytes and now has {stat.st_size}: "
                    "another writer has replaced it; write to another path"
                )
            stamps.append((size, int(getattr(stat, "st_mtime_ns", 0) or 0)))
        return stamps

    def _take_back(self, uploaded: Iterable[AnyPath], error: BaseException) -> None:
        """Remove the files that were uploaded before an error. If removing fails too, the error gets a note."""
        once = threading.Event()
        if (
            self.stop.is_set()
            or isinstance(error, ConnectionError)
            or not isinstance(error, Exception)
        ):
            once.set()
        for path in uploaded:
            with noted_in(error):
                remove(path, give_up=once)

    def close(self) -> None:
        """Close the files, and leave them staged."""
        with ExitStack() as stack:
            for sink in self.sinks.values():
                stack.callback(sink.close, sync=False)

    def discard(self) -> None:
        """Remove the staged files, unless `commit` has begun to rename them, which the next writer completes."""
        for sink in self.sinks.values():
            sink.abandon()
        if (self.place / COMMIT_LIST).exists():
            return
        removed = self._temporary or self.place
        # a rename: a part of it would look like an unfinished shard
        if self._temporary is None and not self.local:
            removed = self.place.parent.parent / f"done-{os.getpid()}-{self.place.name}"
            os.rename(self.place, removed)
        try_remove_tree(removed)
        if self.local:
            remove_empty(self.place.parent, self.place.parent.parent)
        if self._lock is not None:
            self._lock.release()
