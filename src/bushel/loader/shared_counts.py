"""Counters in memory that a process shares with the workers that it starts, such as workers of a torch DataLoader."""

from __future__ import annotations

from multiprocessing.context import get_spawning_popen
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
import numpy.typing as npt


class SharedCounts:
    """Counters from 0. Processes that are started with them share them; copies and other pickles start from 0 again.

    Args:
        code: The type of the counters, as `array` writes it, such as `"H"` for uint16.
        size: Their number.
    """

    def __init__(self, code: str, size: int) -> None:
        self._code, self._memory = code, RawArray(code, size)

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """The counters, as an array that all processes write to."""
        return np.frombuffer(self._memory, np.dtype(self._code))

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            return SharedCounts, (self._code, len(self._memory))
        return _shared, (self._code, self._memory)


def _shared(code: str, memory: Any) -> SharedCounts:
    counts = SharedCounts.__new__(SharedCounts)
    counts._code, counts._memory = code, memory
    return counts
