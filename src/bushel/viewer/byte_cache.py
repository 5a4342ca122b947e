"""A cache of values with a limit in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["ByteCache"]

T = TypeVar("T")


class ByteCache(Generic[T]):
    """Keeps the values that were used last, up to a number of bytes. Threads may share it.

    Args:
        limit: Largest size of all values together in bytes. A single value may be larger.
        size: Returns the size of a value in bytes.
    """

    def __init__(self, limit: int, size: Callable[[T], int]) -> None:
        self._limit, self._size, self._used = limit, size, 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Size of all values in bytes."""
        return self._used

    def kept(self, key: Hashable) -> T | None:
        """Return the value of a key, or None if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, which `make` makes if it is not there. Errors of `make` are not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()  # two threads may make the same value: that costs less than waiting for each other
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._used += self._size(value)
                while self._used > self._limit and len(self._values) > 1:
                    self._used -= self._size(self._values.popitem(last=False)[1])
        return value
