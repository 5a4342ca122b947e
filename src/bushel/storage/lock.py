"""The lock of a target: one writer at a time, be the other in another thread, process or machine.

A lock is a file that exists while it is held and names its holder. Locally it is locked with
`flock`, which excludes threads of one process, too, and ends with the process; a shared lock lets
the processes of one run write together. Where `flock` does not reach (another machine, a file
system without locks), the file's time is a lease. In an object store the lock is an object, created
and renewed by conditional requests (`objects/upload.py`), with the same lease.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from bushel.errors import InUseError, name_file

from .base import AnyPath
from .files import is_object, refuse_link
from .holder import LEASE_SECONDS, Holder, describe, is_gone, parse, this_process
from .whole import make_folder, sync_folder, write_all

if TYPE_CHECKING:
    from bushel.storage.objects.upload import ObjectLock

_HeldLock: TypeAlias = "FileLock | ObjectLock"
"""A lock in one storage, which this process has."""

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# seconds to wait for processes that take or release the same lock at the same time
_PATIENCE = 10.0
_PAUSE = 0.005
_RENEW_SECONDS = LEASE_SECONDS / 4


class FileLock:
    """A locked file.

    Args:
        path: Its path. Its folder is made if necessary.
        holder: This process.
        target: Path of the dataset, for errors.
        shared: Whether others of the same run may hold it at the same time.
        sync: Whether new folders above its folder are put on disk.

    Raises:
        InUseError: Another thread, process or machine has the lock.
        OSError: The file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        holder: Holder,
        target: object,
        *,
        shared: bool = False,
        sync: bool = False,
    ) -> None:
        self.path = path
        self._holder, self._target, self._shared, self._sync = holder, target, shared, sync
        self._handle, self._has_flock = -1, True
        give_up = time.monotonic() + _PATIENCE
        while not self._try(may_wait=time.monotonic() < give_up):
            pass

    def _try(self, *, may_wait: bool) -> bool:
        """Return whether the lock is taken; False to try again."""
        folder = self.path.parent
        above, flags = folder.parent, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        refuse_link(folder)
        try:
            if self._sync and above.exists():  # a killed process may have made it just before
                with suppress(PermissionError):
                    sync_folder(above.parent)
            make_folder(above, sync=self._sync)
            folder.mkdir(exist_ok=True)
            is_new = True
            try:
                handle = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                is_new, handle = False, os.open(self.path, flags)
        except (FileNotFoundError, FileExistsError):
            # the last holder removes it, or its empty folder; or nothing can be made there, as in /proc
            if not may_wait:
                raise
            time.sleep(_PAUSE)
            return False
        try:
            if self._take(handle, is_new=is_new, may_wait=may_wait):
                self._handle = handle
        except OSError as error:
            name_file(error, self.path)
            raise
        finally:
            if self._handle < 0:
                os.close(handle)
        return self._handle >= 0

    def _take(self, handle: int, *, is_new: bool, may_wait: bool) -> bool:
        """Take the lock of an open file, unless somebody has it. Return False to try again."""
        alone = self._flock(handle, fcntl.LOCK_EX)
        self._has_flock = alone is not None
        beside = self._shared and alone is False and self._flock(handle, fcntl.LOCK_SH) is True
        silent = time.time() - os.fstat(handle).st_mtime
        other = parse(os.pread(handle, 1 << 16, 0))
        of_run = self._shared and other is not None and other.run == self._holder.run
        if other is not None:
            abandoned = is_gone(other, locked=alone, silent=silent)
        else:  # without locks, another process may have made the file just now
            abandoned = is_new or self._has_flock or silent > LEASE_SECONDS
        # Another process is just taking or releasing the lock; or it is shared, but damaged.
        passing = other is None if beside else abandoned or of_run
        if alone is False and passing and may_wait:
            time.sleep(_PAUSE)
            return False
        if not (beside and of_run) and (alone is False or not (abandoned or of_run)):
            raise InUseError(describe(other, self._target))
        if not self._is_at(handle):  # removed by its last holder, or exchanged with its folder
            return False
        if not self._has_flock and abandoned and not is_new:  # only who makes the file has the lock
            with suppress(FileNotFoundError):
                aside = self.path.with_name(f"{self.path.name}.{self._holder.token}.partial")
                os.replace(self.path, aside)
                os.unlink(aside)
            return False
        if abandoned and alone is not False:
            with open(handle, "r+b", buffering=0, closefd=False) as file:
                file.truncate(0)
                write_all(file, self._holder.encode())
        # from alone to shared, another one may come between: then it is taken again
        return not (self._shared and alone) or bool(self._flock(handle, fcntl.LOCK_SH))

    def _flock(self, handle: int, mode: int) -> bool | None:
        """Return whether the file is locked now; None if the file system has no locks."""
        try:
            fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            if isinstance(error, BlockingIOError | PermissionError):
                return False
            raise
        return True

    def _is_at(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            name_file(error, self.path)
            raise

    def is_ours(self) -> bool:
        """Return whether this process still has the lock."""
        if self._shared and not self._has_flock:  # its first holder may have removed it
            return self._handle >= 0
        return self._handle >= 0 and self._is_at(self._handle)

    def renew(self) -> None:
        """Give a sign of life."""
        os.utime(self._handle)

    def release(self) -> None:
        """Let others take it, and remove the file, unless others share it."""
        if self._handle < 0:
            return
        with suppress(OSError):
            is_last = not self._shared
            if self._shared and self._has_flock:
                is_last = bool(self._flock(self._handle, fcntl.LOCK_EX))
            elif self._shared:
                first = parse(os.pread(self._handle, 1 << 16, 0))
                is_last = first is not None and first.token == self._holder.token
            if is_last and self._is_at(self._handle):
                os.unlink(self.path)
        self.forget()

    def forget(self) -> None:
        """Close the file: the lock ends, but in a fork of its holder."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class Lock:
    """The right to write to a target, until it is released or the process ends. A fork lacks it.

    Args:
        places: The files or objects to lock, in this order, and whether each is shared. None of
            them locks nothing.
        target: Path of the dataset, for errors.
        run: Fingerprint of the run in parts whose processes share the last one, or empty.
        patience: Seconds to wait for other holders.
        sync: Whether new folders are put on disk.

    Raises:
        InUseError: Another writer has one of them.
        OSError: One cannot be written.
    """

    def __init__(
        self,
        places: Sequence[tuple[AnyPath, bool]],
        target: object,
        *,
        run: str = "",
        patience: float = 0,
        sync: bool = False,
    ) -> None:
        self._target, self._pid, self._held = target, os.getpid(), list[_HeldLock]()
        folders = [path.parent.parent for path, _ in places if isinstance(path, Path)]
        self._missing = [missing for folder in folders for missing in _missing(folder)]
        self._renewing, self.released = _Renewing(self._held), False
        give_up = time.monotonic() + patience
        try:
            for number, (path, shared) in enumerate(places, 1):
                is_last = number == len(places)
                holder = this_process((run * is_last or "files") * shared)
                self._held.append(_take(path, holder, target, shared, sync, give_up))
        except BaseException:
            self.release()
            raise
        if self._held:
            self._renewing.start()
            weakref.finalize(self, _release, self._held, self._renewing, self._missing, self._pid)
            _LOCKS.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def follow(self, staged: Path, final: Path) -> None:
        """Lock a file in a staged folder, too, which is `final` when the folder has its name."""
        lock = FileLock(staged, this_process(), self._target)
        lock.path = final
        self._held.append(lock)

    def check_process(self) -> None:
        """Raise `InUseError` in a fork of the process that has the lock."""
        if self._held and self._pid != os.getpid():
            raise InUseError(
                f"{self._target}: its writer was opened by process {self._pid}, and this process "
                f"({os.getpid()}) is a fork of it: open the writer in the process that writes"
            )

    def check(self) -> None:
        """Check that this process still has the lock, before files get their final names.

        Raises:
            InUseError: This process is a fork of the one that has it, or it was deleted or taken
                over.
        """
        self.check_process()
        if not self.released and not all(lock.is_ours() for lock in self._held):
            raise InUseError(
                f"{self._target}: this writer has lost its lock, which was deleted, "
                "or taken over by another machine because this process did not run "
                f"for {LEASE_SECONDS:.0f} seconds. Nothing more is written; "
                "continue with mode='resume' when no other writer is active"
            )

    def release(self) -> None:
        """Let others write to the target."""
        self.released = True
        _release(self._held, self._renewing, self._missing, self._pid)


_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()
"""The locks of this process: a fork would share their open files, and keep the locks."""


def _after_fork() -> None:
    for lock in list(_LOCKS):
        for claim in lock._held:
            claim.forget()


os.register_at_fork(after_in_child=_after_fork)


def _take(
    path: AnyPath, holder: Holder, target: object, shared: bool, sync: bool, give_up: float
) -> _HeldLock:
    while True:
        try:
            if isinstance(path, Path):
                return FileLock(path, holder, target, shared=shared, sync=sync)
            from bushel.storage.objects.upload import take_object

            assert is_object(path)
            return take_object(path, holder, target)
        except InUseError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(_PAUSE)


class _Renewing(threading.Thread):
    """Renews locks until it is ended."""

    def __init__(self, locks: Sequence[_HeldLock]) -> None:
        super().__init__(name="bushel-lock", daemon=True)
        self._locks, self._ended = locks, threading.Event()

    def run(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS):
            for lock in list(self._locks):
                with suppress(OSError):  # `check` finds out whether the lock is lost
                    lock.renew()

    def end(self) -> None:
        """Wait for the end, so that no lock is renewed after its release."""
        self._ended.set()
        if self.is_alive() and self is not threading.current_thread():
            self.join()


def _release(
    locks: list[_HeldLock], renewing: _Renewing, missing: Sequence[Path], pid: int
) -> None:
    """Release locks, and remove their folders and those that were missing before, if empty."""
    if pid != os.getpid():
        return
    renewing.end()
    while locks:
        lock = locks.pop()
        lock.release()
        if isinstance(lock, FileLock):
            folder = lock.path.parent
            with suppress(OSError):  # it has other files, or is gone
                folder.rmdir()
                if folder.parent.name == ".bushel":
                    folder.parent.rmdir()
                for empty in missing:
                    with suppress(FileNotFoundError):
                        empty.rmdir()


def _missing(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it that do not exist, to the outermost."""
    while not folder.exists():
        yield folder
        folder = folder.parent
