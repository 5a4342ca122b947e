"""The numbers that a worker process shares with the process that watches it: a small file that both map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["ARM", "BASELINE", "CASE", "FAILED", "OPENED", "PEAK", "SAMPLES", "make_board", "map_board"]

CASE, FAILED, BASELINE, PEAK = 0, 1, 2, 3
"""Number of the current case, number of failed cases, and memory in bytes: of an idle worker, and the most since."""
ARM, OPENED, SAMPLES = 4, 8, 12
"""First of the numbers for each arm: finished cases, datasets that could be opened, samples that could be read."""

_NUMBERS = 16


def make_board(path: Path, case: int) -> npt.NDArray[np.int64]:
    """Create the file for a worker that starts with a case."""
    numbers = np.zeros(_NUMBERS, np.int64)
    numbers[CASE] = case
    path.write_bytes(numbers.tobytes())
    return map_board(path)


def map_board(path: Path) -> npt.NDArray[np.int64]:
    """Map the file of a worker."""
    return np.memmap(path, np.int64, "r+", shape=(_NUMBERS,))
