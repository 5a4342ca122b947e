"""What a power cut leaves: from the log of `shim.c`, a state of the folder that POSIX permits.

Model: `fsync` of a file makes its bytes durable, and `fsync` of a folder its entries. All other changes since are kept
or lost. A rename is kept or lost as a whole, as all journaling file systems do. A file whose bytes were not synced
ends with any part of them: none, a shorter file, or pages of zeros in between.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

__all__ = ["LOSSES", "Disk", "lose_unsynced"]

LOSSES = ("all", "ordered", "any", "none")
"""What is lost: everything that is not synced; the later changes of names, and any bytes; any changes of names and any
bytes; nothing, as after a plain SIGKILL."""

_FRAME = struct.Struct("<IIIIQQ")
(
    _CREATE,
    _WRITE,
    _TRUNCATE,
    _RENAME,
    _EXCHANGE,
    _LINK,
    _UNLINK,
    _MKDIR,
    _RMDIR,
    _FSYNC,
    _FSYNC_FOLDER,
    _SYNC,
    _UNSEEN,
) = range(1, 14)
_PAGE = 4096


@dataclass(eq=False)
class File:
    """The bytes of a file: `data` as programs see them, `durable` as they were when it was last synced."""

    inode: int
    data: bytearray
    durable: bytes = b""
    pending: list[tuple[int, int]] = field(default_factory=list)
    stored: Path | None = None

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes."""
        self.data.extend(bytes(max(offset - len(self.data), 0)))
        self.data[offset : offset + len(data)] = data
        self.pending.append((offset, offset + len(data)))

    def truncate(self, size: int) -> None:
        """Set the size."""
        self.pending.append((min(size, len(self.data)), max(size, len(self.data))))
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))

    def sync(self) -> None:
        """Make the bytes durable."""
        self.durable, self.pending = bytes(self.data), []

    def after_crash(self, loss: str, rng: random.Random) -> bytes:
        """Return the bytes that are left."""
        if not self.pending or loss == "none":
            return bytes(self.data)
        kind = "durable" if loss == "all" else rng.choice(["durable", "all", "cut", "zeros", "zeros", "pages"])
        if kind == "durable":
            return self.durable
        if kind == "all":
            return bytes(self.data)
        if kind == "cut":
            return bytes(self.data[: rng.randint(min(len(self.durable), len(self.data)), len(self.data))])
        left = bytearray(self.data)
        for start in {at for first, last in self.pending for at in range(first - first % _PAGE, last, _PAGE)}:
            if kind == "zeros" or rng.random() < 0.5:
                end = min(start + _PAGE, len(left))
                old = self.durable[start:end]
                left[start:end] = old + bytes(max(end - start, 0) - len(old))
        return bytes(left)


@dataclass(eq=False)
class Folder:
    """The entries of a folder: as programs see them, and as they are on disk."""

    inode: int
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = File | Folder
_Change: TypeAlias = list[tuple[Folder, str, Node | None]]


