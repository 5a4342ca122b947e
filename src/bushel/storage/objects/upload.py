"""Writing objects: each is there whole or not at all.

An object of more than one part is uploaded in parts that the store joins at the very end. An error and Ctrl-C abort
the upload, so nothing of it stays; a process that is killed leaves at most an unfinished multipart upload, which no
reader sees and which the bucket's lifecycle rules clear away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from bushel.storage.objects.client import library, patience
from bushel.storage.objects.errors import is_transient, translated
from bushel.storage.objects.location import ObjectPath

__all__ = ["delete", "put_bytes", "put_file"]

_PART = 8 << 20
"""Bytes of a part, and of what is put in one request: S3 wants 5 MiB at least."""
_MOST_PARTS = 10_000
_AT_ONCE = 8
"""Parts of one object on their way at the same time; each of them is held in memory."""


def put_file(target: ObjectPath, source: Path, *, new: bool = False, stop: threading.Event | None = None) -> None:
    """Upload a file.

    Args:
        target: What it will be.
        source: A local file.
        new: Refuse to replace an object.
        stop: Ends the upload soon after it is set, for callers in a thread that Ctrl-C does not reach.

    Raises:
        FileExistsError: `new`, and there is an object already.
        InterruptedError: `stop` was set.
        OSError: The store refuses, or cannot be reached.
    """
    stop, size = stop or threading.Event(), source.stat().st_size
    if stop.is_set():
        raise _stopped(target)
    if size <= _PART:
        put_bytes(target, source.read_bytes(), new=new)
        return
    if new and target.exists():
        raise _taken(target)
    part = part_size(size)
    with open(source, "rb", buffering=0) as file, translated(str(target)):

        def put() -> None:
            file.seek(0)
            library().put(
                target.store,
                target.key,
                _parts(target, file, part, stop),
                use_multipart=True,
                chunk_size=part,
                max_concurrency=_AT_ONCE,
            )

        _interruptibly(lambda: _patiently(put, stop), stop)


def put_bytes(target: ObjectPath, data: bytes, *, new: bool = False) -> None:
    """Write an object in one request.

    Args:
        target: What it will be.
        data: Its content.
        new: Refuse to replace an object with another content.

    Raises:
        FileExistsError: `new`, and there is an object already.
        OSError: The store refuses, or cannot be reached.
    """
    obstore = library()
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    def put() -> None:
        if new:
            try:
                obstore.put(target.store, target.key, data, mode="create")
            except (AlreadyExistsError, PreconditionError) as error:
                # The answer to a first attempt may have been lost: then this is what it wrote.
                if bytes(obstore.get(target.store, target.key).bytes()) != data:
                    raise _taken(target) from error
            except NotSupportedError:  # a store without conditional puts
                if target.exists():
                    raise _taken(target) from None
            else:
                return
        obstore.put(target.store, target.key, data, use_multipart=False)

    with translated(str(target)):
        _patiently(put, threading.Event())


def delete(target: ObjectPath) -> None:
    """Remove an object, if it is there.

    Raises:
        OSError: The store refuses, or cannot be reached.
    """
    try:
        with translated(str(target)):
            library().delete(target.store, target.key)
    except FileNotFoundError:  # S3 does not say so; other stores do
        pass


def part_size(size: int) -> int:
    """Bytes of a part, so that there are not more of them than S3 allows: whole MiB."""
    least = -(-size // _MOST_PARTS)
    return max(_PART, -(-least // (1 << 20)) << 20)


def _patiently(work: Callable[[], None], stop: threading.Event) -> None:
    """Do something again while it fails for a reason that may pass: obstore repeats only some of its requests."""
    end, pause = time.monotonic() + patience(), 0.1
    while True:
        try:
            return work()
        except Exception as error:
            if not is_transient(error) or time.monotonic() > end:
                raise
        stop.wait(pause)
        pause = min(2 * pause, 5.0)


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
    return FileExistsError(f"{target} is there already, and was not when this write began: does another one go on?")
