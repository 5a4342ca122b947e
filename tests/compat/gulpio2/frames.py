"""Small frames, adapters and directories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bushel.compat.gulpio2 import GulpDirectory
from bushel.compat.gulpio2.adapters import AbstractDatasetAdapter

Array = npt.NDArray[np.uint8]


def frame(seed: int, height: int = 24, width: int = 36, *, grey: bool = False) -> Array:
    """A smooth image that differs from others."""
    rows, columns = np.mgrid[:height, :width]
    planes = [(rows * (k + 2) + columns * (seed % 5 + k + 1) + 37 * seed) % 256 for k in range(1 if grey else 3)]
    pixels = np.stack(planes, axis=2).astype(np.uint8)
    return pixels[:, :, 0] if grey else pixels


def write(folder: Path, items: Sequence[tuple[Any, dict[str, Any], Sequence[Any]]], per_chunk: int = 100) -> Path:
    """Write items to new chunks of a folder."""
    folder.mkdir(exist_ok=True)
    parts = [items[start : start + per_chunk] for start in range(0, len(items), per_chunk)]
    for chunk, part in zip(GulpDirectory(folder).new_chunks(len(parts)), parts, strict=True):
        with chunk.open("wb"):
            for id_, meta, frames in part:
                chunk.append(id_, meta, frames)
    return folder


def videos(count: int, frames: int = 6) -> list[tuple[str, dict[str, Any], list[Array]]]:
    """Items `v0`, `v1`, …"""
    return [(f"v{n}", {"label": n % 3, "n": n}, [frame(10 * n + k) for k in range(frames)]) for n in range(count)]


class Numbers(AbstractDatasetAdapter):
    """Items 0 to `count - 1`, of which one may have no frames and another may fail."""

    def __init__(self, count: int, empty: int = -1, failing: int = -1) -> None:
        self.count, self.empty, self.failing = count, empty, failing

    def __len__(self) -> int:
        return self.count

    def iter_data(self, slice_element: slice | None = None) -> Iterator[dict[str, Any]]:
        for number in range(self.count)[slice_element or slice(None)]:
            if number == self.failing:
                raise RuntimeError(f"item {number} cannot be read")
            frames = [] if number == self.empty else [frame(number), frame(number + 1)]
            yield {"id": number, "meta": {"n": number}, "frames": frames}


def make_video(path: Path, frames: int = 50, rate: int = 25, *, flat: bool = False) -> Path:
    """A video of frames that differ; flat ones by 12 levels of grey, again and again."""
    av: Any = pytest.importorskip("av")
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libvpx" if path.suffix == ".webm" else "libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(frames):
            pixels = np.full((48, 64, 3), 4 * (number % 60), np.uint8)
            pixels[:, : 64 * number // frames] = 255 - 4 * (number % 60)
            if flat:
                pixels[:] = 12 * (number % 21)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        output.mux(stream.encode(None))
    return path
