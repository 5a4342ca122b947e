"""Requests for ranges of objects, many on their way at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from typing_extensions import Buffer

from bushel.storage.objects.remotefile import RemoteFile

__all__ = ["Request", "fetch_all"]

_AT_ONCE = 32
"""Requests on their way at a time: a store answers each after some 30 ms, and many at a time as soon as one."""


_MOST_BYTES = 64 << 20
"""Bytes that they may have together, so that what reads a whole object to keep little of it needs little memory."""


@dataclass(frozen=True, slots=True)
class Request:
    """One range of one object, and what of it goes where.

    Attributes:
        file: Number of the object.
        start: First byte.
        stop: One behind the last byte.
        rows: Numbers of what has bytes in it: extents, or blocks.
    """

    file: int
    start: int
    stop: int
    rows: tuple[int, ...]


def fetch_all(files: Sequence[RemoteFile], requests: Sequence[Request], put: Callable[[Request, Buffer], None]) -> None:
    """Carry out requests, many at once, and hand over what each gives as it comes.

    The threads end before this returns. At an error or Ctrl-C, requests that have not begun are dropped, and those on
    their way are waited for, but not made again.

    Args:
        files: The objects that requests count.
        requests: What to fetch.
        put: Called in any thread with each request and its bytes.

    Raises:
        FormatError: An object was replaced.
        OSError: A store refuses, or cannot be reached.
    """
    if not requests:
        return
    if len(requests) == 1:
        [request] = requests
        put(request, files[request.file].fetch(request.start, request.stop))
        return
    give_up, waiting, room = threading.Event(), deque(requests), _Room(_MOST_BYTES)

    def work() -> None:
        while waiting and not give_up.is_set():
            try:
                request = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            with room.taken(request.stop - request.start):
                if not give_up.is_set():
                    put(request, files[request.file].fetch(request.start, request.stop, give_up))

    threads = min(_AT_ONCE, len(requests))
    pool = ThreadPoolExecutor(threads, "bushel-fetch")
    try:
        done, _ = wait([pool.submit(work) for _ in range(threads)], return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        give_up.set()
        pool.shutdown(cancel_futures=True)


class _Room:
    """Bytes that several threads share; a share that is larger than the whole is given when nobody else has one."""

    def __init__(self, size: int) -> None:
        self._size, self._used, self._changed = size, 0, threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait for that much room, and have it for the body of the `with`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + size <= self._size)
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()
