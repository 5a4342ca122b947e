"""Memory that processes share: segments with batches of worker processes, and counters. It has no name.

A segment is a memfd, or a temporary file without a name on systems without memfd: the kernel frees it
when no process holds it, so nothing is left when one is killed. The worker process creates segments,
sends each descriptor once, and reuses a segment when the consumer's last array in it is gone.
"""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._runtime.pickles import pickle_with_buffers
from bushel._runtime.structs import Struct
from bushel._runtime.system import anonymous_file

_ALIGNMENT = 64  # a cache line, which also suits vector instructions
_STEP = 1 << 20  # segments grow in steps, so that batches of about one size fit into the same ones


class SharedBatch(Struct, frozen=True):
    """A serialized batch: all but the contents of its arrays, and the places of those in shared memory.

    Attributes:
        pickled: The batch, pickled with protocol 5.
        segment: Number of the segment that holds its buffers; None if it has none.
        places: Offset and length of each buffer, in bytes.
    """

    pickled: bytes
    segment: int | None
    places: tuple[tuple[int, int], ...]


class _Segment(Struct):
    descriptor: int
    memory: mmap.mmap


class SegmentPool:
    """The side of the worker process: writes batches into free segments."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._free: deque[int] = deque()

    def release(self, numbers: Iterable[int]) -> None:
        """Take back segments that are not in use any more."""
        self._free.extend(numbers)

    def write(self, batch: Any) -> tuple[SharedBatch, list[int]]:
        """Write a batch into a segment.

        Returns:
            The serialized batch, and a list with the segment's descriptor if the segment is new, else an empty list.
        """
        pickled, buffers = pickle_with_buffers(batch)
        views = [buffer.raw() for buffer in buffers]
        places, end = [], 0
        for view in views:
            places.append((end, view.nbytes))
            end += -(-view.nbytes // _ALIGNMENT) * _ALIGNMENT
        if not end:
            return SharedBatch(pickled, None, tuple(places)), []
        number, created = self._take(end)
        memory = self._segments[number].memory
        for view, (offset, length) in zip(views, places, strict=True):
            memory[offset : offset + length] = view
        return SharedBatch(pickled, number, tuple(places)), created

    def _take(self, size: int) -> tuple[int, list[int]]:
        """Return a free segment of at least this size, and its descriptor in a list if it is new."""
        size = -(-size // _STEP) * _STEP
        try:
            number = self._free.popleft()
        except IndexError:
            descriptor = anonymous_file()
            os.ftruncate(descriptor, size)
            self._segments.append(_Segment(descriptor, mmap.mmap(descriptor, size)))
            return len(self._segments) - 1, [descriptor]
        segment = self._segments[number]
        if len(segment.memory) < size:
            os.ftruncate(segment.descriptor, size)
            segment.memory = mmap.mmap(segment.descriptor, size)
        return number, []


class SegmentReader:
    """The consumer's side: returns batches whose arrays lie in the segments of one worker process.

    Attributes:
        freed: Numbers of segments whose arrays are all gone. The garbage collector adds to it, in any thread.
    """

    def __init__(self) -> None:
        self.freed: deque[int] = deque()
        self._segments: list[_Segment] = []

    def add(self, descriptor: int) -> None:
        """Take over the descriptor of a new segment."""
        self._segments.append(_Segment(descriptor, mmap.mmap(descriptor, os.fstat(descriptor).st_size)))

    def read(self, shared: SharedBatch) -> Any:
        """Return the batch. Its arrays are writable views of the segment, which stays in use until they are deleted."""
        if shared.segment is None:
            return pickle.loads(shared.pickled, buffers=[bytearray() for _ in shared.places])
        segment = self._segments[shared.segment]
        end = max(offset + length for offset, length in shared.places)
        if end > len(segment.memory):
            segment.memory = mmap.mmap(segment.descriptor, os.fstat(segment.descriptor).st_size)
        whole = np.frombuffer(segment.memory, np.uint8)
        # all arrays of the batch refer to this one and keep it alive
        weakref.finalize(whole, self.freed.append, shared.segment).atexit = False
        return pickle.loads(
            shared.pickled, buffers=[whole[offset : offset + length] for offset, length in shared.places]
        )

    def close(self) -> None:
        """Close the descriptors. Arrays that are in use keep their memory."""
        for segment in self._segments:
            os.close(segment.descriptor)
        self._segments.clear()


class SharedCounts:
    """Counters from 0. Processes that are started with them share them; copies and other pickles start from 0 again.

    Args:
        dtype: The type of the counters, such as `"uint16"`.
        size: Their number.
        descriptor: A file that holds such counters; None for a new one.

    Attributes:
        numbers: The counters, as an array that all processes write to.

    Raises:
        OSError: The system is out of memory.
    """

    def __init__(self, dtype: str, size: int, descriptor: int | None = None) -> None:
        self._descriptor = anonymous_file() if descriptor is None else descriptor
        weakref.finalize(self, os.close, self._descriptor)
        # a file of no bytes cannot be mapped
        length = max(np.dtype(dtype).itemsize * size, 1)
        os.ftruncate(self._descriptor, length)
        memory = mmap.mmap(self._descriptor, length)
        self.numbers: npt.NDArray[Any] = np.frombuffer(memory, dtype, size)

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing.context import get_spawning_popen

        counters = self.numbers.dtype.name, len(self.numbers)
        if get_spawning_popen() is None:
            return SharedCounts, counters
        from multiprocessing.reduction import DupFd

        return _shared_counts, (*counters, DupFd(self._descriptor))


def _shared_counts(dtype: str, size: int, descriptor: Any) -> SharedCounts:
    return SharedCounts(dtype, size, descriptor.detach())
