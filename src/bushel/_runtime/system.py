"""Requests to the operating system beyond POSIX, each with a way for systems without it.

| asked for | Linux | macOS | elsewhere |
|---|---|---|---|
| memory that processes share and no name leads to | `memfd_create` | a temporary file without a name | the same |
| the exchange of two names in one step | `renameat2` | `renamex_np` | two renames (the caller's) |
| a file that shares the blocks of another one | `FICLONE` | a copy (the caller's) | the same |
| freed memory that is kept for the next values | glibc's threshold | nothing | nothing |
| the memory that a process may use | control groups | that of the machine | the same |

Read-ahead (`posix_fadvise`, `F_RDADVISE`, or nothing) is in the kernels (`files/mapped_file.cpp`).
Windows is not supported.

`BUSHEL_PORTABLE=1` chooses the last column on every system, for tests.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import weakref
from collections import deque
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from .arrays import U8

_HUGE_PAGE = 1 << 21
_LARGE = 1 << 22  # smaller memory comes from the C library, which does not return it to the system
# memory may be larger than asked for by this factor, since the system may take the rest: with 1.25,
# a third of batches of 30 to 120 MB would need new memory
_MOST_TIMES = 2
_MOST_FREE = 512 << 20  # bytes that are kept, unless the system needs them
# the garbage collector appends to it, in any thread: a deque needs no lock for that
_free: deque[mmap.mmap] = deque()
# a fifth of the time of weakref.finalize, which would be 2 % of a batch of tokens
_lent: dict[int, tuple[weakref.ref[U8], mmap.mmap]] = {}


_GLIBC_THRESHOLD = 16 << 20  # glibc then keeps up to twice as much free memory
_CONTROL_GROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

# arguments of renameat2(2) and renamex_np(2), and the errors of file systems that cannot exchange
_AT_FDCWD, _RENAME_EXCHANGE, _RENAME_SWAP = -100, 2, 2
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)

# the request of ioctl_ficlone(2), and the errors of file systems that cannot share blocks
_FICLONE = 0x40049409
_NO_CLONE = (*_NO_EXCHANGE, errno.ENOTTY, errno.EXDEV, errno.EOPNOTSUPP)

if sys.platform == "win32":
    raise ImportError(
        "Bushel does not support Windows; it runs in WSL, the Windows Subsystem for Linux"
    )


def _portable() -> bool:
    return os.environ.get("BUSHEL_PORTABLE") == "1"


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed memory, such as the memory of stored bytes and decoded frames, for later values.

    glibc returns free memory to the system beyond twice the size of the largest block freed so far
    (mallopt(3), M_MMAP_THRESHOLD). Values are smaller, so the pages of each batch were returned,
    and first writing to a page costs about as much as copying it. Freeing one large block raises
    the threshold; none of its pages is touched.
    """
    np.empty(_GLIBC_THRESHOLD, np.uint8)


@cache
def memory_limit() -> int:
    """Return how many bytes of memory this process may use: the memory of the machine, or less in a control group.

    Reading the files of the groups takes a sixth of the time of making a loader, so it is done once.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError):
        for line in [] if _portable() else _OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            top, file = _CONTROL_GROUPS, "memory.max"
            if "memory" in controllers.split(","):
                top, file = _CONTROL_GROUPS / "memory", "memory.limit_in_bytes"
            elif controllers:
                continue
            control_group = top / path.lstrip("/")
            # in a container, the path may be the one outside: the limit is then at the top
            for group in (control_group, *control_group.parents):
                # the topmost group has no such file, and "max" means no limit
                with suppress(OSError, ValueError):
                    limits.append(int((group / file).read_text()))
                if group == top:
                    break
    return min(limits)


def anonymous_file() -> int:
    """Return the descriptor of an empty file without a name, which the system frees when no process holds it.

    It can be made larger with `os.ftruncate`, mapped, and sent to another process. Without
    `memfd_create` it is in the folder for temporary files (`TMPDIR`), which should be one in
    memory.

    Raises:
        OSError: The system is out of memory, or the folder is not writable.
    """
    if hasattr(os, "memfd_create") and not _portable():
        return os.memfd_create("bushel", os.MFD_CLOEXEC)
    import tempfile  # which other systems do not need

    descriptor, path = tempfile.mkstemp(prefix="bushel-")
    os.unlink(path)
    return descriptor


def clone_file(source: Path, target: Path) -> bool:
    """Make a file that shares the blocks of another one until one of them changes: on Btrfs, XFS, NFS 4.2 and others.

    Returns:
        Whether that was done; False if the system or the file system cannot do it. The target is
        empty then.

    Raises:
        OSError: A file cannot be read or written.
    """
    import fcntl

    with open(source, "rb") as data, open(target, "wb") as clone:
        try:
            if not _portable():
                fcntl.ioctl(clone.fileno(), _FICLONE, data.fileno())
        except OSError as error:
            if error.errno not in _NO_CLONE:
                raise
            return False
    return not _portable()


def exchange_names(first: Path, second: Path) -> bool:
    """Exchange the names of two files or folders in one step.

    Returns:
        Whether that was done; False if the system or the file system cannot do it.

    Raises:
        OSError: A name does not exist, or may not be changed.
    """
    if _portable():
        return False
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if (rename := getattr(library, "renameat2", None)) is not None:
        failed = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    elif (rename := getattr(library, "renamex_np", None)) is not None:
        failed = rename(*names, ctypes.c_uint(_RENAME_SWAP))
    else:
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code not in _NO_EXCHANGE:
        raise OSError(code, os.strerror(code), str(first), None, str(second))
    return False


def room_for(size: int) -> U8:
    """Return uint8[size] with arbitrary contents. A large array's memory is reused after its end."""
    room = None if size < _LARGE else large_room(size)
    return np.empty(size, np.uint8) if room is None else room[:size]


def large_room(size: int, headroom: int = 0) -> U8 | None:
    """Return an array of huge pages of at least `size` bytes, whose memory is reused; None if memory is exhausted.

    Memory that is not reused is larger by `headroom`.
    """
    if (memory := _take(-(-size // _HUGE_PAGE) * _HUGE_PAGE, headroom)) is None:
        return None
    whole = np.frombuffer(memory, np.uint8)
    # all views of the array refer to this one
    lent = weakref.ref(whole, _take_back)
    _lent[id(lent)] = lent, memory
    return whole


def _take(size: int, headroom: int) -> mmap.mmap | None:
    new_size = -(-(size + headroom) // _HUGE_PAGE) * _HUGE_PAGE
    for _ in range(len(_free)):
        try:
            memory = _free.pop()  # the last one to become free is still in the caches
        except IndexError:
            break
        if size <= len(memory) <= max(new_size, _MOST_TIMES * size):
            return memory
        _free.appendleft(memory)
    try:  # private, so that a forked process writes into pages of its own
        memory = mmap.mmap(-1, new_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _take_back(lent: weakref.ref[U8]) -> None:
    """Keep the memory of an array that was garbage-collected."""
    memory = _lent.pop(id(lent))[1]
    if hasattr(mmap, "MADV_FREE"):
        with suppress(OSError):  # an old system cannot take the pages while nothing uses them
            memory.madvise(mmap.MADV_FREE)
    _free.append(memory)
    with suppress(IndexError, RuntimeError):  # other threads change it, too
        while len(_free) > 1 and sum(map(len, tuple(_free))) > _MOST_FREE:
            _free.popleft()
