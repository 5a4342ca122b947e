"""Benchmark of opening a dataset of a million records, to the first record, and of its memory.

    python benchmarks/opening.py --out opening.json
    python benchmarks/opening.py --small                   a tenth of the records, fewer rounds
    python benchmarks/opening.py --shards 100000           instead, a dataset of this number of shards of 10,000 samples
    each python benchmarks/opening.py --shards 10000 --keys     instead, keys of this number of shards, by the key file
    and without

Each round opens each dataset in a new process, after its imports and with its files in memory, and reads one record.
With --shards, it opens a dataset whose data and tables are sparse files, with and without its table of shards, loads
the first batch of a shuffled epoch, continues in the middle of one, and looks up a key.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import bushel
from bushel._dataset.read.key_file import NAME as KEYS
from bushel._dataset.read.key_file import write_key_file
from bushel._index.identity import manifest_entry
from bushel._index.saving import save_index, save_manifest
from bushel._index.shard import FOLDER, FileStamp, Keys
from bushel._index.shard_list import NAME
from bushel._index.sidecar import Manifest
from bushel._index.table import FieldExtents, ShardIndex
from bushel.spec import parse_spec
from measure import SCRATCH, Timing, console, in_turns, options_parser, save
from reads import usable
from served import OTHERS, Reader, bushel_readers, serving

LENGTH = 200
SAMPLES = 10_000
"""Samples of each of many shards."""
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


def _most_bytes() -> int:
    """Return the most memory that this process has had. `getrusage` would count that of its parent before `exec`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


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


def _make_sparse_shards(root: Path, shards: int, keys_of: Callable[[int], Keys | None]) -> None:
    """Make tar files of holes, their tables and their manifest: all samples are empty, at the start of their file.

    Args:
        root: The folder.
        shards: Number of shards of `SAMPLES` samples.
        keys_of: Returns the keys of a shard, by its number.
    """
    console.print(f"making {root.name}")
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    [field] = parse_spec({"data": "bytes"}).values()
    column = FieldExtents(field, "bytes", 0, np.zeros(SAMPLES, np.int64), np.zeros(SAMPLES, np.int64))
    entries = []
    for number in range(shards):
        path = root / f"train-{number:06}.tar"
        path.touch()
        os.truncate(path, SAMPLES * LENGTH)
        stat = path.stat()
        files = (FileStamp(path.name, stat.st_size, stat.st_mtime_ns),)
        index = ShardIndex(SAMPLES, files, {"data": column}, "tar", keys_of(number))
        table = root / FOLDER / f"{path.name}.safetensors"
        save_index(index, table, sync=False)
        if index.keys is None:
            _make_holes(table)
        entries.append(manifest_entry(path.name, index))
    manifest = Manifest("tar", {"data": "bytes"}, {"data": "bytes"}, entries)
    save_manifest(manifest, root / FOLDER / "manifest.json", sync=False)
    time.sleep(3)  # a table of shards is stored for folders that have settled


def sparse_dataset(shards: int) -> Path:
    """Make a dataset of tar files of holes whose samples have no keys."""
    root = SCRATCH / f"shards-{shards}"
    if not (root / FOLDER / "manifest.json").exists():
        _make_sparse_shards(root, shards, lambda number: None)
    return root


def _make_holes(table: Path) -> None:
    """Write a table of zeros again, without the zeros."""
    data = table.read_bytes()
    kept = 8 + int.from_bytes(data[:8], "little")
    with table.open("r+b") as file:
        file.truncate(kept)
        file.truncate(len(data))


