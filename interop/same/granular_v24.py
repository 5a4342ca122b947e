"""Bags, datasets and loaders of Granular 0.24, by any package with its names: ``granular_v24.py PACKAGE``."""

from __future__ import annotations

import hashlib
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def show_files(folder: Path) -> None:
    """Print the files of a folder."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        print("   ", path.relative_to(folder).as_posix(), len(content), hashlib.sha256(content).hexdigest())


def point(number: int) -> dict[str, Any]:
    """Return a datapoint."""
    return {"foo": number, "text": "" if number == 2 else f"wört {number}", "xyz": np.full((2, 2), number, np.float32)}


SPEC = {"foo": "int", "text": "utf8", "xyz": "array"}


class Points:
    """A source with a sequence of datapoints."""

    def __init__(self, length: int, start: int) -> None:
        self.length, self.start = length, start

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.int64(self.start + index), "y": np.zeros((2,), np.float32)}


class Noise:
    """A transform that depends on its seed."""

    def __call__(self, datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        """Add a random number."""
        return {**datapoint, "noise": np.random.default_rng(seed).integers(0, 1000)}


def files(granular: Any, folder: Path) -> None:
    """Test bags and datasets, written in two runs."""
    for run in range(2):
        with granular.BagWriter(folder / "single.bag") as writer:
            print(len(writer), writer.append(b"hello"), writer.append(b""), writer.append(b"abc", flush=False))
            print(len(writer), run)
    print(writer.size, granular.BagReader(folder / "single.bag")[0:9], len(granular.BagReader(folder / "single.bag")))
    path = folder / "dataset"
    for run in range(2):
        with granular.DatasetWriter(path, SPEC, granular.encoders) as writer:
            print(len(writer), writer.spec)
            for number in range(4):
                print(writer.append(point(4 * run + number), flush=number % 2 == 0), len(writer))
        print(writer.size)
    show_files(path)
    for options in ({}, {"cache_index": False}, {"cache_keys": ("foo",)}, {"parallel": True}):
        reader = granular.DatasetReader(path, granular.decoders, **options)
        print(reader.spec, reader.size, len(reader), [reader[i]["text"] for i in range(len(reader))])
        print(reader[3, ("foo",)], reader[3, ["text", "foo"]], reader[2:5, ("foo", "text")])
        reader.close()
    shards = folder / "shards"
    with granular.ShardedDatasetWriter(shards, SPEC, granular.encoders, shardlen=3) as writer:
        for number in range(7):
            print(writer.append(point(number)), writer.shards, writer.size, len(writer))
    show_files(shards)
    with granular.ShardedDatasetReader(shards, granular.decoders) as reader:
        print(len(reader), reader.shards, reader.size, [reader[i, ("foo",)] for i in range(7)], reader[2:6, ("text",)])


def steps(granular: Any) -> None:
    """Test sources and loaders."""
    sources = granular.sources
    first, second = Points(10, 0), Points(4, 100)
    for source in (
        sources.Epochs(first),
        sources.Epochs(first, shuffle=False),
        sources.Epochs(first, length=6),
        sources.Sample(first, seed=3),
        sources.Truncate(first, 3),
        sources.Interleave([sources.Epochs(first), sources.Epochs(second)]),
        sources.Mix([sources.Epochs(first), sources.Epochs(second)], [0.7, 0.3], seed=2),
        sources.Transform(sources.Epochs(first), Noise(), seed=5),
    ):
        print([{key: np.asarray(value).tolist() for key, value in source(step).items()} for step in range(25)])
        for host in range(2):
            loader = granular.Loader(source, 3, prefetch=2, workers=2, shard_id=host, num_shards=2)
            print({key: (str(dtype), shape) for key, (dtype, shape) in loader.spec.items()})
            iterator = iter(loader)
            print([next(iterator)["x"].tolist() for _ in range(4)], loader.save())
            loader.load({"step": 6})
            print(next(iterator)["x"].tolist(), loader.save())
            loader.close()


def main() -> None:
    """Run all tests."""
    granular: Any = importlib.import_module(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        files(granular, Path(folder))
    steps(granular)


if __name__ == "__main__":
    main()
