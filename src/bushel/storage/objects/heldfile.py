"""An open remote object that keeps some ranges in memory after they were read, within the limit of the cache."""

from __future__ import annotations

import threading
from collections.abc import Hashable

import numpy as np
from typing_extensions import Buffer

from bushel._runtime.parallel import map_all
from bushel.kernels import RangeValues
from bushel.storage.base import check_extent
from bushel.storage.expansion_cache import expansion_cache

from .ranges import read_span
from .remotefile import Location, RemoteFile

_Range = tuple[int, int]
_AT_ONCE = 8
"""Requests for ranges at once."""


class HeldFile(RemoteFile):
    """A remote object. `hold` reads ranges, which the cache of expanded blocks keeps: later reads take them from there.

    What the cache has dropped is requested again, in the ranges that are read.

    Attributes:
        ranges: First byte and end of each range, ascending.
    """

    __slots__ = ("ranges",)

    def __init__(
        self, location: Location, size: int, mtime_ns: int, ranges: tuple[_Range, ...]
    ) -> None:
        super().__init__(location, size, mtime_ns)
        self.ranges = ranges

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[object, ...]]:  # type: ignore[override]
        return HeldFile, (self.location, self.size, self.mtime_ns, self.ranges)

    @property
    def identity(self) -> Hashable:
        """The file with its ranges: only they are kept."""
        return self.path, self.ranges

    def hold(self) -> None:
        """Request the ranges, except those that are kept or that another thread is requesting.

        Raises:
            FormatError: The object was replaced.
            OSError: The store refuses, or cannot be reached.
        """
        map_all(self._hold, self.ranges, threads=_AT_ONCE, name="bushel-ranges")

    def _name(self, extent: _Range) -> Hashable:
        return "range", self.path, self.size, self.mtime_ns, *extent

    def _hold(self, extent: _Range) -> None:
        expansion_cache().obtain(
            self._name(extent),
            lambda: np.frombuffer(memoryview(read_span(self, *extent)), np.uint8),
        )

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent: see `RemoteFile.read`."""
        check_extent(self, offset, length)
        content = self._kept(offset, offset + length)
        if content is None:
            return super().read(offset, length)
        return bytes(content)

    def fetch(self, start: int, stop: int, give_up: threading.Event | None = None) -> Buffer:
        """Return the bytes from `start` to `stop`, from one request unless they are kept: see `RemoteFile.fetch`."""
        content = self._kept(start, stop)
        if content is None:
            return super().fetch(start, stop, give_up)
        return content

    def receive(
        self, start: int, stop: int, values: RangeValues, give_up: threading.Event | None = None
    ) -> None:
        """Copy the values of a range: see `RemoteFile.receive`."""
        if (content := self._kept(start, stop)) is None:
            super().receive(start, stop, values, give_up)
        else:
            values.put(content)

    def _kept(self, start: int, stop: int) -> memoryview | None:
        containing = next(
            (limits for limits in self.ranges if limits[0] <= start <= stop <= limits[1]), None
        )
        content = containing and expansion_cache().get(self._name(containing))
        if content is None or containing is None:
            return None
        return content.data[start - containing[0] : stop - containing[0]]
