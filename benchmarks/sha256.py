"""What recording and comparing SHA-256 costs: `bushel index --sha256`, `bushel verify`, and `sha256sum` beside them.

    python benchmarks/sha256.py            # 2,000 photos of 65 kB, then 200,000 records of 200 bytes, in tars
    python benchmarks/sha256.py --runs 7

Every figure is CPU time of the whole process, the median of runs in turns, with the files in the page cache.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import bushel


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU time in seconds of a call, and of the processes that it waited for."""

    def now() -> float:
        both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(each.ru_utime + each.ru_stime for each in both)

    before = now()
    work()
    return now() - before


def write(path: Path, samples: int, size: int) -> int:
    """Write a dataset of random bytes, and return the bytes of its values."""
    rng = np.random.default_rng(0)
    with bushel.Writer(path, {"data": "bytes"}, container="tar", shard_samples=samples // 4, columns=()) as writer:
        for number in range(samples):
            writer.append({"data": rng.bytes(size)}, key=f"{number:08}")
    return samples * size


def measure(path: Path, samples: int, size: int, runs: int) -> None:
    """Print the figures of one dataset."""
    nbytes = write(path, samples, size)
    kept = path.with_name("kept")
    shutil.copytree(path / ".bushel", kept)
    files = sorted(path.glob("*.tar"))

    def again(sha256: str) -> Callable[[], object]:
        def work() -> object:
            shutil.rmtree(path / ".bushel")
            shutil.copytree(kept, path / ".bushel")
            return bushel.index(path, sha256=sha256)

        return work

    ways: dict[str, Callable[[], object]] = {
        "index, nothing new": again(""),
        "index --sha256 values": again("values"),
        "index --sha256 files": again("files"),
        "verify with values": lambda: bushel.verify(path),
        "sha256sum": lambda: subprocess.run(["sha256sum", *files], check=True, capture_output=True),
    }
    found: dict[str, list[float]] = {name: [] for name in ("verify without", *ways)}
    for _ in range(runs):
        again("")()
        found["verify without"].append(cpu(lambda: bushel.verify(path)))
        for name, work in ways.items():
            if name == "verify with values":
                again("values")()
            found[name].append(cpu(work))
    print(f"{samples:,} values of {size:,} bytes")
    for name, times in found.items():
        middle = statistics.median(times)
        each, rate = middle / samples * 1e6, nbytes / middle / 1e9
        print(f"  {name:22} {middle:7.2f} s  {each:8.2f} us a value  {rate:5.2f} GB/s")
    shutil.rmtree(path)
    shutil.rmtree(kept)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "photos", 2_000, 65_000, runs)
        measure(Path(folder) / "records", 200_000, 200, runs)


if __name__ == "__main__":
    main()
