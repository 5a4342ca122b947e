"""Small video clips, for the tests of sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bushel.codecs import get_codec

LEVELS = [20, 60, 100, 140, 180, 220]


def clip(path: Path, rate: int = 6, levels: list[int] | None = None, height: int = 32, width: int = 48) -> Path:
    """A video with frames of one grey level each, `rate` of them a second."""
    pytest.importorskip("av")
    frames = np.stack([np.full((height, width, 3), level, np.uint8) for level in levels or LEVELS])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(get_codec(f"{path.suffix[1:]}({rate})").encode(frames))
    return path


def levels(frames: list[bytes]) -> list[int]:
    """The levels that the frames had before they were encoded twice."""
    means = [float(get_codec("jpg").decode(frame).mean()) for frame in frames]
    return [min(LEVELS, key=lambda level: abs(level - mean)) for mean in means]
