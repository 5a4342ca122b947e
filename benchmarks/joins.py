"""Benchmark of joins: matching keys against polars, and epochs of a join against the same data packed together.

    python benchmarks/joins.py --out .bench/joins.json
    python benchmarks/joins.py --small                      a tenth of the keys and photos

Keys: two datasets of `KEYS` samples, the second one in another order, whose tables are in memory; polars joins two
frames with the same texts in memory, one to one, in the order of the first one. Epochs: photos in a tar of shards, and
a caption, a label and an embedding of each in another order and another container, joined; against a tar that has all
of it. A loader gives crops and the other fields, or only numbers. Files are in memory; times are CPU time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bushel
from bushel._index.shard import FileStamp, Keys, Shard
from bushel._index.table import FieldExtents, ShardIndex
from bushel.spec import Field
from bushel.transforms import RandomResizedCrop
from measure import SCRATCH, Timing, in_turns, save, show

KEYS, PHOTOS, ROUNDS = 10_000_000, 2_000, 5
SHARDS = 5
WAYS = ("bushel", "polars")


def key_texts(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return keys such as `train/005/00000005`, as text and offsets."""
    text = np.tile(np.frombuffer(b"train/000/00000000", np.uint8), (len(numbers), 1))
    for places, rest in (((8, 7, 6), numbers % 1000), (range(17, 9, -1), numbers)):
        for place in places:
            text[:, place] = 48 + rest % 10
            rest = rest // 10
    return text.reshape(-1), np.arange(len(numbers) + 1, dtype=np.int64) * text.shape[1]


def table(folder: Path, name: str, numbers: npt.NDArray[np.int64]) -> bushel.Dataset:
    """Return a dataset whose samples share one byte of a file."""
    path = folder / f"{name}.tar"
    path.write_bytes(b"7")
    count = len(numbers)
    extents = FieldExtents(Field(name, "int"), "cls", 0, np.zeros(count, np.int64), np.ones(count, np.int64))
    stamp = FileStamp(path.name, 1, path.stat().st_mtime_ns)
    index = ShardIndex(count, (stamp,), {name: extents}, "tar", Keys.build(*key_texts(numbers)))
    return bushel.Dataset.from_tables("tar", [(Shard(folder, path.name, (path.name,)), index)])


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def match(way: str, count: int) -> dict[str, float]:
    """Join `count` keys with as many, in a process of its own: CPU and wall seconds, bytes that stay for each."""
    orders = np.arange(count), np.random.default_rng(0).permutation(count)
    with tempfile.TemporaryDirectory() as folder:
        if way == "bushel":
            first, second = (table(Path(folder), name, own) for name, own in zip("ab", orders, strict=True))
            joined: Callable[[], Any] = partial(bushel.join, first, second)
        else:
            polars = import_module("polars")
            frames = []
            for name, own in zip("ab", orders, strict=True):
                text, offsets = key_texts(own)
                plain = np.ascontiguousarray(text.reshape(count, -1)).view(f"S{int(offsets[1])}").reshape(-1)
                frames.append(polars.DataFrame({"key": plain.astype(str).tolist(), name: own}))
            joined = partial(frames[0].join, frames[1], on="key", how="left", validate="1:1", maintain_order="left")
        before, wall, cpu = resident(), time.perf_counter(), time.process_time()
        found = joined()
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        assert len(found) == count
        if way == "bushel":
            assert found[5]["b"] == 7
            held = sum(side.rows.nbytes for side in found._reader.sides)
            return {**spent, "bytes_a_sample": held / count, "grown_a_sample": (resident() - before) / count}
        return spent


def matched(way: str, count: int, number: int) -> Timing:
    """Measure `match` in a process."""
    command = [sys.executable, __file__, "--match", way, "--keys", str(count)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(way, {name: round(value, 2) for name, value in found.items()})
    return Timing(count, found["wall"], found["cpu"])


def write(folder: Path, count: int) -> dict[str, bushel.Dataset]:
    """Write the photos and what belongs to them, apart and together."""
    random = np.random.default_rng(0)
    spec = {"label": "int", "caption": "utf8", "embedding": "array(float32,64)"}
    small = random.integers(0, 256, (40, 60, 3), np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    photos = [bytes(bushel.codecs.get_codec("jpg").encode(np.roll(small, 8 * number, 1))) for number in range(60)]
    rows = [
        {"label": number % 10, "caption": f"photo number {number}", "embedding": np.full(64, number, np.float32)}
        for number in range(count)
    ]
    shards: Any = {"container": "tar", "shard_samples": -(-count // SHARDS)}
    with bushel.Writer(folder / "photos", {"image": "jpg"}, **shards) as writer:
        for number in range(count):
            writer.append({"image": photos[number % 60]}, key=f"photo/{number:06d}")
    with bushel.Writer(folder / "rows", spec, **shards) as writer:
        for number in random.permutation(count).tolist():
            writer.append(rows[number], key=f"photo/{number:06d}")
    with bushel.Writer(folder / "packed", {"image": "jpg", **spec}, **shards) as writer:
        for number in range(count):
            writer.append({"image": photos[number % 60], **rows[number]}, key=f"photo/{number:06d}")
    apart = bushel.join(bushel.open(folder / "photos"), bushel.open(folder / "rows"))
    return {"joined": apart, "packed": bushel.open(folder / "packed")}


def epoch(dataset: bushel.Dataset, fields: list[str] | None, number: int) -> Timing:
    """Measure one epoch."""
    crop = {"image": RandomResizedCrop(96)} if fields is None else None
    loader = bushel.Loader(dataset, 64, shuffle=True, seed=number, fields=fields, transforms=crop, threads=1)
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in loader:
        assert (batch["embedding"][:, 0] % 10 == batch["label"]).all()
    return Timing(len(dataset), time.perf_counter() - wall, time.process_time() - cpu)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a tenth of the keys and photos")
    parser.add_argument("--out", type=Path, help="file for the results")
    parser.add_argument("--keys", type=int, help="number of keys")
    parser.add_argument("--match", choices=WAYS, help="measure this alone, and print it")
    options = parser.parse_args()
    small = 10 if options.small else 1
    keys = options.keys or KEYS // small
    if options.match:
        print(json.dumps(match(options.match, keys)))
        return
    results: dict[str, Any] = {}
    skipped = {} if find_spec("polars") else {"polars": "pip install polars"}
    ways = {way: partial(matched, way, keys) for way in WAYS if way not in skipped}
    results["keys"] = in_turns(ways, 1 if keys > 1_000_000 else 3)
    show(f"{keys:,} keys with as many", "keys", results["keys"], ["polars"])
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        datasets = write(Path(folder), PHOTOS // small)
        for title, fields in (("crops and the rest", None), ("numbers", ["label", "embedding"])):
            contestants = {name: partial(epoch, dataset, fields) for name, dataset in datasets.items()}
            results[title] = in_turns(contestants, ROUNDS)
            show(f"epochs: {title}", "samples", results[title], ["packed"])
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
