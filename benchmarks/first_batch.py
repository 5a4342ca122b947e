"""Benchmark of the first batch of an epoch: without worker processes, with one and with two.

    python benchmarks/first_batch.py [--small] [--out results.json]

The clock runs from making the Loader to its first batch of 64 small images, which are cropped while they are decoded.
Worker processes start with every epoch: their time is that of the imports, mostly. CPU time is that of all processes,
until they have ended. `PYTHONDONTWRITEBYTECODE` must not be set, or each of them compiles what it imports.
"""

from __future__ import annotations

import os
import resource
import shutil
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

import bushel
from bushel.transforms import RandomResizedCrop
from measure import SCRATCH, Timing, console, in_turns, options_parser, save

BATCH, SAMPLES = 64, 1000


def main() -> None:
    """Write the dataset, measure and print."""
    parser = options_parser(__doc__, "a few seconds, for a look")
    options = parser.parse_args()
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        console.print("PYTHONDONTWRITEBYTECODE is set: worker processes compile what they import")
    dataset = bushel.open(_write(SCRATCH / "first-batch"))
    contestants = {f"{processes} worker processes": partial(_first, dataset, processes) for processes in (0, 1, 2)}
    _first(dataset, 1, 0)  # what it imports is in memory, and compiled
    rates = in_turns(contestants, 3 if options.small else 15)
    table = Table("", "seconds", "fastest", "slowest", "CPU seconds")
    for name, rate in rates.items():
        times = (1 / rate.rate, 1 / rate.highest, 1 / rate.lowest, (rate.cpu_us or 0) / 1e6)
        table.add_row(name, *(f"{seconds:.3f}" for seconds in times))
    console.print(table)
    save(options.out, {"first batch": rates}, {})


def _write(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    with bushel.Writer(folder, {"image": "jpg", "label": "int"}, container="tar", sync=False) as writer:
        for number in range(SAMPLES):
            writer.append({"image": rng.integers(0, 255, (96, 96, 3), np.uint8), "label": number}, key=str(number))
    return folder


def _first(dataset: bushel.Dataset, processes: int, number: int) -> Timing:
    cpu, wall = _cpu(), time.perf_counter()
    transform = RandomResizedCrop(64)
    loader = bushel.Loader(dataset, BATCH, shuffle=True, transforms=transform, processes=processes, threads=1)
    batches = iter(loader)
    next(batches)
    seconds = time.perf_counter() - wall
    batches.close()
    return Timing(1, seconds, _cpu() - cpu)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
