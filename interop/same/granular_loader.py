"""Batches of Granular 0.20's loader, by any package with its names: ``granular_loader.py PACKAGE``."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def preproc(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
    """Return a random value that depends only on the seed."""
    noise = np.random.default_rng(seed).integers(0, 1000)
    return {"image": datapoint["abc"][:4], "label": datapoint["foo"], "noise": noise}


def double(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
    """Add a field."""
    return {**datapoint, "twice": 2 * datapoint["label"]}


def show(loader: Any, batches: int) -> None:
    """Print batches."""
    print({key: (str(dtype), shape) for key, (dtype, shape) in loader.spec.items()})
    iterator = iter(loader)
    for _ in range(batches):
        batch = next(iterator)
        print({key: value.shape for key, value in batch.items()}, type(batch).__name__)
        print({key: value.tolist() for key, value in batch.items() if value.ndim == 1}, int(batch["image"].sum()))
        print(loader.save())


def main() -> None:
    """Print the batches of several loaders."""
    granular: Any = importlib.import_module(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dataset"
        with granular.DatasetWriter(path, {"abc": "array", "foo": "int"}, granular.encoders) as writer:
            for number in range(10):
                writer.append({"abc": np.full((6, 5, 3), number, np.uint8), "foo": number})
        with granular.DatasetReader(path, granular.decoders) as reader:
            options = {"fns": [preproc, double], "workers": 2}
            for more in (
                {"batch": 4, "seed": 3},
                {"batch": 3, "shuffle": False, "prefetch": 1},
                {"batch": 4, "shard_id": 1, "num_shards": 2, "seed": 7},
                {"batch": 2, "recycle_after": 3},
            ):
                loader = granular.Loader(reader, **options, **more)
                show(loader, 6)
                loader.close()
            loader = granular.Loader(reader, 4, [preproc, double], workers=2, seed=1)
            loader.load({"step": 8, "seed": 1})
            show(loader, 2)
            loader.load({"step": 4, "seed": 1})
            print(next(loader)["label"].tolist(), loader.save())
            loader.close()


if __name__ == "__main__":
    main()
