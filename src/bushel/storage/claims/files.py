"""Claims in a file system.

A claim is a file that appears with its content, by a hard link, and that its holder has locked (`flock`). If another
process of the machine gets the lock, the holder of the claim has ended. Locks do not reach other machines everywhere,
so the holder also renews the file's modification time, and other machines take the claim over only when that time is
old.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bushel.errors import naming
from bushel.storage.claims.holder import LEASE_SECONDS, Holder, is_gone, parse

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
"""Errors of file systems without locks; EBADF is the error of NFS for a file that cannot be opened for writing."""
_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP)
_PATIENCE = 10.0  # seconds for which processes that try to take over the same claim wait for each other
_PAUSE = 0.005


@dataclass(slots=True)
class FileClaim:
    """A claim that this process has."""

    path: Path  # its file
    handle: int  # the open file, which is locked; -1 in a fork

    def is_ours(self) -> bool:
        """Return whether the file still belongs to this claim."""
        try:
            with naming(self.path):
                return self.handle >= 0 and os.path.samestat(os.fstat(self.handle), os.stat(self.path))
        except FileNotFoundError:
            return False

    @property
    def now(self) -> float:
        """The time of the last sign of life, by the clock of the file system."""
        with naming(self.path):
            return os.fstat(self.handle).st_mtime

    def renew(self) -> None:
        """Give a sign of life."""
        with naming(self.path):
            os.utime(self.handle)

    def release(self) -> None:
        """Remove the file."""
        if self.handle >= 0:
            with suppress(OSError):  # a process that finds the file gets its lock
                if self.is_ours():
                    os.unlink(self.path)
            self.forget()

    def forget(self) -> None:
        """Close the file, in a fork of the holder: the lock stays with the holder, and ends with it."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)


def take_file(path: Path, holder: Holder) -> FileClaim | Holder | None:
    """Claim a name in a folder that exists.

    Returns:
        The claim; or, if it is taken, its holder, or None if that cannot be read.

    Raises:
        OSError: The folder does not exist, or cannot be written.
    """
    own = path.with_name(f"{path.name}.{holder.token}.partial")
    handle = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    claimed = False
    try:
        with naming(own):
            _lock(handle)
            data = holder.encode()
            while data:  # a disk that is nearly full takes a part of it
                data = data[os.write(handle, data) :]
            now = os.fstat(handle).st_mtime
        give_up = time.monotonic() + _PATIENCE
        while not (claimed := _create_by_link(own, path, handle)):
            with _opened(path) as other:
                if other is None:  # released meanwhile
                    continue
                there = _state_of(other, now)
                if there == "held" or time.monotonic() > give_up:
                    return other.holder
                if there == "passing":
                    time.sleep(_PAUSE)
                elif there == "gone":
                    _remove_stale(path, other, own)
        return FileClaim(path, handle)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(own)
        if not claimed:
            os.close(handle)


def held_by(path: Path, now: float) -> Holder | None:
    """Return the living holder of a claim; None if the claim does not exist or its holder has ended.

    A file that a killed process has prepared for a claim is removed.
    """
    give_up = time.monotonic() + _PATIENCE
    while True:
        with _opened(path) as other:
            if other is None:
                return None
            if path.name.endswith(".partial"):
                if other.locked is not False and now - other.renewed > LEASE_SECONDS:
                    path.unlink(missing_ok=True)
                return None
            there = _state_of(other, now)
            if there != "passing" or time.monotonic() > give_up:
                return None if there == "gone" else other.holder
        time.sleep(_PAUSE)


@dataclass(frozen=True, slots=True)
class _Other:
    """A claim that was found: its holder, whether this process now has its lock, and when it was renewed."""

    holder: Holder | None
    locked: bool | None
    renewed: float


@contextmanager
def _opened(path: Path) -> Iterator[_Other | None]:
    """Yield the claim at a path, locked if its holder has no lock; None without a claim."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except PermissionError:  # of another user
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with naming(path):
            locked = _lock(handle)
            stat = os.fstat(handle)
            data = os.pread(handle, 1 << 16, 0)
        there = True
        with suppress(FileNotFoundError):
            there = os.path.samestat(stat, os.stat(path))
        yield _Other(parse(data), locked, stat.st_mtime) if there else None
    finally:
        os.close(handle)


def _state_of(other: _Other, now: float) -> str:
    """Return `held`, `gone`, or `passing` if another process looks at the claim of a process that has ended."""
    if other.locked is False:
        if other.holder is None or _gone(other, 0.0):
            return "passing"
        return "held"
    # the bytes of a claim were complete when it appeared: a machine that crashed has left damaged ones
    return "gone" if other.holder is None or _gone(other, now - other.renewed) else "held"


def _gone(other: _Other, silent: float) -> bool:
    return other.holder is not None and is_gone(other.holder, locked=other.locked, silent=silent)


def _lock(handle: int) -> bool | None:
    """Lock a file. Return False if another process has the lock, None if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        if isinstance(error, BlockingIOError | PermissionError):
            return False
        raise
    return True


def _create_by_link(own: Path, path: Path, handle: int) -> bool:
    """Give a complete file the name of the claim. Return False if the name exists."""
    try:
        os.link(own, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_by_reservation(own, path, handle)
    return True


def _create_by_reservation(own: Path, path: Path, handle: int) -> bool:
    """Do the same in a file system without hard links: reserve the name, and rename the file over the reservation."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        return False
    os.replace(own, path)
    return os.path.samestat(os.fstat(handle), os.stat(path))


def _remove_stale(path: Path, stale: _Other, own: Path) -> None:
    """Remove the claim of a holder that has ended, unless another process was faster."""
    aside = own.with_name(f"{own.name}.stale.partial")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    try:
        with naming(aside):
            moved = parse(aside.read_bytes())
        if moved is not None and (stale.holder is None or moved.token != stale.holder.token):
            with suppress(FileExistsError):
                os.link(aside, path)  # of a process that has taken it over meanwhile
    finally:
        aside.unlink(missing_ok=True)
