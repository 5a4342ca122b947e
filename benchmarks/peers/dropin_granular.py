"""One script for Granular 0.20.3 and for the drop-in: ``dropin_granular.py PACKAGE FOLDER [--small]``.

PACKAGE is `granular` or `bushel.compat.granular`. The dataset is written to FOLDER if it does not exist. Prints a JSON
line for each epoch that it measures: `{"case", "items", "seconds", "cpu_seconds"}`. Random reads are of single
datapoints, all keys, decoded and as stored bytes; the loader makes shuffled batches with one function per
datapoint. Sharded datasets are opened again and again.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ITEMS, SMALL, EPOCHS, BATCH, WORKERS = 4000, 1000, 3, 32, 2
SHARDS, OPENINGS = 100, 3
SPEC = {"image": "jpg", "label": "int", "caption": "utf8", "action": "array", "words": "utf8[]"}


def datapoints(items: int) -> Iterator[dict[str, Any]]:
    """Yield small camera frames with actions and rewards, as an agent logs them."""
    rng = np.random.default_rng(0)
    for number in range(items):
        coarse = rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)
        yield {
            "image": np.repeat(np.repeat(coarse, 8, 0), 8, 1),
            "label": number % 100,
            "caption": f"frame {number} of the walk",
            "action": rng.standard_normal(8).astype(np.float32),
            "words": ["walk", "left", "jump"][: number % 4],
        }


def crop(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
    """Transform a datapoint, as a training script does."""
    image = datapoint["image"][4:68, 4:68]
    return {"image": image, "label": datapoint["label"], "action": datapoint["action"]}


def processor_seconds() -> float:
    """Return the CPU seconds of this process and its running children."""
    total = time.process_time()
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def report(case: str, items: int, wall: float, cpu: float) -> None:
    """Print a measurement."""
    print(json.dumps({"case": case, "items": items, "seconds": wall, "cpu_seconds": cpu}), flush=True)


def measure_reads(granular: Any, folder: Path, case: str, decoders: Any) -> None:
    """Read every datapoint once, in a random order."""
    with granular.DatasetReader(folder, decoders) as reader:
        for epoch in range(EPOCHS + 1):
            order = np.random.default_rng(epoch).permutation(len(reader)).tolist()
            wall, cpu = time.perf_counter(), time.process_time()
            for index in order:
                reader[index]
            if epoch:  # the first one only warms up
                report(case, len(order), time.perf_counter() - wall, time.process_time() - cpu)


def measure_loader(granular: Any, folder: Path) -> None:
    """Load the batches of an epoch."""
    # Granular cannot hand a reader with a field of text to its workers: its decoder of text is a lambda.
    known = {name: granular.decoders[name] for name in ("jpg", "int", "array")}
    decoders = {**known, "utf8": decode_text}
    with granular.DatasetReader(folder, decoders) as reader:
        loader = granular.Loader(reader, BATCH, fns=[crop], shuffle=True, workers=WORKERS, seed=0)
        batches = iter(loader)
        for epoch in range(EPOCHS + 1):
            wall, cpu = time.perf_counter(), processor_seconds()
            for _ in range(len(reader) // BATCH):
                batch = next(batches)
                if batch["image"].shape != (BATCH, 64, 64, 3):
                    raise RuntimeError(f"a batch of shape {batch['image'].shape}")
            if epoch:
                report("Loader", len(reader) // BATCH * BATCH, time.perf_counter() - wall, processor_seconds() - cpu)
        loader.close()


def measure_opening(granular: Any, folder: Path) -> None:
    """Open and close a dataset of many shards, without sequences, which Granular 0.24 does not have."""
    if not folder.exists():
        spec = {name: kind for name, kind in SPEC.items() if not kind.endswith("[]")}
        with granular.ShardedDatasetWriter(folder, spec, granular.encoders, shardlen=2) as writer:
            for datapoint in datapoints(2 * SHARDS):
                writer.append({name: datapoint[name] for name in spec}, flush=False)
    for epoch in range(EPOCHS + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(OPENINGS):
            with granular.ShardedDatasetReader(folder, granular.decoders) as reader:
                if len(reader) != 2 * SHARDS:
                    raise RuntimeError(f"{len(reader)} datapoints")
        if epoch:
            report(f"opening {SHARDS} shards", OPENINGS, time.perf_counter() - wall, time.process_time() - cpu)


def decode_text(stored: bytes) -> str:
    """Decode text."""
    return stored.decode("utf-8")


def main() -> None:
    """Write the dataset and measure."""
    package, folder = sys.argv[1], Path(sys.argv[2])
    granular = importlib.import_module(package)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with granular.DatasetWriter(folder, SPEC, granular.encoders) as writer:
            for datapoint in datapoints(SMALL if "--small" in sys.argv else ITEMS):
                writer.append(datapoint, flush=False)
    measure_reads(granular, folder, "random reads", granular.decoders)
    measure_reads(granular, folder, "random reads, stored bytes", None)
    measure_loader(granular, folder)
    measure_opening(granular, folder.with_name(f"{folder.name}-sharded"))


if __name__ == "__main__":
    main()
