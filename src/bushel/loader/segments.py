"""Shared memory that batches travel in from worker processes: anonymous, so nothing can be left behind.

A segment is a memfd. It has no name in any file system, and the kernel frees its pages when no process holds it: memory
is freed whichever process is killed, and whenever. The worker process creates segments, sends each descriptor once, and
uses a segment again when the consumer's last array in it is gone.
"""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.errors import UnsupportedError

__all__ = ["Packed", "SegmentPool", "SegmentReader"]

_ALIGNMENT = 64  # a cache line, and what vector instructions like best
_STEP = 1 << 20  # segments grow in steps, so that batches of about one size fit into the same ones


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch on its way: everything but the contents of its arrays, and where those are.

    Attributes:
        pickled: The batch, pickled with protocol 5.
        segment: Number of the segment that holds its buffers, or None when it has none.
        places: (offset, length) of each buffer, in bytes.
    """

    pickled: bytes
    segment: int | None
    places: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Segment:
    descriptor: int
    memory: mmap.mmap


class SegmentPool:
    """The worker process's side: puts batches into segments that are free."""

    def __init__(self) -> None:
        if not hasattr(os, "memfd_create"):
            raise UnsupportedError("processes= needs memfd_create, which only Linux has: use workers= (threads) here")
        self._segments: list[_Segment] = []
        self._free: deque[int] = deque()

    def release(self, numbers: Iterable[int]) -> None:
        """Take back segments that nobody reads any more."""
        self._free.extend(numbers)

    def pack(self, batch: Any) -> tuple[Packed, list[int]]:
        """Put a batch into a segment.

        Returns:
            The packed batch, and the segment's descriptor in a list if it is new, else an empty list.
        """
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(batch, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        places, end = [], 0
        for view in views:
            places.append((end, view.nbytes))
            end += -(-view.nbytes // _ALIGNMENT) * _ALIGNMENT
        if not end:
            return Packed(pickled, None, tuple(places)), []
        number, created = self._take(end)
        memory = self._segments[number].memory
        for view, (offset, length) in zip(views, places, strict=True):
            memory[offset : offset + length] = view
        return Packed(pickled, number, tuple(places)), created

    def _take(self, size: int) -> tuple[int, list[int]]:
        """A free segment of at least this size."""
        size = -(-size // _STEP) * _STEP
        try:
            number = self._free.popleft()
        except IndexError:
            descriptor = os.memfd_create("bushel", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, size)
            self._segments.append(_Segment(descriptor, mmap.mmap(descriptor, size)))
            return len(self._segments) - 1, [descriptor]
        segment = self._segments[number]
        if len(segment.memory) < size:
            os.ftruncate(segment.descriptor, size)
            segment.memory = mmap.mmap(segment.descriptor, size)
        return number, []


class SegmentReader:
    """The consumer's side: makes batches whose arrays lie in the segments of one worker process.

    Attributes:
        freed: Numbers of segments whose arrays are all gone. It is filled while garbage is collected, in any thread.
    """

    def __init__(self) -> None:
        self.freed: deque[int] = deque()
        self._segments: list[_Segment] = []

    def add(self, descriptor: int) -> None:
        """Take over the descriptor of a new segment."""
        self._segments.append(_Segment(descriptor, mmap.mmap(descriptor, os.fstat(descriptor).st_size)))

    def unpack(self, packed: Packed) -> Any:
        """The batch. Its arrays are writable views of the segment, which stays taken until they are gone."""
        if packed.segment is None:
            return pickle.loads(packed.pickled, buffers=[bytearray() for _ in packed.places])
        segment = self._segments[packed.segment]
        end = max(offset + length for offset, length in packed.places)
        if end > len(segment.memory):
            segment.memory = mmap.mmap(segment.descriptor, os.fstat(segment.descriptor).st_size)
        whole = np.frombuffer(segment.memory, np.uint8)
        # every array of the batch is a view of this one in the end, and so keeps it alive
        weakref.finalize(whole, self.freed.append, packed.segment).atexit = False
        return pickle.loads(
            packed.pickled, buffers=[whole[offset : offset + length] for offset, length in packed.places]
        )

    def close(self) -> None:
        """Close the descriptors. Arrays that are still in use keep their memory."""
        for segment in self._segments:
            os.close(segment.descriptor)
        self._segments.clear()
