"""The one way in which something becomes durable and visible.

- A small file: `write_whole`, `create_whole`, and `update`, which reads, changes and replaces it.
  Its rename, or a conditional put, commits it.
- Files that belong together, a folder, a generation of a dataset: a `Publication`, staged beside
  the target, or in its workplace. A list of moves commits them; it can be repeated.

Everything is on disk before that: bytes, then names of files, then names of folders. After a kill,
`recover` repeats the moves if the list is there, and else removes what was staged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from stat import S_ISLNK

import msgspec

from bushel._runtime.system import exchange_names
from bushel.errors import FormatError, UnsupportedError

from .base import AnyPath
from .files import (
    COMMIT_LIST,
    inside,
    is_object,
    refuse_link,
    remove_empty,
    remove_tree,
    try_remove_tree,
)
from .whole import (
    make_folder,
    read_whole,
    replacing,
    sync_folder,
    sync_nearest,
    write_all,
    write_whole,
)

_SIDECARS = ".bushel/"


def update(path: AnyPath, change: Callable[[bytes | None], bytes]) -> None:
    """Replace a small file by what a function makes of its bytes: no change of others is lost.

    Locally, other threads and processes that change or replace it wait. An object is replaced if it
    is still the one that was read; else this is done again.

    Args:
        path: The file; its folder is made if necessary.
        change: Returns the new bytes from the present ones, which are None if the file does not
            exist. It may be called several times. An error that it raises leaves the file as it is.

    Raises:
        OSError: The file cannot be read or written.
    """
    if isinstance(path, Path):
        with replacing(path) as file:  # for which others wait
            write_all(file, change(_read(path)))
    elif is_object(path):
        from bushel.storage.objects.upload import update_object

        update_object(path, change)
    else:
        write_whole(path, change(_read(path)))


def _read(path: AnyPath) -> bytes | None:
    try:
        return read_whole(path)
    except FileNotFoundError:
        return None


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


class _Move(msgspec.Struct, frozen=True):
    """A staged file or folder that gets its final name.

    It is made if the staged name no longer leads to this inode: an exchange is its own inverse, and
    must not be made twice. The final name does not tell, since a reader that notes the times of
    files writes the table there again.
    """

    name: str  # relative to the root, and to the staging folder
    device: int
    inode: int

    @classmethod
    def of(cls, name: str, path: Path) -> _Move:
        """Return the move of the staged file or folder at a path.

        Raises:
            FormatError: It is a symbolic link.
        """
        stat = path.lstat()
        if S_ISLNK(stat.st_mode):
            raise FormatError("no writer leaves a symbolic link here", path, hint="delete it")
        return cls(name, stat.st_dev, stat.st_ino)


def _staged(folder: Path, moves: Sequence[_Move]) -> dict[str, Path]:
    """Return the paths of the files to move by their names, without those that the staging folder no longer has."""
    staged = {}
    for move, path in [(move, inside(folder, move.name)) for move in moves]:
        with suppress(FileNotFoundError):
            if _Move.of(move.name, path) == move:
                staged[move.name] = path
    return staged


class _Moves(msgspec.Struct, frozen=True):
    """The content of `commit.json`."""

    clear: list[str]  # files to remove before the moves
    moves: list[_Move]
    drop: list[str]  # files and folders to remove after them


class Publication:
    """Files that are staged beside a target, and get their names together.

    The caller has the lock of the target. A process that is killed before `commit` leaves the
    target as it was; after that, `recover` completes it. A folder is exchanged with the one that
    has its name, in one step where the system can do that.

    Args:
        root: The folder in which the names are.
        folder: The staging folder, in the same file system.
        sync: Whether to wait for the disk. Without that, kills are survived, power cuts are not.

    Raises:
        OSError: The staging folder cannot be made, or is a symbolic link.
    """

    def __init__(self, root: Path, folder: Path, *, sync: bool = True) -> None:
        self.root, self.folder, self.sync = root, folder, sync
        self._ended = False
        make_folder(folder, sync=sync)

    def path_of(self, name: str) -> Path:
        """Return the path of a staged file. Raise FormatError if the name leads out of the folder."""
        return inside(self.folder, name)

    def commit(
        self, moves: Sequence[str], *, clear: Sequence[str] = (), drop: Sequence[str] = ()
    ) -> None:
        """Give staged files and folders, whose bytes are on disk, their names.

        Args:
            moves: Their names, in this order.
            clear: Files that must not be read with the new ones: they are removed before.
            drop: Files and folders that are removed after.

        Raises:
            OSError: That failed. If the list of moves could not be written, the target is as it
                was.
        """
        staged = {name: inside(self.folder, name) for name in moves}
        content = _Moves(list(clear), list(starmap(_Move.of, staged.items())), list(drop))
        if self.sync:
            self._sync_names()
        data = json.dumps(msgspec.to_builtins(content)).encode()  # names may have surrogates
        try:
            write_whole(self.folder / COMMIT_LIST, data, sync=self.sync)
        finally:  # if it got its name before an error, only `recover` may end this
            self._ended = (self.folder / COMMIT_LIST).exists()
        _repeat(self.root, self.folder, content, staged, sync=self.sync)
        _remove_staged(self.root, self.folder, sync=self.sync)

    def _sync_names(self) -> None:
        """Put the names of the staged files on disk, up to the root."""
        for base, _, _ in os.walk(self.folder, topdown=False):
            sync_folder(Path(base))
        above = self.folder
        while above != self.root:
            above = above.parent
            sync_folder(above)

    def discard(self) -> None:
        """Remove what was staged, unless it is committed."""
        if not self._ended:
            self._ended = True
            _remove_staged(self.root, self.folder, sync=False)


def recover(root: Path, folder: Path, *, undo: Callable[[], object] = lambda: None) -> bool:
    """Complete or undo what a killed process has staged. Return whether there was something.

    The caller has the lock of the target.

    Args:
        root: The folder in which the names are.
        folder: The staging folder.
        undo: Called before it is undone; an error refuses that.

    Raises:
        FormatError: The list of moves is damaged or forged.
        OSError: A file cannot be moved or removed.
    """
    if not folder.is_dir():
        return False
    refuse_link(folder)
    content = _load_moves(folder)
    if content is None:
        undo()
    else:
        _repeat(root, folder, content, _staged(folder, content.moves), sync=True)
    _remove_staged(root, folder, sync=True)
    return True


def is_half_made(root: Path, folder: Path) -> bool:
    """Return whether some of the moves that a killed process has staged are made, or begun, and others are not.

    Raises:
        FormatError: The list of moves is damaged or forged.
    """
    if not folder.is_dir() or (content := _load_moves(folder)) is None:
        return False
    left = len(_staged(folder, content.moves))
    return left > 0 and (left < len(content.moves) or bool(content.clear))


def _load_moves(folder: Path) -> _Moves | None:
    """Return the list of moves in a staging folder, None without one."""
    try:
        return msgspec.convert(json.loads(read_whole(folder / COMMIT_LIST)), _Moves)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        hint = f"delete the folder {folder}"
        file = str(folder / COMMIT_LIST)
        raise FormatError(f"not a list of moves: {error}", file, hint=hint) from error


def _repeat(
    root: Path, folder: Path, content: _Moves, to_make: Mapping[str, Path], *, sync: bool
) -> None:
    """Make the moves that are not made yet, given the paths of the files that are still staged."""
    targets = {move.name: inside(root, move.name) for move in content.moves}
    if len(to_make) == len(content.moves):
        for name in content.clear:
            _remove(inside(root, name), own=False)
    # files that must not be read with others: a power cut loses no earlier step and keeps a later one
    in_steps = sync and bool(content.clear)
    if in_steps:
        sync_folder(root)
    for above in dict.fromkeys(targets[name].parent for name in to_make):
        make_folder(above, sync=sync)
    unsynced = dict.fromkeys([*(target.parent for target in targets.values()), root])
    for name, path in to_make.items():
        # the last file lists the others, and data are not read without their table
        if sync and len(content.moves) > 1 and name == content.moves[-1].name:
            for changed in unsynced:
                sync_folder(changed)
            unsynced = {targets[name].parent: None}
        _swap(path, targets[name], folder / "old")
        if in_steps:
            sync_folder(targets[name].parent)
    for name in content.drop:
        if name not in targets:
            path = inside(root, name)
            _remove(path, own=name.startswith(_SIDECARS))
            _remove_empty(path.parent, root)
            unsynced[path.parent] = None
    if sync:
        for changed in unsynced:
            sync_nearest(changed)


def _swap(staged: Path, target: Path, old: Path) -> None:
    """Give a file or folder its name. What had the name before is staged then, or gone."""
    is_there = target.exists()
    if is_there and exchange_names(staged, target):
        return
    if is_there and (staged.is_dir() or target.is_dir()):
        os.rename(target, old)  # a kill after this leaves no target, until the moves are repeated
    os.rename(staged, target)


def _remove(path: Path, *, own: bool) -> None:
    """Remove a file, or a folder of Bushel's: a forged list removes no folder of others."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
    elif own:
        remove_tree(path)


def _remove_staged(root: Path, folder: Path, *, sync: bool) -> None:
    """Remove a staging folder, the list last: a kill in the meantime does not lose it."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            try_remove_tree(entry)
        elif entry.name != COMMIT_LIST:
            entry.unlink(missing_ok=True)
    try_remove_tree(folder)
    _remove_empty(folder.parent, root)
    if sync:  # else a power cut could bring back the list, and its moves would be made once more
        sync_nearest(folder)


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder and those above it, up to the root, as far as they are empty."""
    with suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent
