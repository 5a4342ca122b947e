"""The SHA-256 of whole files, as a table can record them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

from bushel._index.table import FileStamp, Shard
from bushel._runtime.parallel import parallel_map
from bushel._runtime.threads import cpu_count
from bushel.storage import AnyPath, open_file

_CHUNK = 4 << 20


def digest_of(path: AnyPath, tick: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file in hexadecimal digits. It is read, 4 MiB at a time.

    Args:
        path: The file, also in an object store.
        tick: Called with the number of bytes that were read since the last call.

    Raises:
        ExtentError: The file has shrunk.
        OSError: It cannot be read.
    """
    file, found = open_file(path), sha256()
    for first in range(0, file.size, _CHUNK):
        size = min(_CHUNK, file.size - first)
        found.update(file.read(first, size))
        if tick is not None:
            tick(size)
    return found.hexdigest()


def with_digests(stamps: Sequence[FileStamp], shard: Shard) -> tuple[FileStamp, ...]:
    """Return the entries of a table's files, which are as they are now, with the SHA-256 that they lack.

    Returns:
        The same ones if none was missing.

    Raises:
        OSError: A file cannot be read.
    """
    lacking = [number for number, each in enumerate(stamps) if each.sha256 is None]
    if not lacking and isinstance(stamps, tuple):
        return stamps
    found = list(stamps)
    digests = parallel_map(digest_of, map(shard.path, lacking), workers=min(cpu_count(), len(lacking) or 1))
    for number, digest in zip(lacking, digests, strict=True):
        found[number] = replace(found[number], sha256=digest)
    return tuple(found)
