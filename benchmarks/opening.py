"""Benchmark of opening a dataset of a million records, to the first record, and of its memory.

    python benchmarks/opening.py --out opening.json
    python benchmarks/opening.py --small                   a tenth of the records, fewer rounds

Each round opens each dataset in a new process, after its imports and with its files in memory, and reads one record.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import bushel
from measure import SCRATCH, Timing, console, in_turns, save
from reads import usable
from served import OTHERS, Reader, bushel_readers, serving

LENGTH = 200
LOOKUPS = 1000


def _opening(reader: Reader, path: Path, count: int) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        with serving(reader, path, count) as served:
            first = served.read(1, number, 1)
            return Timing(1, served.opened + first.wall, None)

    return measure


def _key(position: int) -> str:
    return f"class{position % 1000:03d}/{position:08d}"


def keyed_dataset(count: int) -> Path:
    """Write a bag whose samples have keys of 17 characters."""
    path = SCRATCH / f"keyed-{count}"
    if not (path / "spec.json").exists():
        shutil.rmtree(path, ignore_errors=True)
        console.print(f"writing {path.name}")
        with bushel.Writer(path, {"data": "bytes"}, container="bag") as writer:
            for position in range(count):
                writer.append({"data": position.to_bytes(8, "little")}, key=_key(position))
    return path


def _anonymous_bytes() -> int:
    """Return the anonymous memory of this process in bytes."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def memory_of(path: Path, keyed: bool) -> dict[str, float]:
    """Return the memory of a dataset that is open and has been read. Run in a new process."""
    warmed = bushel.open(path.with_name(path.name + "-warm"))  # so that what any first use allocates is not counted
    _use(warmed, keyed)
    before = _anonymous_bytes()
    dataset = bushel.open(path)
    _use(dataset, keyed)
    grown = _anonymous_bytes() - before
    sidecars = sum(file.stat().st_size for file in path.rglob(".bushel/*.safetensors"))
    cells = len(dataset) * len(dataset.spec)
    return {"resident_per_field_and_sample": grown / cells, "mapped_per_field_and_sample": sidecars / cells}


def _use(dataset: bushel.Dataset, keyed: bool) -> None:
    positions = np.random.default_rng(0).integers(0, len(dataset), LOOKUPS)
    dataset.read(positions, decode=False)
    if keyed and any(dataset.position(_key(position)) != position for position in positions.tolist()):
        raise ValueError("a key was not found where it is")


def memory(count: int) -> dict[str, dict[str, float]]:
    """Return the memory of an open dataset per field and sample, with and without keys."""
    plain = bushel_readers("bushel", "", ("bag",))[0].fill(count, LENGTH)
    results = {}
    for name, path, keyed in (("without keys", plain, False), ("with keys", keyed_dataset(count), True)):
        warm = path.with_name(path.name + "-warm")
        if not warm.exists():
            with bushel.Writer(warm, {"data": "bytes"}, container="bag") as writer:
                for position in range(LOOKUPS):
                    writer.append({"data": b"warm"}, key=_key(position) if keyed else None)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            results[name] = pool.submit(memory_of, path, keyed).result()
    return results


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Opening a dataset.")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--small", action="store_true", help="a tenth of the records, fewer rounds")
    options = parser.parse_args()
    count, rounds = (100_000, 3) if options.small else (1_000_000, 7)
    skipped: dict[str, str] = {}
    readers = usable([*bushel_readers("bushel", "open"), *OTHERS], skipped)
    paths = {reader: reader.fill(count, LENGTH) for reader in readers}
    rates = in_turns({reader.name: _opening(reader, paths[reader], count) for reader in readers}, rounds)
    milliseconds = {name: 1e3 / rate.rate for name, rate in rates.items()}
    table = Table("", title=f"first record of {count:,}", title_justify="left")
    table.add_column("ms", justify="right")
    for name, value in sorted(milliseconds.items(), key=lambda item: item[1]):
        table.add_row(name, f"{value:.2f}")
    console.print(table)
    held: dict[str, Any] = memory(count) if Path("/proc/self/smaps_rollup").exists() else {}
    for name, sizes in held.items():
        console.print(
            f"index {name}: {sizes['mapped_per_field_and_sample']:.1f} bytes mapped and "
            f"{sizes['resident_per_field_and_sample']:.1f} bytes of its own memory, per field and sample"
        )
    save(options.out, {"first_record_ms": milliseconds, "index_bytes": held}, skipped)


if __name__ == "__main__":
    main()
