"""GulpIO2 and its drop-in: clips of 16 of 60 frames of 340x256, single frames, opening and gulping.

python dropin_gulpio2.py PACKAGE FOLDER [--small]
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FRAMES, CLIP, WIDTH, HEIGHT = 60, 16, 340, 256


def video(seed: int) -> list[np.ndarray]:
    """Return moving soft shapes with a little grain, which compress to about 20 KB per frame, like filmed ones."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (12, 16, 3)).astype(np.float32)
    rows, columns = (np.linspace(0, n - 1.001, size) for n, size in ((12, HEIGHT + FRAMES), (16, WIDTH + FRAMES)))
    top, left = rows.astype(int), columns.astype(int)
    down, across = (rows - top)[:, None, None], (columns - left)[None, :, None]
    upper = coarse[top][:, left] * (1 - across) + coarse[top][:, left + 1] * across
    lower = coarse[top + 1][:, left] * (1 - across) + coarse[top + 1][:, left + 1] * across
    scene = upper * (1 - down) + lower * down
    frames = []
    for number in range(FRAMES):
        window = scene[number : number + HEIGHT, number : number + WIDTH]
        frames.append((window + rng.normal(0, 4, window.shape)).clip(0, 255).astype(np.uint8))
    return frames


def prepare(gulp: Any, folder: Path, videos: int) -> None:
    """Write the data if they do not exist."""
    if (folder / "ready").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for chunk in gulp.GulpDirectory(str(folder)).new_chunks(1):
        with chunk.open("wb"):
            for number in range(videos):
                chunk.append(number, {"label": number % 10, "id": number}, video(number))
    (folder / "ready").touch()


def measure(case: str, items: int, work: Callable[[], object]) -> None:
    """Print the duration of a task."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    seconds, busy = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"case": case, "items": items, "seconds": seconds, "cpu_seconds": busy}), flush=True)


def main() -> None:
    """Write the data and measure."""
    package, folder, small = sys.argv[1], Path(sys.argv[2]), "--small" in sys.argv
    gulp = importlib.import_module(package)
    videos, clips, images = (8, 100, 400) if small else (40, 600, 3000)
    prepare(gulp, folder, videos)
    directory = gulp.GulpDirectory(str(folder))
    rng = np.random.default_rng(0)
    starts = [(str(rng.integers(videos)), int(rng.integers(FRAMES - CLIP))) for _ in range(clips)]

    def read_clips() -> None:
        for id_, start in starts:
            frames, _ = directory[id_, start : start + CLIP]
            assert len(frames) == CLIP
            assert frames[0].shape == (HEIGHT, WIDTH, 3)

    def read_frames() -> None:
        for number in range(images):
            directory[str(number % videos), [number % FRAMES]]

    def write() -> None:
        target = folder.with_name(f"{folder.name}-written-{package}")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        [chunk] = gulp.GulpDirectory(str(target)).new_chunks(1)
        with chunk.open("wb"):
            for number, frames in enumerate(taken):
                chunk.append(number, {"label": number}, frames)
        shutil.rmtree(target)

    read_clips()
    measure("clips", clips, read_clips)
    measure("frames", images, read_frames)
    taken = [directory[str(number)][0] for number in range(min(videos, 10))]
    measure("items written", len(taken), write)


if __name__ == "__main__":
    main()
