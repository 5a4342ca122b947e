"""Read damaged datasets with limited memory: `python -m tests.fuzz.worker WAY FOLDER SEED COUNT DATASET...`.

Each dataset is copied into the folder. One file at a time is damaged, and the result is opened and read in every way.
Any error but a `BushelError` ends the process, after a message about the damage that caused it.
"""

from __future__ import annotations

import random
import resource
import shutil
import sys
from pathlib import Path

from tests.fuzz.mutations import mutate, with_own_crc32

import bushel
from bushel._dataset.open.indexing import index
from bushel.codecs import get_codec
from bushel.errors import BushelError

MEMORY = 1 << 30
"""Maximum memory in bytes for reading a damaged dataset of a few kilobytes."""

_SOME = 40


def read_all(folder: Path) -> None:
    """Open and read a dataset in every way."""
    with bushel.open(folder, index="memory", pickle=True) as dataset:
        positions = [*range(min(len(dataset), _SOME)), *range(-min(len(dataset), 3), 0)]
        for position in positions:
            try:
                sample = dataset[position]
                assert dataset.position(sample["__key__"]) >= 0
                dataset.available(position)
            except BushelError:
                continue
        list(dataset.keys[:_SOME])
        dataset.read(positions, decode=False)
    with bushel.open(folder, index="memory", verify=True) as dataset:
        for _, sample in zip(range(_SOME), dataset, strict=False):
            assert "__key__" in sample


def read_stream(folder: Path) -> None:
    """Read every file as a stream."""
    for path in sorted(folder.iterdir()):
        with path.open("rb") as handle:
            for sample in bushel.open_stream(handle, decode=False):
                assert "__key__" in sample
        for sample in bushel.open_stream(path):
            assert "__key__" in sample


def read_sidecars(folder: Path) -> None:
    """Read with the sidecars in `.bushel`."""
    with bushel.open(folder) as dataset:
        dataset.read(range(min(len(dataset), _SOME)), decode=False)
        list(dataset.keys[:_SOME])


WAYS = {"data": read_all, "stream": read_stream, "sidecars": read_sidecars}


def limit_memory() -> None:
    """Limit the memory of the process to its current size plus `MEMORY`."""
    for codec in ("jpg", "json", "msgpack", "npy"):
        get_codec(codec)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def files_to_damage(folder: Path, way: str) -> list[Path]:
    """Return the files to damage."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    if way == "sidecars":
        return [path for path in folder.rglob("*") if ".bushel" in path.parts and path.is_file()]
    return [path for path in files if ".bushel" not in path.parts]


def fuzz(source: Path, folder: Path, way: str, seed: int, count: int) -> int:
    """Damage a dataset `count` times. Return how often it was refused."""
    rng = random.Random(f"{source.parent.name}/{source.name}/{seed}")
    shutil.copytree(source, folder, ignore=None if way == "sidecars" else shutil.ignore_patterns(".bushel"))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    if way == "sidecars":
        index(folder)
    files = files_to_damage(folder, way)
    refused = 0
    for number in range(count):
        path = rng.choice(files)
        original = path.read_bytes()
        damaged, done = mutate(original, rng)
        path.write_bytes(with_own_crc32(damaged) if way == "sidecars" else damaged)
        try:
            WAYS[way](folder)
        except BushelError:
            refused += 1
        except BaseException:
            print(f"mutation {number} of {source}, seed {seed}: {path.name} by {', '.join(done)}", file=sys.stderr)
            raise
        path.write_bytes(original)
    WAYS[way](folder)
    return refused


def main(arguments: list[str]) -> None:
    """Fuzz all datasets named on the command line."""
    way, folder, seed, count, *sources = arguments
    limit_memory()
    for number, source in enumerate(sources):
        print(source, flush=True)
        print(fuzz(Path(source), Path(folder) / str(number), way, int(seed), int(count)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