class Disk:
    """A folder on a disk that loses what is not synced.

    Args:
        root: The folder. What it contains now is durable.
    """

    def __init__(self, root: Path) -> None:
        self._files: dict[int, File] = {}
        self.root = self._load(root)
        self._pending: list[_Change] = []
        self.unseen: list[str] = []

    def _load(self, path: Path) -> Folder:
        folder = Folder(path.lstat().st_ino)
        for entry in os.scandir(path):
            node: Node
            if entry.is_dir(follow_symlinks=False):
                node = self._load(Path(entry.path))
            else:
                inode = entry.inode()
                if inode not in self._files:
                    data = Path(entry.path).read_bytes()
                    self._files[inode] = File(inode, bytearray(data), data)
                node = self._files[inode]
            folder.entries[entry.name] = folder.durable[entry.name] = node
        return folder

    def replay(self, log: Path) -> int:
        """Apply the changes in a log. Return their number."""
        data, at, count = log.read_bytes(), 0, 0
        while at + _FRAME.size <= len(data):
            kind, first, second, size, inode, offset = _FRAME.unpack_from(data, at)
            at += _FRAME.size
            if at + first + second + size > len(data):  # killed while it wrote the log
                break
            names = [os.fsdecode(data[at : at + first]), os.fsdecode(data[at + first : at + first + second])]
            at += first + second
            self._apply(kind, inode, offset, names, data[at : at + size])
            at += size
            count += 1
        return count

    def _apply(self, kind: int, inode: int, offset: int, names: list[str], data: bytes) -> None:
        if kind == _CREATE:
            self._files[inode] = File(inode, bytearray())
            self._change((*self._at(names[0]), self._files[inode]))
        elif kind in (_WRITE, _TRUNCATE, _FSYNC):
            file = self._files[inode]
            if kind == _WRITE:
                file.write(offset, data)
            elif kind == _TRUNCATE:
                file.truncate(offset)
            else:
                file.sync()
        elif kind == _MKDIR:
            self._change((*self._at(names[0]), Folder(inode)))
        elif kind in (_UNLINK, _RMDIR):
            self._change((*self._at(names[0]), None))
        elif kind in (_RENAME, _EXCHANGE, _LINK):
            (source, old), (target, new) = self._at(names[0]), self._at(names[1])
            moved = source.entries[old]
            other = {_RENAME: None, _EXCHANGE: target.entries.get(new), _LINK: moved}[kind]
            if kind != _RENAME or (source, old) != (target, new):
                self._change((source, old, other), (target, new, moved))
        elif kind == _FSYNC_FOLDER:
            folder = self.root
            for name in filter(None, names[0].split("/")):
                found = folder.entries[name]
                assert isinstance(found, Folder)
                folder = found
            self._sync(folder)
        elif kind == _SYNC:
            self._persist(self._pending)
            for file in self._files.values():
                file.sync()
        else:
            self.unseen.append(" ".join(names))

    def _at(self, name: str) -> tuple[Folder, str]:
        folder = self.root
        *parents, last = name.split("/")
        for parent in parents:
            found = folder.entries[parent]
            assert isinstance(found, Folder)
            folder = found
        return folder, last

    def _change(self, *effects: tuple[Folder, str, Node | None]) -> None:
        _put(effects, durable=False)
        self._pending.append(list(effects))

    def _sync(self, folder: Folder) -> None:
        """Make the entries of a folder durable, with the other half of renames and what these depend on."""
        wanted, touched = (
            set(),
            {(id(folder), name) for change in self._pending for at, name, _ in change if at is folder},
        )
        for number in reversed(range(len(self._pending))):
            places = {(id(at), name) for at, name, _ in self._pending[number]}
            if places & touched:
                wanted.add(number)
                touched |= places
        self._persist([self._pending[number] for number in sorted(wanted)])

    def _persist(self, changes: list[_Change]) -> None:
        for change in changes:
            _put(change, durable=True)
        gone = set(map(id, changes))
        self._pending = [change for change in self._pending if id(change) not in gone]

    def crash(self, loss: str, rng: random.Random) -> None:
        """Lose what is not synced."""
        kept = {"all": 0, "none": len(self._pending)}.get(loss, rng.randint(0, len(self._pending)))
        changes = self._pending[:kept]
        if loss == "any":
            share = rng.random()
            changes = [change for change in self._pending if rng.random() < share]
        for change in changes:
            _put(change, durable=True)
        for folder in self._folders(self.root):
            folder.entries = dict(folder.durable)
        for file in self._files.values():
            file.data = bytearray(file.after_crash(loss, rng))

    def _folders(self, folder: Folder) -> Iterator[Folder]:
        yield folder
        for node in folder.durable.values():
            if isinstance(node, Folder):
                yield from self._folders(node)

    def store(self, root: Path) -> None:
        """Make the real folder equal to this one. Files and folders keep their inodes, and files their times."""
        pool = root.with_name(f"{root.name}.pool")
        pool.mkdir()
        there: dict[int, Path] = {}
        for folder, folders, names in os.walk(root, topdown=False):
            for name in (*names, *folders):
                path = Path(folder, name)
                inode = path.lstat().st_ino
                if inode in there:
                    path.unlink()
                else:
                    there[inode] = path.rename(pool / str(inode))
        self._store(self.root, root, there)
        shutil.rmtree(pool)

    def _store(self, folder: Folder, place: Path, there: dict[int, Path]) -> None:
        for name, node in folder.entries.items():
            path, known = place / name, there.pop(node.inode, None)
            if known is not None and known.is_dir() != isinstance(node, Folder):
                known = None  # the disk has used the inode again
            if isinstance(node, Folder):
                path.mkdir() if known is None else known.rename(path)
                self._store(node, path, there)
            elif node.stored is not None:
                os.link(node.stored, path)
            else:
                if known is not None:
                    known.rename(path)
                if known is None or path.read_bytes() != node.data:
                    path.write_bytes(node.data)
                node.stored = path


def _put(effects: _Change | tuple[tuple[Folder, str, Node | None], ...], *, durable: bool) -> None:
    for folder, name, node in effects:
        entries = folder.durable if durable else folder.entries
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def lose_unsynced(root: Path, disk: Disk, log: Path, loss: str, rng: random.Random) -> list[str]:
    """Turn a folder into what a power cut would have left of it.

    Args:
        root: The folder, as a killed process left it.
        disk: What it was when the process started, and was on disk of it. Replays the log.
        log: The log of the process.
        loss: One of `LOSSES`.
        rng: Decides what is lost.

    Returns:
        Changes that the model cannot follow: files that are written through `mmap`, or that were moved into the folder.
    """
    if log.exists():
        disk.replay(log)
        log.unlink()
    if loss != "none":
        disk.crash(loss, rng)
        disk.store(root)
    return disk.unseen
