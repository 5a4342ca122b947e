"""Frames in which everything moves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def moving(frames: int = 60) -> npt.NDArray[np.uint8]:
    """Frames of 64x96 in which everything moves, so that no frame is like another."""
    rng = np.random.default_rng(0)
    scene = rng.integers(0, 256, (20, 40, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    return np.stack([scene[at % 90 : at % 90 + 64, 2 * at : 2 * at + 96] for at in range(frames)])
