"""An open remote object of which one range is kept in memory after it was read, as long as there is room."""

from __future__ import annotations

import threading
from collections.abc import Hashable

import numpy as np
from typing_extensions import Buffer

from bushel.storage.base import extent_error
from bushel.storage.expansion_cache import Claim, expansion_cache
from bushel.storage.objects.ranges import read_span
from bushel.storage.objects.remotefile import Location, RemoteFile

__all__ = ["HeldFile"]


class HeldFile(RemoteFile):
    """A remote object. `hold` reads a range, which the cache of expanded blocks keeps: later reads take it from there.

    What the cache has dropped is requested again, in the ranges that are read.

    Attributes:
        first: First byte of the range.
        last: End of the range.
    """

    __slots__ = ("first", "last")

    def __init__(self, location: Location, size: int, mtime_ns: int, first: int, last: int) -> None:
        super().__init__(location, size, mtime_ns)
        self.first, self.last = first, last

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[object, ...]]:  # type: ignore[override]
        return HeldFile, (self.location, self.size, self.mtime_ns, self.first, self.last)

    @property
    def _name(self) -> Hashable:
        return "range", self.path, self.size, self.mtime_ns, self.first, self.last

    def hold(self) -> Buffer:
        """Return the range, which is requested unless it is kept or another thread is requesting it.

        Raises:
            FormatError: The object was replaced.
            OSError: The store refuses, or cannot be reached.
        """
        cache, name, claim = expansion_cache(), self._name, Claim()
        try:
            cache.claim([name], claim)
            kept = claim.found.get(name)
            if kept is None and name in claim.awaited:
                kept = claim.awaited[name].get()
            if kept is None:
                kept = np.frombuffer(memoryview(read_span(self, self.first, self.last)), np.uint8)
                cache.give(name, kept)
        finally:
            for own in claim.own:
                cache.give_up(own, None)  # nothing, if it was given
        return kept.data

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent: see `RemoteFile.read`."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise extent_error(0, "beyond", offset + length, self.size, self.path)
        kept = self._kept(offset, offset + length)
        return super().read(offset, length) if kept is None else bytes(kept)

    def fetch(self, start: int, stop: int, give_up: threading.Event | None = None) -> Buffer:
        """Return the bytes from `start` to `stop`, from one request unless they are kept: see `RemoteFile.fetch`."""
        kept = self._kept(start, stop)
        return super().fetch(start, stop, give_up) if kept is None else kept

    def _kept(self, start: int, stop: int) -> memoryview | None:
        if not self.first <= start <= stop <= self.last:
            return None
        kept = expansion_cache().get(self._name)
        return None if kept is None else kept.data[start - self.first : stop - self.first]
