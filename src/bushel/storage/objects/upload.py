"""Writing objects, completely or not at all, and locks, which are objects.

A large object is uploaded in parts, which the store joins at the end; obstore sends several parts
at a time. An error and Ctrl-C abort the upload, so no data stay in the store. A process that is
killed leaves at most an unfinished multipart upload, which no reader sees and which the bucket's
lifecycle rules remove.

A lock is an object that was created on the condition that it did not exist. Its holder writes it
again from time to time, on the condition that it is still its own; other machines take it over, on
the condition that it has not changed, when that has not happened for a while by the clock of the
store.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from bushel._runtime.threads import Result, Threads
from bushel.errors import InUseError
from bushel.storage.holder import LEASE_SECONDS, Holder, describe, is_gone, parse

from .client import library, silence
from .location import ObjectPath
from .retries import persistently, translated

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult, UpdateVersion

# bytes of a part, and of the largest object that is put in one request; S3 requires at least 5 MiB
_PART = 8 << 20
_MOST_PARTS = 10_000
_AT_ONCE = 8  # parts of one object that are sent at a time; each of them is held in memory
_MOST_BYTES = 256 << 20
"""Bytes that they may have together: of the large parts of very large objects, fewer are sent at a time."""
_LOOK_AROUND = 0.1  # seconds between two checks whether an upload has to stop


def put_file(
    target: ObjectPath, source: Path, *, new: bool = False, stop: threading.Event | None = None
) -> None:
    """Upload a file.

    Args:
        target: The object.
        source: A local file.
        new: Refuse to replace an object.
        stop: Ends the upload soon after it is set, for callers in a thread that Ctrl-C does not
            reach. If the server is silent, that takes up to `BUSHEL_NETWORK_TIMEOUT` seconds and
            leaves an unfinished multipart upload.

    Raises:
        FileExistsError: `new`, and the object exists.
        InterruptedError: `stop` was set.
        OSError: The store refuses, or cannot be reached.
    """
    stop, size = stop or threading.Event(), source.stat().st_size
    if size <= _PART:
        put_bytes(target, source.read_bytes(), new=new, stop=stop)
        return
    if stop.is_set():
        raise _stopped(target)
    if new and target.exists():
        raise _taken(target)
    with open(source, "rb", buffering=0) as file, translated(target):
        part = part_size(size)
        _interruptibly(
            lambda: _until_stopped(target, lambda: _put_parts(target, file, part, stop), stop), stop
        )


def put_bytes(
    target: ObjectPath, data: bytes, *, new: bool = False, stop: threading.Event | None = None
) -> None:
    """Write an object in one request.

    Args:
        target: The object.
        data: Its content.
        new: Refuse to replace an object with another content.
        stop: When it is set, a failed request is not made again.

    Raises:
        FileExistsError: `new`, and the object exists.
        InterruptedError: `stop` was set.
        OSError: The store refuses, or cannot be reached.
    """

    def put() -> None:
        if not new:
            library().put(target.once, target.key, data, use_multipart=False)
        # the answer to a first attempt may have been lost: then the object has these bytes
        elif put_if(target, data, None, stop) is None and read_version(target).data != data:
            raise _taken(target)

    _until_stopped(target, put, stop or threading.Event())


class StoredVersion(NamedTuple):
    """A version of an object, or none."""

    data: bytes | None = None
    version: UpdateVersion | None = None
    time: float = 0  # seconds since 1970, by the clock of the store


def put_if(
    target: ObjectPath,
    data: bytes,
    version: UpdateVersion | None,
    stop: threading.Event | None = None,
) -> UpdateVersion | None:
    """Write an object if it still has this version, or, with None, if it does not exist.

    A store without conditional puts gets an object that is looked at before and after.

    Returns:
        Its new version; None if it has another version, or exists. That is also the answer if the
        first answer of the store was lost: callers look whether the object has their bytes.

    Raises:
        OSError: The store refuses, or cannot be reached.
    """
    obstore = library()
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    store = target.once

    def put(version: UpdateVersion | None) -> UpdateVersion | None:
        try:
            mode = "create" if version is None else version or "overwrite"
            return _version_in(obstore.put(store, target.key, data, mode=mode))
        except (AlreadyExistsError, PreconditionError):
            return None
        except FileNotFoundError:
            if version is None:  # the bucket does not exist
                raise
            return None
        except (NotSupportedError, NotImplementedError):
            if read_version(target).version != version:
                return None
            obstore.put(store, target.key, data, use_multipart=False)
            stored = read_version(target)
            return stored.version if stored.data == data else None

    with translated(target):
        written = persistently(target, lambda: put(version), stop)
        tag = (version or {}).get("e_tag") or ""
        if written is None and version is not None and tag != tag.strip('"'):
            # Ceph 16 compares If-Match without the quotes.
            unquoted: UpdateVersion = {**version, "e_tag": tag.strip('"')}
            written = persistently(target, lambda: put(unquoted), stop)
    return written


def read_version(target: ObjectPath) -> StoredVersion:
    """Return an object with its version. If it does not exist, both are None."""

    def get() -> StoredVersion:
        answer = library().get(target.once, target.key)
        time = answer.meta["last_modified"].timestamp()
        return StoredVersion(bytes(answer.bytes()), _version_in(answer.meta), time)

    try:
        return persistently(target, get)
    except FileNotFoundError:
        return StoredVersion()


def update_object(target: ObjectPath, change: Callable[[bytes | None], bytes]) -> None:
    """Replace an object by what a function makes of its bytes, again if another one was faster."""
    while True:
        stored = read_version(target)
        data = change(stored.data)
        if data == stored.data or put_if(target, data, stored.version) is not None:
            return


def _version_in(answer: PutResult | ObjectMeta) -> UpdateVersion:
    """Return the mark that a store compares: S3 and Azure the ETag, Google Cloud Storage the generation."""
    version: UpdateVersion = {}
    if answer.get("e_tag") is not None:
        version["e_tag"] = answer["e_tag"]
    if answer.get("version") is not None:
        version["version"] = answer["version"]
    return version


def delete(target: ObjectPath, *, give_up: threading.Event | None = None) -> None:
    """Remove an object, if it exists.

    Args:
        target: The object.
        give_up: When it is set, a failed request is not made again.

    Raises:
        OSError: The store refuses, or cannot be reached.
    """
    with suppress(FileNotFoundError):  # S3 reports success instead; other stores raise this
        persistently(target, lambda: library().delete(target.once, target.key), give_up)


def part_size(size: int) -> int:
    """Return the bytes of a part, in whole MiB, such that S3 allows the number of parts."""
    least = -(-size // _MOST_PARTS)
    return max(_PART, -(-least // (1 << 20)) << 20)


def _until_stopped(target: ObjectPath, work: Callable[[], None], stop: threading.Event) -> None:
    """Retry `work` while its errors are transient: obstore retries only some of its requests.

    Raises:
        InterruptedError: `stop` was set before it succeeded.
    """
    if stop.is_set():
        raise _stopped(target)
    try:
        persistently(target, work, stop)
    except ConnectionError as error:
        if stop.is_set():
            raise _stopped(target) from error
        raise


def _put_parts(target: ObjectPath, file: IO[bytes], part: int, stop: threading.Event) -> None:
    """Upload a file in parts, and abort the upload if that fails. This is one attempt."""
    file.seek(0)
    ends: list[OSError] = []

    def parts() -> Iterator[bytes]:
        try:
            while data := file.read(part):
                if stop.is_set():
                    raise _stopped(target)
                yield data
        except OSError as error:
            ends.append(error)
            raise

    async def put() -> None:
        upload = asyncio.ensure_future(
            library().put_async(
                target.store,
                target.key,
                parts(),
                use_multipart=True,
                chunk_size=part,
                max_concurrency=max(1, min(_AT_ONCE, _MOST_BYTES // part)),
            )
        )
        while not upload.done() and not stop.is_set():
            await asyncio.wait({upload}, timeout=_LOOK_AROUND)
        # abort the upload if the server answers; do not wait for one that does not
        await asyncio.wait({upload}, timeout=silence())
        if not upload.done():
            upload.cancel()
            await asyncio.wait({upload})
            raise _stopped(target)
        await upload

    try:
        asyncio.run(put())
    except Exception as error:
        if ends and error is not ends[0]:  # aborting the upload failed too
            raise ends[0] from error
        raise


def _stopped(target: ObjectPath) -> InterruptedError:
    return InterruptedError(f"{target}: the upload was stopped")


def _interruptibly(work: Callable[[], None], stop: threading.Event) -> None:
    """Call `work` in another thread, so that Ctrl-C reaches this one. It sets `stop`, and `work` is waited for."""
    thread, result = Threads(1, "bushel-upload"), Result[None]()

    try:
        thread.submit(partial(result.set_by, work))
        result.get()
    except BaseException:
        stop.set()
        raise
    finally:
        thread.close()


def _taken(target: ObjectPath) -> FileExistsError:
    return FileExistsError(
        f"{target} exists already, and did not when this write started: if another writer is "
        "active, write to another path; else remove that object and continue with mode='resume'"
    )


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
