"""One script for MXNet 1.9.1 and for the drop-in: ``dropin_mxnet.py PACKAGE FOLDER [--small]``.

PACKAGE is `mxnet` or `bushel.compat.mxnet`. The record files are written to FOLDER if they do not exist. Prints a
JSON line for each epoch that it measures: `{"case", "items", "seconds", "cpu_seconds"}`. Records are read by key in a
random order: small ones (1000 bytes), image-sized ones (2 to 100 kB), and the latter as a dataset with headers.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EPOCHS = 3


def records(sizes: list[int]) -> Any:
    """Return random bytes, one value per size."""
    pool = np.random.default_rng(0).bytes(2 * max(sizes))
    for number, size in enumerate(sizes):
        start = number % max(sizes)
        yield pool[start : start + size]


def write(recordio: Any, path: Path, sizes: list[int]) -> None:
    """Write a file of image records if it does not exist."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for number, content in enumerate(records(sizes)):
        writer.write_idx(number, recordio.pack(recordio.IRHeader(0, number % 10, number, 0), content))
    writer.close()


def measure(case: str, count: int, read: Callable[[int], Any]) -> None:
    """Read all records once, in a random order. The first epoch is a warm-up."""
    for epoch in range(EPOCHS + 1):
        order = list(range(count))
        random.Random(epoch).shuffle(order)
        wall, cpu = time.perf_counter(), time.process_time()
        for number in order:
            read(number)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if epoch:
            print(json.dumps({"case": case, "items": count, "seconds": wall, "cpu_seconds": cpu}), flush=True)


def main() -> None:
    """Write the files and measure."""
    package, folder = sys.argv[1], Path(sys.argv[2])
    few = 10 if "--small" in sys.argv else 1
    recordio = importlib.import_module(f"{package}.recordio")
    datasets = importlib.import_module(f"{package}.gluon.data")
    draw, small = random.Random(1), [1000] * (50_000 // few)
    images = [draw.randrange(2_000, 100_000) for _ in range(5_000 // few)]
    for name, sizes in (("small", small), ("images", images)):
        write(recordio, folder / f"{name}.rec", sizes)
        reader = recordio.MXIndexedRecordIO(str(folder / f"{name}.idx"), str(folder / f"{name}.rec"), "r")
        measure(f"indexed reads, {name}", len(sizes), reader.read_idx)
        reader.close()
    dataset = datasets.RecordFileDataset(str(folder / "images.rec"))
    measure("RecordFileDataset and unpack", len(images), lambda number: recordio.unpack(dataset[number]))


if __name__ == "__main__":
    main()
