"""Memory for batches, used again when the trainer has let go of the batch that lay in it.

Fresh memory costs a page fault for every 4 KiB that is written to for the first time, about as much as copying it.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BufferPool"]

_STEP = 1 << 21  # what huge pages come in
_SPARE = 4  # free buffers that are kept
_LARGEST = 16 << 20  # glibc then keeps up to twice as much


class BufferPool:
    """Makes arrays whose memory comes back by itself. Threads share it.

    Attributes:
        most: Bytes of the largest array that it makes.
    """

    def __init__(self, most: int = 1 << 30) -> None:
        self.most = most
        _keep_what_is_freed()
        # filled by the garbage collector, in any thread and at any time: a deque takes that without a lock
        self._free: deque[mmap.mmap] = deque(maxlen=_SPARE)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """An array with arbitrary contents, or None when it would be larger than `most` or than memory."""
        size = dtype.itemsize
        for length in shape:
            size *= length
        if not 0 < size <= self.most:
            return None
        if (memory := self._take(-(-size // _STEP) * _STEP)) is None:
            return None
        whole = np.frombuffer(memory, np.uint8)
        # every array made of it is a view of this one in the end, and so keeps it alive
        weakref.finalize(whole, self._free.append, memory).atexit = False
        return whole[:size].view(dtype).reshape(shape)

    def _take(self, size: int) -> mmap.mmap | None:
        for _ in range(len(self._free)):
            try:
                memory = self._free.popleft()
            except IndexError:
                break
            if size <= len(memory) <= 2 * size:
                return memory
        try:  # private, so that a forked process writes into pages of its own
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            return None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return memory


def _keep_what_is_freed() -> None:
    """Let the C library keep the memory of stored bytes for those of the next batch.

    glibc gives free memory back to the system beyond twice the size of the largest block that was freed so far
    (mallopt(3), M_MMAP_THRESHOLD). None of a batch's is large, so pages went to and fro with every batch. Of this
    block no page is touched.
    """
    np.empty(_LARGEST, np.uint8)
