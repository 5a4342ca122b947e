"""Many whole objects at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bushel.storage.objects.client import library, patience, store_of
from bushel.storage.objects.errors import is_transient, translated
from bushel.storage.objects.location import ObjectPath

__all__ = ["fetch_all"]

_AT_ONCE = 64
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a request is made again; each pause is twice the one before."""


def fetch_all(paths: Sequence[ObjectPath]) -> list[bytes | Exception]:
    """The bytes of each object, or why it could not be read; up to 64 are on their way at the same time."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_gathered(paths))
    with ThreadPoolExecutor(1, "bushel-fetch") as pool:  # a notebook's own loop runs in this thread
        return pool.submit(lambda: asyncio.run(_gathered(paths))).result()


async def _gathered(paths: Sequence[ObjectPath]) -> list[bytes | Exception]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(path: ObjectPath) -> bytes | Exception:
        async with room:
            try:
                with translated(str(path)):
                    return await _fetch(path)
            except Exception as error:
                return error

    return list(await asyncio.gather(*map(one, paths)))


async def _fetch(path: ObjectPath) -> bytes:
    """Read an object, and again as long as that fails for a reason that may pass."""
    end, pause = time.monotonic() + patience(), _FIRST_PAUSE
    while True:
        try:
            found = await library().get_async(store_of(path.root, retries=False), path.key)
            return bytes(await found.bytes_async())
        except Exception as error:
            if not is_transient(error) or time.monotonic() > end:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
