"""Benchmark of loading stored bytes of a dataset that is larger than the memory.

    systemd-run --scope -p MemoryMax=1500M python benchmarks/larger.py    62,000 records of 60 to 140 KB in four tars
    python benchmarks/larger.py --small                                     a twentieth of that, which fits

The limit holds for the page cache, too. The limit of speed is `pread`, advised 8 batches ahead, in two threads.
Each reader runs in its own process and reads the first half of an epoch. They take turns, and the files leave the page
cache before each turn. CPU time is the better figure: a disk is shared.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel.loader import Loader
from bushel.loader.read.batch_reader import BatchReader
from measure import SCRATCH, Rate, Timing, in_turns, options_parser, save, show

BATCH, RECORDS, AHEAD = 64, 62_000, 8
ORDERS: dict[str, Any] = {"exact": True, "blocks": "blocks", "stored order": False}
LIMIT = "advised pread"


def dataset(records: int) -> Path:
    """Return the path of the dataset, which is written once."""
    path = SCRATCH / f"larger-{records}"
    if not (path / ".bushel").is_dir():
        rng = np.random.default_rng(0)
        noise = rng.bytes(64 << 20)
        with bushel.Writer(path, {"image": "bytes"}, container="tar", shard_bytes="1.6GB", mode="overwrite") as writer:
            for size, at in zip(
                rng.integers(60_000, 140_000, records), rng.integers(0, 60 << 20, records), strict=True
            ):
                writer.append({"image": noise[at : at + size]})
    return path


def forget(path: Path) -> None:
    """Remove the files of a dataset from the page cache."""
    for file in path.glob("*.tar"):
        number = os.open(file, os.O_RDONLY)
        os.fdatasync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)


def loaded(path: Path, order: str, seed: int) -> Iterator[int]:
    """Yield the number of records of each batch that a Loader makes."""
    loader = Loader(bushel.open(path), BATCH, shuffle=ORDERS[order], seed=seed, decode=False)
    for batch in loader:
        yield len(batch["image"])


def advised(path: Path, seed: int) -> Iterator[int]:
    """Yield the number of records of each batch that is read with `pread`."""
    ds = bushel.open(path)
    [(files, extents)] = BatchReader(ds).extents(np.random.default_rng(seed).permutation(len(ds)))
    numbers = [os.open(file.path, os.O_RDONLY) for file in files]
    file = np.broadcast_to(extents.file, len(ds)).tolist()
    rows = [
        (numbers[own], *each) for own, *each in zip(file, extents.offset.tolist(), extents.length.tolist(), strict=True)
    ]
    groups = [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]

    def read(place: int) -> int:
        for group in groups[place + AHEAD : place + AHEAD + 1] if place else groups[: AHEAD + 1]:
            for number, offset, length in group:
                os.posix_fadvise(number, offset, length, os.POSIX_FADV_WILLNEED)
        return len([os.pread(number, length, offset) for number, offset, length in groups[place]])

    with ThreadPoolExecutor(2) as threads:
        yield from threads.map(read, range(len(groups)))


def serve(name: str, path: str, seed: str) -> None:
    """Read half of an epoch, and print the number of records, the seconds and the CPU seconds."""
    batches = advised(Path(path), int(seed)) if name == LIMIT else loaded(Path(path), name, int(seed))
    next(batches)
    half = len(bushel.open(path)) // BATCH // 2
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    records = sum(islice(batches, half))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(records, time.perf_counter() - started, cpu, flush=True)
    os._exit(0)  # the rest of the epoch is not read


def measured(name: str, path: Path, number: int) -> Timing:
    """Measure a reader in a process of its own."""
    forget(path)
    command = [sys.executable, __file__, "--serve", name, str(path), str(number)]
    items, wall, cpu = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    return Timing(int(items), float(wall), float(cpu))


def main() -> None:
    """Run the benchmark with the options of the command line."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    parser = options_parser("A dataset that is larger than the memory.", "a twentieth of the records")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    path = dataset(RECORDS // 20 if options.small else RECORDS)
    contestants: dict[str, Callable[[int], Timing]] = {}
    for name in (*ORDERS, LIMIT):
        contestants[name] = partial(measured, name, path)
    results: dict[str, dict[str, Rate]] = {"stored bytes": in_turns(contestants, options.rounds)}
    show(f"stored bytes, {BATCH} a batch", "records", results["stored bytes"], (LIMIT,))
    save(options.out, results, {})


if __name__ == "__main__":
    main()
