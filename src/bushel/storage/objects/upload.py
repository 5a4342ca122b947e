"""Writing objects: each appears completely or not at all.

A large object is uploaded in parts, which the store joins at the end; obstore sends several parts at a time. An error
and Ctrl-C abort the upload, so no data stay in the store. A process that is killed leaves at most an unfinished
multipart upload, which no reader sees and which the bucket's lifecycle rules remove.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from bushel._runtime.threads import Result, Threads
from bushel.storage.objects.client import library, silence, store_of
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.retries import persistently, translated

_PART = 8 << 20  # bytes of a part, and of the largest object that is put in one request; S3 requires at least 5 MiB
_MOST_PARTS = 10_000
_AT_ONCE = 8  # parts of one object that are sent at a time; each of them is held in memory
_MOST_BYTES = 256 << 20
"""Bytes that they may have together: of the large parts of very large objects, fewer are sent at a time."""
_MOST_COPIED = 5 << 30  # bytes of the largest object that S3 copies in one request
_LOOK_AROUND = 0.1  # seconds between two checks whether an upload has to stop


def put_file(target: ObjectPath, source: Path, *, new: bool = False, stop: threading.Event | None = None) -> None:
    """Upload a file.

    Args:
        target: The object.
        source: A local file.
        new: Refuse to replace an object.
        stop: Ends the upload soon after it is set, for callers in a thread that Ctrl-C does not reach. If the server
            is silent, that takes up to `BUSHEL_NETWORK_TIMEOUT` seconds and leaves an unfinished multipart upload.

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
    with open(source, "rb", buffering=0) as file, translated(str(target)):
        part = part_size(size)
        _interruptibly(lambda: _until_stopped(target, lambda: _put_parts(target, file, part, stop), stop), stop)


def put_bytes(target: ObjectPath, data: bytes, *, new: bool = False, stop: threading.Event | None = None) -> None:
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
        _until_stopped(target, put, stop or threading.Event())


def copy(source: ObjectPath, target: ObjectPath) -> None:
    """Copy an object within its bucket. The store does it; an object that is too large for that passes through here.

    Raises:
        FileNotFoundError: The source does not exist.
        OSError: The store refuses, or cannot be reached.
    """
    store = store_of(target.root, retries=False)
    if source.stat().st_size <= _MOST_COPIED:
        persistently(str(target), lambda: library().copy(store, source.key, target.key))
        return
    with source.open("rb") as file, translated(str(target)):
        part, stop = part_size(source.stat().st_size), threading.Event()
        _interruptibly(lambda: _put_parts(target, file, part, stop), stop)


def delete(target: ObjectPath, *, give_up: threading.Event | None = None) -> None:
    """Remove an object, if it exists.

    Args:
        target: The object.
        give_up: When it is set, a failed request is not made again.

    Raises:
        OSError: The store refuses, or cannot be reached.
    """
    store = store_of(target.root, retries=False)
    with suppress(FileNotFoundError):  # S3 reports success instead; other stores raise this
        persistently(str(target), lambda: library().delete(store, target.key), give_up)


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
        persistently(str(target), work, stop)
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


def _parts(target: ObjectPath, file: IO[bytes], size: int, stop: threading.Event) -> Iterator[bytes]:
    while part := file.read(size):
        if stop.is_set():
            raise _stopped(target)
        yield part


def _stopped(target: ObjectPath) -> InterruptedError:
    return InterruptedError(f"{target}: the upload was stopped")


def _interruptibly(work: Callable[[], None], stop: threading.Event) -> None:
    """Call `work` in another thread, so that Ctrl-C reaches this one. It sets `stop`, and `work` is waited for."""
    thread, result = Threads(1, "bushel-upload"), Result[None]()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            result.fail(error)
        else:
            result.set(None)

    try:
        thread.submit(run)
        result.get()
    except BaseException:
        stop.set()
        raise
    finally:
        thread.close()


def _taken(target: ObjectPath) -> FileExistsError:
    return FileExistsError(
        f"{target} exists already, and did not when this write started: if another writer is active, write to another "
        "path; else remove that object and continue with mode='resume'"
    )
