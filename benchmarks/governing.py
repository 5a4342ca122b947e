"""What it costs to remove samples from a large dataset, to open it afterwards, and to compare two large datasets.

    python benchmarks/governing.py                          # 10^7 samples, 10^5 removed; 10^6 compared
    python benchmarks/governing.py --samples 100000000 --compared 10000000

Removing 1 % of the samples by their positions, opening the dataset before and after, and `bushel.diff` of two datasets
with keys. One of them lacks 100 samples and has 100 other values. Times are wall-clock and CPU times. The
last figure is the number of bytes read from disk in the meantime, after the data (not the index) left the page cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bushel

SHARD = 1_000_000


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the time of the clock and of the processor that a call takes, in seconds, and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def write(path: Path, samples: int, *, keyed: bool) -> Path:
    """Write numbers of 8 bytes, in shards of a million."""
    with bushel.Writer(path, {"n": "i64"}, container="bag", shard_samples=SHARD, columns=(), sync=False) as writer:
        for first in range(0, samples, SHARD):
            numbers = np.arange(first, min(first + SHARD, samples), dtype=np.int64)
            writer.extend({"n": numbers}, keys=[f"sample-{n:010}" for n in numbers.tolist()] if keyed else None)
    return path


def data_read(work: Callable[[], Any], *folders: Path) -> tuple[Any, int]:
    """Return the result of a call, and what this process read from disk in the meantime, after the data left memory.

    Data that the call reads, or maps and touches, come from disk then, and count. The index is still in memory.
    """
    os.sync()
    for folder in folders:
        for file in folder.rglob("*.bag"):
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    before = read_bytes()
    return work(), read_bytes() - before


def read_bytes() -> int:
    """Return the bytes that this process has read from disk, by Linux."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--compared", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        removing(Path(folder) / "data", options.samples)
        comparing(Path(folder), options.compared)


def opening(path: Path) -> str:
    """Return how long it takes to open a dataset, and to open it and read one sample."""
    texts = []
    for work in (lambda: len(bushel.open(path)), lambda: bushel.open(path)[12345]):
        times = [timed(work)[:2] for _ in range(7)]
        wall, cpu = (statistics.median(each) * 1000 for each in zip(*times, strict=True))
        texts.append(f"{wall:.1f} ms, {cpu:.1f} ms of CPU")
    return "; with a sample ".join(texts)


def removing(path: Path, samples: int) -> None:
    """Remove 1 % of the samples of a dataset."""
    write(path, samples, keyed=False)
    gone = np.random.default_rng(0).permutation(samples)[: samples // 100]
    print(f"{samples:,} samples in {-(-samples // SHARD)} shards; open: {opening(path)}")
    (wall, cpu, done), read = data_read(
        lambda: timed(lambda: bushel.remove(path, positions=gone, reason="opt-out")), path
    )
    print(f"  remove {done.samples:,}: {wall:.2f} s, {cpu:.2f} s of CPU, {read:,} bytes from disk")
    print(f"  open afterwards: {opening(path)}")
    wall, cpu, done = timed(lambda: bushel.restore(path, done.call))
    print(f"  restore {done.samples:,}: {wall:.2f} s, {cpu:.2f} s of CPU")
    shutil.rmtree(path)


def comparing(folder: Path, samples: int) -> None:
    """Compare two datasets."""
    left = write(folder / "left", samples, keyed=True)
    with bushel.Writer(
        folder / "right", {"n": "i64"}, container="bag", shard_samples=SHARD, columns=(), sync=False
    ) as writer:
        for first in range(0, samples, SHARD):
            numbers = np.arange(first, min(first + SHARD, samples), dtype=np.int64)
            names = [f"sample-{n:010}" for n in numbers.tolist()]
            kept = numbers[100:] if first == 0 else numbers
            if first == 0:
                names = names[100:]
                kept = np.where(kept < 200, -kept, kept)
            writer.extend({"n": kept}, keys=names)
    one, other = bushel.open(left), bushel.open(folder / "right")
    (wall, cpu, found), read = data_read(lambda: timed(lambda: bushel.diff(one, other)), left, folder / "right")
    print(
        f"diff of {samples:,} and {len(other):,} samples: {wall:.2f} s, {cpu:.2f} s of CPU; "
        f"{len(found.removed)} removed, {len(found.fields['n'].changed)} changed; "
        f"{read:,} bytes from disk"
    )


if __name__ == "__main__":
    main()
