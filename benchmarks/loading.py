"""Benchmark of the loader's own work: records of 200 bytes, not decoded, in batches of 256.

python benchmarks/loading.py --out loading.json        1,000,000 records
python benchmarks/loading.py --small                   a tenth of them, fewer rounds
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import bushel
from measure import Timing, in_turns, options_parser, save, show
from served import bushel_readers

LENGTH, BATCH = 200, 256


def _loading(dataset: bushel.Dataset, threads: int) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        loader = bushel.Loader(dataset, BATCH, shuffle=True, seed=number, threads=threads, decode=False)
        wall, cpu = time.perf_counter(), time.process_time()
        samples = sum(len(batch["data"]) for batch in loader)
        done = Timing(samples, time.perf_counter() - wall, time.process_time() - cpu)
        if samples != len(dataset):
            raise ValueError(f"an epoch of {samples} samples, and the dataset has {len(dataset)}")
        return done

    return measure


def _reading(dataset: bushel.Dataset) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        order = np.random.default_rng(number).permutation(len(dataset))
        wall, cpu = time.perf_counter(), time.process_time()
        for first in range(0, len(order), BATCH):
            dataset.read(order[first : first + BATCH], decode=False)
        return Timing(len(order), time.perf_counter() - wall, time.process_time() - cpu)

    return measure


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("The loader's own work.", "a tenth of the records, fewer rounds")
    options = parser.parse_args()
    path = bushel_readers("bushel", "", ("bag",))[0].fill(100_000 if options.small else 1_000_000, LENGTH)
    dataset = bushel.open(path)
    contestants = {f"loader, {threads} workers": _loading(dataset, threads) for threads in (0, 1, 2)}
    contestants["ds.read, no loader"] = _reading(dataset)
    results = in_turns(contestants, 3 if options.small else 5)
    show(f"epochs of {len(dataset):,} × {LENGTH} B, batches of {BATCH}", "samples", results, ["ds.read, no loader"])
    save(options.out, results, {})


if __name__ == "__main__":
    main()
