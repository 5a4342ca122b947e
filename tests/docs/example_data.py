"""The folder in which the examples of the reference run, as `scripts/assemble_site.py` describes it to readers."""

from __future__ import annotations

import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tests.sources.folders import jpeg

import bushel

SIZE = 48, 64


def make(root: Path) -> None:
    """Make `photos/`, `train/`, `photo.jpg`, `sounds/` and, if PyAV is installed, `clips/`."""
    for number in range(12):
        path = root / "photos" / ("cat", "dog")[number // 6] / f"{number % 6}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number, *SIZE))
    (root / "photo.jpg").write_bytes(jpeg(0, 400, 500))
    bushel.pack(root / "photos", root / "train", container="tar")
    for name in ("bell", "drum"):
        path = root / "sounds" / name / "1.wav"
        path.parent.mkdir(parents=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes(1600))
    if find_spec("av"):
        frames = np.zeros((24, *SIZE, 3), np.uint8) + np.arange(24, dtype=np.uint8)[:, None, None, None] * 10
        for name in ("blue", "red"):
            path = root / "clips" / name / "a.mp4"
            path.parent.mkdir(parents=True)
            path.write_bytes(bushel.codecs.get_codec("mp4(12)").encode(frames))
