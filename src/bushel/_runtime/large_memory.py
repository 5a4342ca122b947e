"""Reuse of the memory of expanded blocks.

Fresh memory costs a page fault for every 4 KiB that is first written, about as much as copying it.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from contextlib import suppress

import numpy as np
import numpy.typing as npt

_HUGE_PAGE = 1 << 21
_LARGE = 1 << 22  # smaller memory comes from the C library, which does not return it to the system
_MOST_UNUSED = 4  # memory may be larger than asked for by one part in this number
_MOST_FREE = 128 << 20  # bytes that are kept

_free: deque[mmap.mmap] = deque()  # the garbage collector appends to it, in any thread: a deque needs no lock for that


def room_for(size: int) -> npt.NDArray[np.uint8]:
    """Return uint8[size] with arbitrary contents. A large array's memory is reused after its end."""
    if size < _LARGE or (memory := _take(-(-size // _HUGE_PAGE) * _HUGE_PAGE)) is None:
        return np.empty(size, np.uint8)
    whole = np.frombuffer(memory, np.uint8)
    weakref.finalize(whole, _give, memory).atexit = False  # all views of the array refer to this one
    return whole[:size]


def _take(size: int) -> mmap.mmap | None:
    for _ in range(len(_free)):
        try:
            memory = _free.pop()  # the last one to become free is still in the caches
        except IndexError:
            break
        if size <= len(memory) <= size + size // _MOST_UNUSED:
            return memory
        _free.appendleft(memory)
    return fresh_memory(size)


def fresh_memory(size: int) -> mmap.mmap | None:
    """Return `size` bytes of zeros, in huge pages where the system has them; None if memory is exhausted."""
    try:  # private, so that a forked process writes into pages of its own
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _give(memory: mmap.mmap) -> None:
    _free.append(memory)
    with suppress(IndexError, RuntimeError):  # other threads change it, too
        while sum(map(len, tuple(_free))) > _MOST_FREE:
            _free.popleft()
