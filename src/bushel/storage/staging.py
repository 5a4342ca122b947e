"""Staged files: they appear under their final names only when they are complete and on disk.

Until then they are in a workplace, a local folder.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from bushel.errors import UnsupportedError, noted_in

from .base import AnyPath
from .files import is_object
from .lock import Lock
from .names import COMMIT_LIST, below, inside, refuse_link, remove_empty, try_remove_tree
from .publish import Publication
from .sink import Sink
from .whole import place_file, remove


def workplace(root: AnyPath) -> Path | None:
    """Return the local folder that holds the unfinished files of a dataset.

    For a local dataset this is its own folder. For one in an object store it is a folder in
    `TMPDIR`, always the same for the same URL and user.

    Returns:
        The folder, which may not exist; None for another kind of storage, such as an HTTP server.
    """
    if isinstance(root, Path):
        return root
    if not is_object(root) or not root.writable:
        return None
    import hashlib  # which local datasets do not need
    import tempfile

    url = str(root).rstrip("/").encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(url).hexdigest()[:32]
    return Path(tempfile.gettempdir()) / f"bushel-{os.getuid()}" / digest


def make_workplace(root: AnyPath) -> Path:
    """Return the workplace, created if necessary in a folder where no other user can write.

    Raises:
        UnsupportedError: The storage is of another kind.
        PermissionError: Another user owns the folder.
    """
    folder = workplace(root)
    if folder is None:
        raise UnsupportedError(
            f"{root} is neither local nor in an object store that Bushel writes to"
        )
    if folder == root:
        return folder
    above = folder.parent
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    if above.is_symlink() or above.lstat().st_uid != os.getuid():
        raise PermissionError(
            f"{above} belongs to another user: set TMPDIR to a folder of your own"
        )
    folder.mkdir(exist_ok=True)
    return folder


def leave_workplace(root: AnyPath) -> None:
    """Remove the workplace of a remote dataset, if it is empty."""
    if not isinstance(root, Path) and (folder := workplace(root)) is not None:
        # their removal was interrupted by a kill
        for removed in (folder / ".bushel").glob("done-*"):
            try_remove_tree(removed)
        remove_empty(folder / ".bushel" / "staging", folder / ".bushel", folder)


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
        refuse_link(self.place)
        for attempt in range(100):
            # another writer may create or remove it, or its empty parents, in the meantime
            try:
                self.place.mkdir(parents=True, exist_ok=True)
                break
            except (FileNotFoundError, FileExistsError):
                if attempt == 99:
                    raise
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
