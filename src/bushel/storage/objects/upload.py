"""Writing objects: each is there whole or not at all.

An object of more than one part is uploaded in parts that the store joins at the very end. An error and Ctrl-C abort
the upload, so nothing of it stays; a process that is killed leaves at most an unfinished multipart upload, which no
reader sees and which the bucket's lifecycle rules clear away.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from bushel.storage.objects.client import library, patience, silence, store_of
from bushel.storage.objects.errors import is_transient, translated
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.retries import persistently

__all__ = ["delete", "put_bytes", "put_file"]

_PART = 8 << 20
"""Bytes of a part, and of what is put in one request: S3 wants 5 MiB at least."""
_MOST_PARTS = 10_000
_AT_ONCE = 8
"""Parts of one object on their way at the same time; each of them is held in memory."""
_MOST_BYTES = 256 << 20
"""Bytes that they have together: parts of very large objects are so large that fewer go at a time."""
_LOOK_AROUND = 0.1
"""Seconds after which an upload that is to stop is noticed."""


def put_file(target: ObjectPath, source: Path, *, new: bool = False, stop: threading.Event | None = None) -> None:
    """Upload a file.

    Args:
        target: What it will be.
        source: A local file.
        new: Refuse to replace an object.
        stop: Ends the upload soon after it is set, for callers in a thread that Ctrl-C does not reach: within
            `BUSHEL_NETWORK_TIMEOUT` seconds where the server is silent, which leaves an unfinished multipart upload.

    Raises:
        FileExistsError: `new`, and there is an object already.
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
    with open(source, "rb", buffering=0) as file, translated(str(target)):
        _interruptibly(lambda: _patiently(target, lambda: _put_parts(target, file, part_size(size), stop), stop), stop)


def put_bytes(target: ObjectPath, data: bytes, *, new: bool = False, stop: threading.Event | None = None) -> None:
    """Write an object in one request.

    Args:
        target: What it will be.
        data: Its content.
        new: Refuse to replace an object with another content.
        stop: When it is set, a request that fails is not made again.

    Raises:
        FileExistsError: `new`, and there is an object already.
        InterruptedError: `stop` was set.
        OSError: The store refuses, or cannot be reached.
    """
    obstore = library()
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    store = store_of(target.root, retries=False)

    def put() -> None:
        if new:
            try:
                obstore.put(store, target.key, data, mode="create")
            except (AlreadyExistsError, PreconditionError) as error:
                # The answer to a first attempt may have been lost: then this is what it wrote.
                if bytes(obstore.get(store, target.key).bytes()) != data:
                    raise _taken(target) from error
            except NotSupportedError:  # a store without conditional puts
                if target.exists():
                    raise _taken(target) from None
            else:
                return
        obstore.put(store, target.key, data, use_multipart=False)

    with translated(str(target)):
        _patiently(target, put, stop or threading.Event())


def delete(target: ObjectPath, *, give_up: threading.Event | None = None) -> None:
    """Remove an object, if it is there.

    Args:
        target: The object.
        give_up: When it is set, a request that fails is not made again.

    Raises:
        OSError: The store refuses, or cannot be reached.
    """
    store = store_of(target.root, retries=False)
    with suppress(FileNotFoundError):  # S3 does not say so; other stores do
        persistently(str(target), lambda: library().delete(store, target.key), give_up)


def part_size(size: int) -> int:
    """Bytes of a part, so that there are not more of them than S3 allows: whole MiB."""
    least = -(-size // _MOST_PARTS)
    return max(_PART, -(-least // (1 << 20)) << 20)


def _patiently(target: ObjectPath, work: Callable[[], None], stop: threading.Event) -> None:
    """Do something again while it fails for a reason that may pass: obstore repeats only some of its requests."""
    end, pause = time.monotonic() + patience(), 0.1
    while not stop.is_set():
        try:
            return work()
        except Exception as error:
            if not is_transient(error) or time.monotonic() > end:
                raise
        stop.wait(pause)
        pause = min(2 * pause, 5.0)
    raise _stopped(target)


def _put_parts(target: ObjectPath, file: IO[bytes], part: int, stop: threading.Event) -> None:
    """Upload a file in parts, once, and abort the upload if that fails."""
    file.seek(0)
    ends: list[OSError] = []

    def parts() -> Iterator[bytes]:
        try:
            yield from _parts(target, file, part, stop)
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
        # a server that answers is told to abort the upload; one that does not is not waited for
        await asyncio.wait({upload}, timeout=silence())
        if not upload.done():
            upload.cancel()
            await asyncio.wait({upload})
            raise _stopped(target)
        await upload

    try:
        asyncio.run(put())
    except Exception as error:
        if ends and error is not ends[0]:  # the upload that was to end for this could not be aborted either
            raise ends[0] from error
        raise


def _parts(target: ObjectPath, file: IO[bytes], size: int, stop: threading.Event) -> Iterator[bytes]:
    while part := file.read(size):
        if stop.is_set():
            raise _stopped(target)
        yield part


def _stopped(target: ObjectPath) -> InterruptedError:
    return InterruptedError(f"{target}: the upload was stopped")


def _interruptibly(work: Callable[[], object], stop: threading.Event) -> None:
    """Do something in a thread, so that Ctrl-C reaches this one, and join it whatever happens."""
    with ThreadPoolExecutor(1, "bushel-upload") as pool:
        done = pool.submit(work)
        try:
            done.result()
        except BaseException:
            stop.set()
            raise


def _taken(target: ObjectPath) -> FileExistsError:
    return FileExistsError(
        f"{target} is there already, and was not when this write began: if another one goes on, write to another path; "
        "else remove that object and go on with mode='resume'"
    )
