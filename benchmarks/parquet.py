"""Benchmark of photos in Parquet files: random reads, an epoch in blocks, and random crops against `datasets`.

    python benchmarks/parquet.py --photos FOLDER --out parquet.json         1,000 photos (from the folder, repeated)
    python benchmarks/parquet.py --photos FOLDER --peers VENV/bin/python    also epochs with `datasets` of that Python

It needs pyarrow. Contestants take turns in this process, except `datasets`, which has its own; CPU time is that of the
process. Files are written once, into `.bench/`, and are in memory; expanded blocks are forgotten before each round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bushel
from bushel.loader import Blocks
from bushel.storage.expansion_cache import expansion_cache
from measure import SCRATCH, Rate, Timing, in_turns, save, show

PHOTOS, AT_RANDOM, BATCH, GROUP = 1000, 200, 64, 100
KINDS = {"plain": "none", "snappy": "snappy", "zstd": "zstd"}


def write(photos: Path) -> Path:
    """Write the datasets, and return their folder."""
    folder = SCRATCH / "parquet"
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    found = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    data = [found[number % len(found)].read_bytes() for number in range(PHOTOS)]
    features = {"image": {"_type": "Image"}, "label": {"_type": "Value", "dtype": "int64"}}
    table = pa.table(
        {"image": [{"bytes": each, "path": None} for each in data], "label": list(range(PHOTOS))}
    ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    for kind, compression in KINDS.items():
        options: dict[str, Any] = {"compression": compression, "use_dictionary": kind == "snappy"}
        pq.write_table(table, folder / f"{kind}.parquet", row_group_size=GROUP, **options)
    with bushel.Writer(folder / "bag", {"image": "jpg", "label": "int"}, container="bag", mode="overwrite") as writer:
        for number, each in enumerate(data):
            writer.append({"image": each, "label": number})
    for kind in KINDS:
        bushel.index(folder / f"{kind}.parquet", checksums=False)
    (folder / "done").touch()
    return folder


def timed(items: int, do: Callable[[], object]) -> Timing:
    """Call a function and return the time that it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    do()
    return Timing(items, time.perf_counter() - wall, time.process_time() - cpu)


def read_at_random(ds: bushel.Dataset, number: int) -> Timing:
    """Read photos at random as stored bytes, in batches."""
    positions = np.random.default_rng(number).permutation(len(ds))[:AT_RANDOM].tolist()
    parts = [positions[first : first + BATCH] for first in range(0, AT_RANDOM, BATCH)]
    expansion_cache().clear()
    return timed(AT_RANDOM, lambda: [ds.read(part, ["image"], decode=False) for part in parts])


def read_groups(path: Path, number: int) -> Timing:
    """Read some photos at random with pyarrow, which reads the row group of each."""
    few = 10
    file = pq.ParquetFile(path)
    positions = np.random.default_rng(number).permutation(PHOTOS)[:few].tolist()

    def read() -> None:
        for position in positions:
            rows = file.read_row_group(position // GROUP, columns=["image"]).column("image")
            rows[position % GROUP]["bytes"].as_py()

    return timed(few, read)


def read_blocks(ds: bushel.Dataset, number: int) -> Timing:
    """Read an epoch in blocks of row groups, as stored bytes."""
    order = Blocks(len(ds), seed=number, size=GROUP, window=4)
    expansion_cache().clear()

    def read() -> None:
        for first in range(0, len(ds), BATCH):
            positions = order.take(number, np.arange(first, min(first + BATCH, len(ds)), dtype=np.int64))
            ds.read(positions.tolist(), ["image"], decode=False)

    return timed(len(ds), read)


def read_in_order(path: Path, number: int) -> Timing:
    """Read all photos with pyarrow, row group by row group."""
    pa.set_cpu_count(1)

    def read() -> None:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            for row in file.read_row_group(group, columns=["image"], use_threads=False).column("image"):
                row["bytes"].as_py()

    return timed(PHOTOS, read)


def bushel_epoch(path: Path, shuffle: Any, number: int) -> Timing:
    """Load an epoch of random crops."""
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    transforms: Any = {"image": [RandomResizedCrop(224), RandomHorizontalFlip()]}
    ds = bushel.open(path)
    loader = bushel.Loader(ds, BATCH, shuffle=shuffle, seed=number, fields=["image"], transforms=transforms, threads=2)

    def read() -> None:
        assert sum(len(batch["image"]) for batch in loader) == PHOTOS

    return timed(PHOTOS, read)


def datasets_epoch(python: Path, path: Path, form: str, number: int) -> Timing:
    """Load the same with Hugging Face datasets and Pillow, in a process of their own."""
    script = Path(__file__).parent / "peers" / "peer_parquet_datasets.py"
    done = subprocess.run(
        [str(python), str(script), str(path), form, str(number)], capture_output=True, text=True, check=True
    )
    return Timing(**json.loads(done.stdout.splitlines()[-1]))


def contests(folder: Path, peers: Path | None) -> Iterator[tuple[str, dict[str, Callable[[int], Timing]], str]]:
    """Yield title, contestants, and the one to compare with."""
    opened = {kind: bushel.open(folder / f"{kind}.parquet") for kind in KINDS}
    bag = bushel.open(folder / "bag")
    yield (
        f"{AT_RANDOM} photos at random",
        {
            "bag": partial(read_at_random, bag),
            "Parquet, plain": partial(read_at_random, opened["plain"]),
            "Parquet, snappy": partial(read_at_random, opened["snappy"]),
            "pyarrow read_row_group, plain": partial(read_groups, folder / "plain.parquet"),
            "pyarrow read_row_group, snappy": partial(read_groups, folder / "snappy.parquet"),
        },
        "bag",
    )
    yield (
        "zstd, row groups of 100",
        {
            "bushel, blocks": partial(read_blocks, opened["zstd"]),
            "pyarrow, in order": partial(read_in_order, folder / "zstd.parquet"),
        },
        "pyarrow, in order",
    )
    epochs: dict[str, Callable[[int], Timing]] = {
        "bushel, exact": partial(bushel_epoch, folder / "plain.parquet", True),
        "bushel, blocks": partial(bushel_epoch, folder / "plain.parquet", "blocks"),
    }
    if peers is not None:
        epochs["datasets, map"] = partial(datasets_epoch, peers, folder / "plain.parquet", "map")
        epochs["datasets, streaming"] = partial(datasets_epoch, peers, folder / "plain.parquet", "streaming")
    yield "epochs of random crops, plain Parquet, in memory", epochs, "bushel, exact"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Photos in Parquet files.")
    parser.add_argument("--photos", type=Path, required=True, help="folder of JPEGs")
    parser.add_argument("--peers", type=Path, help="a Python that has datasets and Pillow")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder = write(options.photos)
    results: dict[str, dict[str, Rate]] = {}
    for title, contestants, against in contests(folder, options.peers):
        for measure in contestants.values():
            measure(99)  # objects that are made on first use are made
        results[title] = in_turns(contestants, options.rounds)
        show(title, "photos", results[title], (against,))
    skipped = {} if options.peers else {"datasets": "--peers names a Python that has it"}
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
