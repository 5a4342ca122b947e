"""Which process a staging folder belongs to: two that wrote there at once would spoil each other's files."""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from pathlib import Path

__all__ = ["Claim"]

_NAME = "writer"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Claim:
    """The right of this process to write in a folder, until it is released or the process ends, killed or not.

    It is a record lock of POSIX: a fork does not inherit it, so worker processes that outlive a killed writer do not
    keep the folder. On a file system without such locks nothing is claimed.

    Args:
        folder: The folder; it is made if need be.

    Raises:
        FileExistsError: Another process that is alive has it.
        OSError: It cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        while True:
            _make_folder(folder)
            try:
                handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # its last owner has removed it meanwhile
                continue
            self.release = weakref.finalize(self, os.close, handle)
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self.release()
                if error.errno in _NO_LOCKS:
                    return
                if not isinstance(error, BlockingIOError | PermissionError):
                    raise
                raise FileExistsError(
                    f"another process is writing in {folder}: wait until it has ended, or write to another path"
                ) from None
            try:
                if os.path.samestat(os.fstat(handle), (folder / _NAME).stat()):
                    return
            except FileNotFoundError:
                pass
            self.release()


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, which the writer of another shard may remove meanwhile as they are empty."""
    for _ in range(100):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileNotFoundError, FileExistsError):  # there when it was made, gone when it was looked at
            continue
        return
    folder.mkdir(parents=True, exist_ok=True)
