"""Values in pieces and in blocks: records that RecordIO splits, from S3, and samples of a .tgz at random.

    python benchmarks/scattered.py --base /path/to/other/version/bin/python

A record that contains RecordIO's magic word is stored in parts. The S3 server is the one of `cloud.py`, reached through
a proxy that waits before each answer (`--latency`); another version of Bushel, if given, reads the same file in turns
with this one. A sample of a .tgz is read through its index, and by a scan from the beginning, which an archive without
an index needs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bushel
from object_server import BUCKET, delayed, empty, running_server, upload

MAGIC = 0xCED7230A
PARTS, RECORDS, READS = 20, 64, 4
SAMPLES, TEXT = 2000, 40_000


def make_records(path: Path) -> None:
    """Write records of 100 kB, which contain the magic word often enough to be stored in many parts."""
    rng = np.random.default_rng(0)
    with bushel.Writer(path, {"data": "bytes"}, container="recordio") as writer:
        for _ in range(RECORDS):
            words = rng.integers(0, 1 << 31, 25_000, dtype=np.uint32)
            words[np.linspace(100, 24_900, PARTS - 1).astype(int)] = MAGIC
            writer.append({"data": words.tobytes()})


def read_records(url: str) -> dict[str, float]:
    """Read records in batches, after the table and the connection are there; median seconds and CPU seconds of one."""
    ds = bushel.open(url)
    ds.read([0], decode=False)
    rng, seconds, processor = np.random.default_rng(1), [], []
    for _ in range(READS):
        positions = rng.choice(RECORDS, 16, replace=False)
        start, worked = time.perf_counter(), time.process_time()
        found = ds.read(positions, decode=False)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - worked)
        assert all(len(sample["data"]) == 100_000 for sample in found)
    return {"wall": statistics.median(seconds), "cpu": statistics.median(processor)}


def compare_records(folder: Path, base: str | None, rounds: int, latency: float) -> None:
    """Print what a batch of 16 records costs with each version."""
    make_records(folder / "split.rec")
    pythons = {"this version": sys.executable} | ({} if base is None else {"other version": base})
    times: dict[str, list[float]] = {name: [] for name in pythons}
    processor: dict[str, list[float]] = {name: [] for name in pythons}
    with running_server():
        upload(folder, "split")
        with delayed(latency):
            for _ in range(rounds):
                for name, python in pythons.items():
                    command = [python, str(Path(__file__).absolute()), "--read", f"s3://{BUCKET}/split/split.rec"]
                    own = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                    times[name].append(own["wall"])
                    processor[name].append(own["cpu"])
        empty()
    for name in pythons:
        wall, worked = statistics.median(times[name]) * 1e3, statistics.median(processor[name]) * 1e3
        print(
            f"16 records of {PARTS} parts each from S3, {latency:g} ms before each answer, {name}: {wall:.1f} ms a "
            f"batch, {worked:.1f} ms of CPU time"
        )
    if base is not None:
        for what, each in (("time", times), ("CPU time", processor)):
            ratio = statistics.median(each["other version"]) / statistics.median(each["this version"])
            print(f"{what} of the other version by that of this one: {ratio:.1f}")


def compare_tgz(folder: Path, rounds: int) -> None:
    """Print what a sample of a .tgz costs through the index, and by a scan to it."""
    rng = np.random.default_rng(2)
    words = np.array([f"word{number} " for number in range(5000)])
    with bushel.Writer(folder / "texts.tar", {"txt": "utf8"}, container="tar") as writer:
        for number in range(SAMPLES):
            writer.append({"txt": "".join(rng.choice(words, TEXT // 8))}, key=f"{number:06d}")
    tgz = folder / "texts.tgz"
    with tgz.open("wb") as file:
        subprocess.run(["gzip", "-6", "-c", str(folder / "texts.tar")], stdout=file, check=True)
    bushel.index(tgz)
    ds = bushel.open(tgz)
    by_index, by_scan = [], []
    for _ in range(rounds):
        for position in rng.choice(SAMPLES, 4, replace=False).tolist():
            start = time.process_time()
            expected = ds[position]["txt"]
            by_index.append(time.process_time() - start)
            start = time.process_time()
            scanned = next(s for number, s in enumerate(bushel.open_stream(tgz)) if number == position)
            by_scan.append(time.process_time() - start)
            assert scanned["txt"] == expected
    index, scan = statistics.mean(by_index), statistics.mean(by_scan)
    print(
        f".tgz of {tgz.stat().st_size / 1e6:.0f} MB, {SAMPLES} samples: {index * 1e3:.2f} ms of CPU time a sample at "
        f"random, {scan * 1e3:.0f} ms by a scan: {scan / index:.0f}"
    )


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="Python of an environment with another version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=50.0, help="milliseconds before every answer")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        print(json.dumps(read_records(options.read)))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare_records(Path(folder), options.base, options.rounds, options.latency)
        compare_tgz(Path(folder), options.rounds)


if __name__ == "__main__":
    main()
