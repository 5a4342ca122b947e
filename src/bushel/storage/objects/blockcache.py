"""Blocks of objects on a disk of this machine, for what is read again: the next epoch, the next run.

A block is a file of its own, named by a digest of URL, size and stamp (which is made from the ETag) of its object and
by its number, so that a block of an object that was replaced is never found. It is written aside and renamed, so that
a process that is killed leaves no half of one, and it begins with the CRC-32 of its bytes, which is compared on every
read: what a disk damages is fetched again. Processes share a folder without knowing of each other; none holds anything
open. The file's modification time is when the block was last used, within a minute; the oldest go first.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bushel.kernels import crc32
from bushel.storage.notation import parse_bytes

__all__ = ["BLOCK", "BlockCache", "cache_of_environment"]

BLOCK = 1 << 20
"""Bytes of a block; the last one of an object has fewer."""

_HEAD = struct.Struct("<8sIQ")
_MAGIC = b"bushel1\n"
_USUAL_SIZE = "10GB"
_MINUTE = 60.0
_FORGOTTEN = 3600.0
"""Seconds after which a file that was written aside belongs to nobody any more."""

_log = logging.getLogger("bushel")


@dataclass(slots=True)
class _Growth:
    """Bytes that this process has written since it last looked at the whole; at first it does not know."""

    bytes: int


class BlockCache:
    """A folder of blocks.

    Args:
        folder: Where they are; it is made if need be, and can be deleted at any time.
        limit: Bytes that they may have together. For a short time there may be more, by 1/32 for each process.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._growth = _Growth(limit)
        self._broken = False

    @staticmethod
    def identity(url: str, size: int, stamp: int) -> str:
        """The name of an object in the cache: 40 hex digits."""
        return hashlib.sha256(f"{url}\n{size}\n{stamp}".encode()).hexdigest()[:40]

    def get(self, identity: str, block: int) -> memoryview | None:
        """The bytes of a block, if they are here and whole."""
        path = self._path(identity, block)
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
                age = time.time() - os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(error)
            return None
        body = memoryview(data)[_HEAD.size :]
        if len(data) < _HEAD.size or _HEAD.unpack_from(data) != (_MAGIC, crc32(body), len(body)):
            _log.warning("%s is damaged and is fetched again", path)
            with suppress(OSError):  # another process was faster, or the next read will see
                path.unlink()
            return None
        if age > _MINUTE:
            with suppress(OSError):  # evicted meanwhile, or of another user: then it looks older than it is
                os.utime(path)
        return body

    def put(self, identity: str, block: int, data: memoryview) -> None:
        """Keep a block. A disk that is full or refuses is no error: nothing more is kept then."""
        if self._broken:
            return
        path = self._path(identity, block)
        partial = path.with_name(f"{path.name}.{os.urandom(8).hex()}.partial")  # containers have the same process ids
        try:
            try:
                file = open(partial, "xb", buffering=0)  # noqa: SIM115 - closed below
            except FileNotFoundError:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = open(partial, "xb", buffering=0)  # noqa: SIM115
            try:
                with file:
                    whole = _HEAD.pack(_MAGIC, crc32(data), len(data)) + data
                    if file.write(whole) != len(whole):
                        raise OSError(f"{partial}: the disk is full")  # noqa: TRY301 - one of several ways to fail
                os.rename(partial, path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        except FileNotFoundError:  # the folder is being deleted, as it may be at any time
            return
        except OSError as error:
            self._give_up(error)
            return
        self._growth.bytes += len(data)
        if self._growth.bytes > self.limit // 32:
            self._growth.bytes = 0
            self.trim()

    def trim(self) -> None:
        """Remove the blocks that were not used for longest, down to 7/8 of the limit, if there is more than that.

        One process does so at a time; the others go on meanwhile.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.folder / "lock", "ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                self._remove_oldest()
        except FileNotFoundError:  # as above
            return
        except OSError as error:
            self._give_up(error)

    def _remove_oldest(self) -> None:
        now, total = time.time(), 0
        blocks: list[tuple[float, int, str]] = []
        for folder in os.scandir(self.folder):
            if not folder.is_dir():
                continue
            for entry in os.scandir(folder.path):
                with suppress(FileNotFoundError):  # renamed or removed meanwhile
                    stat = entry.stat()
                    if not entry.name.endswith(".partial"):
                        blocks.append((stat.st_mtime, stat.st_size, entry.path))
                        total += stat.st_size
                    elif now - stat.st_mtime > _FORGOTTEN:
                        os.unlink(entry.path)
        if total <= self.limit:
            return
        for _, size, path in sorted(blocks):
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size
            if total <= self.limit // 8 * 7:
                return

    def _path(self, identity: str, block: int) -> Path:
        return self.folder / identity[:2] / f"{identity[2:]}-{block}"

    def _give_up(self, error: OSError) -> None:
        if not self._broken:
            _log.warning("the block cache is not used any more: %s", error)
        self._broken = True


def cache_of_environment() -> BlockCache | None:
    """The cache that `BUSHEL_CACHE_DIR` and `BUSHEL_CACHE_SIZE` ask for, None without the first.

    Raises:
        ValueError: The size is none.
    """
    folder = os.environ.get("BUSHEL_CACHE_DIR")
    if not folder:
        return None
    return _cache(os.getpid(), folder, os.environ.get("BUSHEL_CACHE_SIZE") or _USUAL_SIZE)


@lru_cache(maxsize=8)
def _cache(process: int, folder: str, size: str) -> BlockCache:
    try:
        return BlockCache(Path(folder), parse_bytes(size))
    except ValueError as error:
        raise ValueError(f"BUSHEL_CACHE_SIZE: {error}") from error
