"""A cache of object blocks on a local disk, for data that is read again: in the next epoch, or in the next run.

Each block is a file. Its name is a digest of the object's URL, size and stamp (made from the ETag)
and the block's number, so blocks of a replaced object are never found. A block is written under
another name and renamed, so a killed process leaves no partial block. It starts with the CRC-32 of
its bytes, which every read checks: a damaged block is fetched again. Processes share a folder
without coordination, and hold no file open. The modification time of the file is the last use of
the block, within a minute; the least recently used blocks are removed first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from bushel._runtime.messages import log_warning
from bushel.kernels import crc32
from bushel.storage.notation import parse_bytes

BLOCK = 1 << 20
"""Bytes of a block; the last one of an object has fewer."""

_HEAD = struct.Struct("<8sIQ")
_MAGIC = b"bushel1\n"
_USUAL_SIZE = "10GB"
_MINUTE = 60.0
_FORGOTTEN = 3600.0  # seconds after which a partial file is considered abandoned


class BlockCache:
    """A folder of cached blocks.

    Args:
        folder: The folder. It is created if necessary, and may be deleted at any time.
        limit: Maximum size of all blocks, in bytes. Each process may exceed it by 1/32 for a short
            time.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._grown = limit  # bytes that were written since the folder was last measured
        self._broken = False

    @staticmethod
    def identity(url: str, size: int, stamp: int) -> str:
        """Return the name of an object in the cache: 40 hex digits."""
        return hashlib.sha256(f"{url}\n{size}\n{stamp}".encode()).hexdigest()[:40]

    def has(self, identity: str, block: int) -> bool:
        """Return whether a block is cached. It is not read, so it may be damaged."""
        return self._path(identity, block).exists()

    def get(self, identity: str, block: int) -> memoryview | None:
        """Return the bytes of a block, or None if it is not cached or damaged."""
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
            log_warning("%s is damaged and is fetched again", path)
            with suppress(OSError):  # another process was faster, or the next read tries again
                path.unlink()
            return None
        if age > _MINUTE:
            # evicted in the meantime, or owned by another user: then it looks older than it is
            with suppress(OSError):
                os.utime(path)
        return body

    def put(self, identity: str, block: int, *pieces: bytes | memoryview) -> None:
        """Cache a block, given in pieces. If the disk is full or not writable, caching stops with a warning."""
        if self._broken:
            return
        checksum = 0
        for piece in pieces:
            checksum = crc32(piece, checksum)
        size = sum(map(len, pieces))
        path = self._path(identity, block)
        # containers have the same process ids
        partial = path.with_name(f"{path.name}.{os.urandom(8).hex()}.partial")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with open(partial, "xb", buffering=0) as file:
                    head = _HEAD.pack(_MAGIC, checksum, size)
                    if sum(map(file.write, (head, *pieces))) != len(head) + size:
                        raise OSError(f"{partial}: the disk is full")  # noqa: TRY301 - one of several failures that are treated alike
                os.rename(partial, path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        except FileNotFoundError:  # the folder is being deleted, as it may be at any time
            return
        except OSError as error:
            self._give_up(error)
            return
        self._grown += size
        if self._grown > self.limit // 32:
            self._grown = 0
            self.trim()

    def drop(self, identity: str, block: int) -> None:
        """Remove a block, if it is cached."""
        try:
            self._path(identity, block).unlink(missing_ok=True)
        except OSError as error:
            self._give_up(error)

    def trim(self) -> None:
        """Remove the least recently used blocks, down to 7/8 of the limit, if the limit is exceeded.

        One process does this at a time; the others continue.
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
                with suppress(FileNotFoundError):  # renamed or removed in the meantime
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
            log_warning("the block cache is disabled: %s", error)
        self._broken = True


def cache_of_environment() -> BlockCache | None:
    """Return the cache that `BUSHEL_CACHE_DIR` and `BUSHEL_CACHE_SIZE` configure, or None without the first.

    Raises:
        ValueError: The size is invalid.
    """
    folder = os.environ.get("BUSHEL_CACHE_DIR")
    if not folder:
        return None
    return cache_in(folder, "BUSHEL_CACHE_SIZE", _USUAL_SIZE)


def cache_in(folder: str, variable: str, usual: str) -> BlockCache | None:
    """Return the cache of this process in a folder, of the size that a variable has; None if that is 0.

    Args:
        folder: The folder.
        variable: Name of the variable.
        usual: The size if it is not set, such as `10GB`.

    Raises:
        ValueError: The size is invalid.
    """
    return _cache(os.getpid(), folder, variable, os.environ.get(variable) or usual)


@lru_cache(maxsize=16)
def _cache(process: int, folder: str, variable: str, size: str) -> BlockCache | None:
    limit = parse_bytes(size, variable)
    return BlockCache(Path(folder), limit) if limit else None
