"""Files that appear under their final names only when they are whole and on disk."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

from typing_extensions import Buffer

from bushel.errors import FormatError, UnsupportedError, naming, noted_in
from bushel.storage.base import AnyPath
from bushel.storage.claim import Claim
from bushel.storage.files import is_object
from bushel.storage.whole import place_file, remove

__all__ = ["Sink", "Staging", "leave_workplace", "make_workplace", "workplace"]

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
                with naming(self.path):
                    os.fsync(self._handle.fileno())
        finally:
            self._handle.close()
            self._handle = None

    def abandon(self) -> None:
        """Close the file, which nobody will want, without what still waits in memory."""
        self._drop()
        self.position = self._written
        self.close(sync=False)

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
        with naming(self.path), ExitStack() as stack:
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
    """A folder in which the files of one shard are made: beside the final ones, or on this machine where these are not.

    Names are relative to the dataset's folder, as they will be in the end. `seal` puts the files on disk; `commit`
    renames each to its final name, or, with `folder`, the shard's whole folder at once. Where the dataset is not
    local, `upload` puts finished files there. A process that dies before leaves nothing under a final name, and a
    staging folder that `Writer(mode="resume")` goes on with.

    Args:
        root: The dataset's folder.
        name: Name of the shard, for the staging folder.
        folder: The shard's own folder under `root`, when all of its files live in one that does not exist yet.
        positions: Bytes that staged files have already and keep, by name; other files are started anew.
        sync: Whether to wait for the disk before a rename.
        new: Whether no file of the shard is there yet; an upload then refuses to replace one.
        claim: The right to write in the folder, where the caller has it already.

    Attributes:
        place: Where the files are.
        sinks: The files that were opened, by name.
        stop: When it is set, an upload in another thread ends soon.
        claim: The right to write here. It ends with `discard`, or with this object.

    Raises:
        FileExistsError: Another process is making a shard of this name.
        FormatError: The name leads out of the staging folder.
    """

    def __init__(
        self,
        root: AnyPath,
        name: str,
        *,
        folder: str | None = None,
        positions: Mapping[str, int] | None = None,
        sync: bool = True,
        new: bool = False,
        claim: Claim | None = None,
    ) -> None:
        self.root, self.folder, self.new = root, folder, new
        self.local = isinstance(root, Path)
        self.stop = threading.Event()
        self.sync = sync and self.local  # what is only waiting to be uploaded need not survive a power cut
        self._positions = dict(positions or {})
        self._temporary = None if workplace(root) is not None else Path(tempfile.mkdtemp(prefix="bushel-"))
        base = self._temporary or make_workplace(root)
        self.place = _below(base / ".bushel" / "staging", name.replace("/", "%2F") or "dataset")
        self.claim = claim or Claim(self.place)
        self.sinks: dict[str, Sink] = {}

    def open(self, name: str) -> Sink:
        """Start the file that will be called `name`, or go on with it where it is staged already."""
        path = _below(self.place, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        position = self._positions.get(name, 0)
        if position == 0:
            path.unlink(missing_ok=True)
        self.sinks[name] = sink = Sink(path, position)
        return sink

    def keep(self, positions: Mapping[str, int]) -> None:
        """Continue files that were put here, each after the given number of bytes."""
        self._positions = dict(positions)

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
        """Give sealed files of a local dataset their final names, in this order, and throw away what is not named."""
        names = list(names)
        if self.folder is not None and isinstance(self.root, Path):
            for path in [path for path in (self.place / self.folder).rglob("*") if path.is_file()]:
                if path.relative_to(self.place).as_posix() not in names:
                    path.unlink()
            os.rename(self.place / self.folder, self.root / self.folder)
        else:
            for name in names:
                place_file(self.place / name, self.root / name)
        if isinstance(self.root, Path) and self.sync:
            sync_folder(self.root)
        self.discard()

    def upload(self, names: Iterable[str], *, replace: bool = False) -> list[tuple[int, int]]:
        """Put sealed files of a dataset that is not local where it is, in this order; they stay staged.

        When one of several new ones cannot be put there, those before it are taken away again.

        Args:
            names: The files.
            replace: Replace what is there of `new` ones too: an index that was left behind when its data were removed.

        Returns:
            Size and modification time of each, as that storage tells them.

        Raises:
            FileExistsError: `new`, and one of them is there already, or another writer has replaced it meanwhile.
            InterruptedError: `stop` was set.
            OSError: The storage refuses, or cannot be reached.
        """
        done: list[AnyPath] = []
        new = self.new and not replace
        try:
            for name in names:
                place_file(self.place / name, self.root / name, new=new, stop=self.stop)
                done.append(self.root / name)
        except BaseException as error:
            if new:
                self._take_back(done, error)
            raise
        found = []
        for path, name in zip(done, names, strict=True):
            stat, size = path.stat(), (self.place / name).stat().st_size
            if stat.st_size != size:
                raise FileExistsError(
                    f"{path} was uploaded with {size} bytes and now has {stat.st_size}: another writer has replaced "
                    "it; write to another path"
                )
            found.append((size, int(getattr(stat, "st_mtime_ns", 0) or 0)))
        return found

    def _take_back(self, done: Iterable[AnyPath], error: BaseException) -> None:
        """Remove what was uploaded before an error; where that fails too, the error says what is left."""
        once = threading.Event()
        if self.stop.is_set() or isinstance(error, ConnectionError) or not isinstance(error, Exception):
            once.set()
        for path in done:
            with noted_in(error):
                remove(path, give_up=once)

    def close(self) -> None:
        """Close the files, and leave them."""
        with ExitStack() as stack:
            for sink in self.sinks.values():
                stack.callback(sink.close, sync=False)

    def discard(self) -> None:
        """Remove what is staged; what has its final name stays. Others may write here from then on."""
        for sink in self.sinks.values():
            sink.abandon()
        done = self._temporary or self.place
        if self._temporary is None and not self.local:  # at once: half of it would be taken for an unfinished shard
            done = self.place.parent.parent / f"done-{os.getpid()}-{self.place.name}"
            os.rename(self.place, done)
        shutil.rmtree(done, ignore_errors=True)
        self.claim.release()
        if self.local:
            _remove_empty(self.place.parent, self.place.parent.parent)


def _below(folder: Path, name: str) -> Path:
    """A file in a folder, by a name that may come from the keys of an object store."""
    if not name or "\0" in name or {"", ".", ".."} & set(name.split("/")):
        raise FormatError(
            f"{name!r} is no name of a file within a dataset", file=str(folder), hint="rename it, without . and .."
        )
    return folder / name


def workplace(root: AnyPath) -> Path | None:
    """The local folder in which what is unfinished of a dataset is kept.

    That of a local dataset is its own folder. One in an object store has a folder of this machine's temporary ones
    (`TMPDIR`), always the same for the same URL and user.

    Returns:
        The folder, which need not be there; None for a storage of another kind, such as an HTTP server.
    """
    if isinstance(root, Path):
        return root
    if not is_object(root) or not root.listable:
        return None
    digest = hashlib.sha256(str(root).rstrip("/").encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return Path(tempfile.gettempdir()) / f"bushel-{os.getuid()}" / digest


def leave_workplace(root: AnyPath) -> None:
    """Remove the workplace of a dataset that is not local, if nothing is left in it."""
    if not isinstance(root, Path) and (folder := workplace(root)) is not None:
        for done in (folder / ".bushel").glob("done-*"):  # whose removal was cut short by a kill
            shutil.rmtree(done, ignore_errors=True)
        _remove_empty(folder / ".bushel" / "staging", folder / ".bushel", folder)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # not empty: other shards are being made, or sidecars live there
            break


def make_workplace(root: AnyPath) -> Path:
    """The same, made if need be, where nobody else may write.

    Raises:
        UnsupportedError: The storage is of another kind.
        PermissionError: The name is taken by somebody else.
    """
    folder = workplace(root)
    if folder is None:
        raise UnsupportedError(f"{root} is neither local nor in an object store that Bushel writes to")
    if folder == root:
        return folder
    above = folder.parent
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    if above.is_symlink() or above.lstat().st_uid != os.getuid():
        raise PermissionError(f"{above} belongs to somebody else: set TMPDIR to a folder of your own")
    folder.mkdir(exist_ok=True)
    return folder


def sync_folder(folder: Path) -> None:
    """Put a folder's names on disk, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
