"""Benchmark of 16 frames of a stored sequence of JPEGs: `ds[i, {"frames": slice(a, b)}]`, against decoding them.

    python benchmarks/frames.py [--small] [--out results.json]

Sequences have 60 frames of 340 × 256 pixels, a smooth picture with noise, in a bag. The limit is the decoder alone,
called with the same bytes, which are in memory already. The rest is finding, reading and bookkeeping.
"""

from __future__ import annotations

import io
import shutil
import time
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from rich.table import Table

import bushel
from bushel import kernels
from measure import SCRATCH, Timing, console, in_turns, options_parser, save

CLIPS, LENGTH, FRAMES = 40, 60, 16


def main() -> None:
    """Write the dataset, measure and print."""
    parser = options_parser(__doc__, "a few seconds, for a look")
    options = parser.parse_args()
    dataset = bushel.open(_write(SCRATCH / "frames"))
    stored = [sample["frames"] for sample in dataset.read(range(CLIPS), decode=False)]
    contestants = {"decoder alone": partial(_alone, stored), "from the dataset": partial(_read, dataset)}
    for measure in contestants.values():
        measure(0)
    rates = in_turns(contestants, 3 if options.small else 25)
    table = Table(f"{FRAMES} of {LENGTH} frames", "clips/s", "slowest", "fastest", "CPU µs", "of the limit")
    limit = rates["decoder alone"]
    for name, rate in rates.items():
        share = (limit.cpu_us or 0) / (rate.cpu_us or 1)
        speeds = (f"{value:,.0f}" for value in (rate.rate, rate.lowest, rate.highest))
        table.add_row(name, *speeds, f"{rate.cpu_us:,.0f}", f"{share:.0%}")
    console.print(table)
    save(options.out, {"frames": rates}, {})


def _write(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    frames = [_frame(rng) for _ in range(64)]
    with bushel.Writer(folder, {"frames": "jpg[]"}, container="bag", sync=False) as writer:
        for _ in range(CLIPS):
            writer.append({"frames": [frames[number] for number in rng.integers(0, len(frames), LENGTH)]})
    return folder


def _frame(rng: np.random.Generator) -> bytes:
    coarse = Image.fromarray(rng.integers(0, 255, (16, 21, 3), np.uint8)).resize((340, 256), Image.Resampling.BICUBIC)
    pixels = np.asarray(coarse, np.int16) + rng.integers(-16, 17, (256, 340, 3), np.int16)
    data = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(data, "JPEG", quality=90)
    return data.getvalue()


def _first(clip: int) -> int:
    return clip * 7 % (LENGTH - FRAMES)


def _alone(stored: list[list[bytes]], number: int) -> Timing:
    cpu, wall = time.process_time(), time.perf_counter()
    for clip, frames in enumerate(stored):
        first = _first(clip)
        _ = [kernels.decode_jpeg(frame) for frame in frames[first : first + FRAMES]]
    return Timing(len(stored), time.perf_counter() - wall, time.process_time() - cpu)


def _read(dataset: bushel.Dataset, number: int) -> Timing:
    cpu, wall = time.process_time(), time.perf_counter()
    for clip in range(CLIPS):
        first = _first(clip)
        dataset[clip, {"frames": slice(first, first + FRAMES)}]
    return Timing(CLIPS, time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    main()
