"""Random batches of records by FFRecord's own names: ``dropin_ffrecord.py PACKAGE FOLDER [--small]``.

The package is `ffrecord`, if it could be built (it is not on PyPI), or `bushel.compat.ffrecord`. The data, 20,000
records of 10 kB in two files, is written by the first run. It prints a line of JSON: case, items, seconds and
cpu_seconds, of all epochs but the first.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

RECORDS, SMALL, SIZE, BATCH, EPOCHS = 10_000, 500, 10_000, 128, 6


def prepare(package: Any, folder: Path, records: int) -> None:
    """Write the missing files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        path = folder / f"{number}.ffr"
        if path.exists():
            continue
        random.seed(number)
        with package.FileWriter(str(path), records) as writer:
            for _ in range(records):
                writer.write_one(random.randbytes(SIZE))


def epoch(reader: Any, order: list[int]) -> int:
    """Read all records in this order. Return their number of bytes."""
    return sum(len(one) for at in range(0, len(order), BATCH) for one in reader.read(order[at : at + BATCH]))


def main() -> None:
    """Run the benchmark."""
    package, folder = importlib.import_module(sys.argv[1]), Path(sys.argv[2])
    prepare(package, folder, SMALL if "--small" in sys.argv else RECORDS)
    reader = package.FileReader([str(path) for path in sorted(folder.glob("*.ffr"))])
    order = random.Random(0).sample(range(reader.n), reader.n)
    epoch(reader, order)
    wall, cpu = time.perf_counter(), time.process_time()
    size = sum(epoch(reader, order) for _ in range(1, EPOCHS))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    items = (EPOCHS - 1) * reader.n
    if size != items * SIZE:
        raise RuntimeError(f"{size} bytes were read")
    print(json.dumps({"case": f"batches of {BATCH}", "items": items, "seconds": wall, "cpu_seconds": cpu}), flush=True)


if __name__ == "__main__":
    main()
