"""Locks in an object store.

A lock is an object that was created on the condition that it did not exist. Its holder writes it
again from time to time, on the condition that it is still its own; other machines take it over, on
the condition that it has not changed, when that has not happened for a while by the clock of the
store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bushel.errors import InUseError
from bushel.storage.holder import LEASE_SECONDS, Holder, describe, is_gone, parse

from .location import ObjectPath
from .upload import delete, put_bytes, put_if, read_version

if TYPE_CHECKING:
    from obstore import UpdateVersion

_ATTEMPTS = 20
"""Number of times that a lock is tried while others create, release and take over the same one."""

_LEFT: set[str] = set()
"""Tokens of locks that this process released without the store, which could not be reached."""


class ObjectLock:
    """A lock that this process has.

    Args:
        path: Its object.
        holder: This process.
        version: The version of the object; empty if the store has no versions.
    """

    def __init__(self, path: ObjectPath, holder: Holder, version: UpdateVersion) -> None:
        self._path, self._holder, self._version = path, holder, version
        self._ours = True  # False in a fork, and after another machine has taken the lock over
        self._renewals = 0

    def is_ours(self) -> bool:
        """Return whether the object still belongs to this lock. Raise OSError without the store."""
        if self._ours:
            stored = read_version(self._path)
            other = parse(stored.data)
            self._ours = other is not None and other.token == self._holder.token
            self._version = stored.version or {}
        return self._ours

    def renew(self) -> None:
        """Give a sign of life."""
        self._renewals += 1
        # In S3 the tag follows from the content, so each renewal has another content.
        data = self._holder.encode() + b" " * (self._renewals % 64)
        for _ in range(2):  # the answer to an earlier request may have been lost
            version = None
            if self._ours:
                version = put_if(self._path, data, self._version)
            if version is not None:
                self._version = version
                return
            if not self.is_ours():
                return

    def release(self) -> None:
        """Remove the object."""
        try:
            if self.is_ours():
                delete(self._path)
        except OSError:  # others may take it over after a while, and this process at once
            _LEFT.add(self._holder.token)
        self._ours = False

    def forget(self) -> None:
        """Leave the lock to the holder, in a fork of it."""
        self._ours = False


def take_object(path: ObjectPath, holder: Holder, target: object) -> ObjectLock:
    """Lock a name in a store.

    Raises:
        InUseError: Another process has the lock.
        OSError: The store refuses, or cannot be reached; it refuses each conditional request
            (`ConnectionError`).
    """
    for _ in range(_ATTEMPTS):
        version = put_if(path, holder.encode(), None)
        if version is not None:
            return ObjectLock(path, holder, version)
        stored = read_version(path)
        if stored.version is None:  # released in the meantime
            continue
        other = parse(stored.data)
        if other is not None and other.token == holder.token:  # the answer was lost
            return ObjectLock(path, holder, stored.version)
        if not _is_gone(other, stored.time, path, holder):
            raise InUseError(describe(other, target))
        version = put_if(path, holder.encode(), stored.version)
        if version is not None:
            return ObjectLock(path, holder, version)
    raise ConnectionError(
        f"{path}: the store refused {_ATTEMPTS} times to create this object and to "
        "replace its last version; expected conditional requests (If-None-Match "
        "and If-Match) to work. If no writer is active, delete the object"
    )


def _is_gone(other: Holder | None, renewed: float, path: ObjectPath, holder: Holder) -> bool:
    if other is not None and other.token in _LEFT:
        return True
    silent = _now_beside(path, holder) - renewed
    if other is None:
        return silent > LEASE_SECONDS
    return is_gone(other, locked=None, silent=silent)


def _now_beside(path: ObjectPath, holder: Holder) -> float:
    """Return the time by the clock of the store, from an object that is written for it."""
    probe = path.parent / f"{path.name}.{holder.token}.partial"
    try:
        put_bytes(probe, b"")
        stored = read_version(probe)
        return stored.time or holder.since
    finally:
        delete(probe)