def _elapsed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def use_many_shards(path: Path) -> dict[str, float]:
    """Return milliseconds of opening, the first batch, resuming and a lookup. Run in a new process."""
    bushel.open(path.parent / "one")
    found: dict[str, float] = {}
    dataset, found["open"], found["open, CPU"] = _elapsed(lambda: bushel.open(path))
    found["memory after it, MB"] = _most_bytes() / 1e6

    def first_batch(state: dict[str, Any] | None) -> dict[str, Any]:
        loader = bushel.Loader(dataset, batch_size=256, shuffle=True, threads=2)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        batches.close()
        return state

    state, found["first batch and its state"], found["the same, CPU"] = _elapsed(lambda: first_batch(None))
    middle = {**state, "samples": len(dataset) // 2 // 256 * 256}
    _, found["resumed in the middle"], found["resumed, CPU"] = _elapsed(lambda: first_batch(middle))
    _, found["key lookup"], _ = _elapsed(lambda: dataset.position(str(len(dataset) // 3)))
    return found


def many_shards(count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the medians of `use_many_shards`, with and without the table of shards."""
    path, one = sparse_dataset(count), sparse_dataset(1)
    shutil.rmtree(one.with_name("one"), ignore_errors=True)
    shutil.copytree(one, one.with_name("one"))
    measured: dict[str, list[dict[str, float]]] = {"with its table of shards": [], "without": []}
    bushel.open(path)
    for _ in range(rounds):
        for name, runs in measured.items():
            if name == "without":
                (path / FOLDER / NAME).unlink(missing_ok=True)
            runs.append(_in_new_process(use_many_shards, path))
    return _medians(measured)


def _in_new_process(measure: Callable[[Path], dict[str, float]], path: Path) -> dict[str, float]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, path).result()


def _medians(measured: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the median of each value over the runs."""
    return {
        name: {each: statistics.median(run[each] for run in runs) for each in runs[0]}
        for name, runs in measured.items()
    }


def keyed_shards(shards: int) -> Path:
    """Make a dataset of tar files of holes whose samples have keys of 17 characters, and its key file."""
    root = SCRATCH / f"keyed-shards-{shards}"
    if (root / FOLDER / KEYS).exists():
        return root
    _make_sparse_shards(
        root, shards, lambda number: Keys.of([_key(number * SAMPLES + place) for place in range(SAMPLES)])
    )
    _, wall, cpu = _elapsed(lambda: write_key_file(bushel.open(root).shards))
    console.print(f"the key file was written in {wall / 1e3:.1f} s, {cpu / 1e3:.1f} s of CPU")
    return root


def use_keys(path: Path) -> dict[str, float]:
    """Return milliseconds of the first lookup of a key and of the next ones, and memory. Run in a new process."""
    dataset, found = bushel.open(path), {}
    before = _anonymous_bytes()
    positions = np.random.default_rng(0).integers(0, len(dataset), LOOKUPS).tolist()
    first, found["first lookup"], _ = _elapsed(lambda: dataset.position(_key(positions[0])))
    others, found["lookup"], _ = _elapsed(lambda: [dataset.position(_key(position)) for position in positions[1:]])
    found["lookup"] /= LOOKUPS - 1
    found["memory, MB"] = (_anonymous_bytes() - before) / 1e6
    if [first, *others] != positions:
        raise ValueError("a key was not found where it is")
    return found


def many_keys(shards: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the medians of `use_keys`, with and without the key file."""
    path = keyed_shards(shards)
    place = path / FOLDER / KEYS
    measured: dict[str, list[dict[str, float]]] = {"with the key file": [], "without": []}
    for _ in range(rounds):
        for name, runs in measured.items():
            if name == "without":
                place.rename(place.with_suffix(".hidden"))
            try:
                runs.append(_in_new_process(use_keys, path))
            finally:
                if name == "without":
                    place.with_suffix(".hidden").rename(place)
    return _medians(measured)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Opening a dataset.", "a tenth of the records, fewer rounds")
    parser.add_argument("--shards", type=int, help="open a dataset of this number of shards, and nothing else")
    parser.add_argument("--keys", action="store_true", help="with --shards: look up keys, and nothing else")
    options = parser.parse_args()
    if options.shards:
        found = many_keys(options.shards, 3) if options.keys else many_shards(options.shards, 5)
        for name, times in found.items():
            console.print(f"{options.shards:,} shards, {name}: ms", {each: round(ms, 2) for each, ms in times.items()})
        save(options.out, found, {})
        return
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
