"""Write a dataset of each container, with everything that this version keeps beside data, for all later versions.

    python scripts/keep_version.py 0.1.0

writes `tests/_dataset/kept-0.1.0/`. Run it once, before a release that changed sidecars, orders or states; what it
wrote is never written again (docs/compatibility.md). `kept-0.1` is of a time
before columns, key files, and the other orders.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bushel

SAMPLES = 9
SPEC = {"image": "jpg", "label": "int", "text": "utf8", "vector": "array(float32,3)", "words": "utf8[]"}
NAMES = {"label": ("cat", "dog", "eel")}
STEPS = 2


def samples(container: str) -> list[dict[str, Any]]:
    """Return the samples to write: gulp has frames and JSON only."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for number in range(SAMPLES):
        images = rng.integers(0, 256, (2, 24, 32, 3), dtype=np.uint8)
        if container == "gulp":
            rows.append({"frames": list(images), "label": number % 3})
            continue
        row = {"image": images[0], "label": number % 3, "text": f"t{number}", "vector": np.full(3, number, np.float32)}
        rows.append(row | {"words": ["w"] * (number % 3)})
    return rows


def digest(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a SHA-256 for each stored value of a sample."""
    found = {}
    for name, value in sample.items():
        parts = value if isinstance(value, list) else [value]
        plain = [part if isinstance(part, str) else bytes(part).hex() for part in parts]
        found[name] = hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]
    return found


def make_loader(dataset: bushel.Dataset, name: str, labels: npt.NDArray[Any], seed: int) -> bushel.Loader:
    """Return a loader with the order of this name; `labels` has the label of each sample."""
    if name == "mix":
        mixture = bushel.mix({dataset[:6]: 0.7, dataset[6:]: 0.3}, seed=7)
        return bushel.Loader(mixture, 2, fields=["label"], threads=1)
    options: dict[str, dict[str, Any]] = {
        "shuffle=True": {"batch_size": 2, "shuffle": True},
        "shuffle=blocks": {"batch_size": 2, "shuffle": "blocks"},
        "weights": {"batch_size": 2, "weights": labels + 1.0},
        "balance": {"batch_size": 2, "balance": "label"},
        "bucket_by": {"batch_tokens": 6, "bucket_by": labels + 1.0},
    }
    return bushel.Loader(dataset, seed=seed, fields=["label"], threads=1, **options[name])


LOADERS = ("shuffle=True", "shuffle=blocks", "weights", "balance", "bucket_by", "mix")


def describe(dataset: bushel.Dataset, names: Iterable[str]) -> dict[str, Any]:
    """Return the expected samples and columns of a dataset, and the epochs and states of these loaders."""
    labels = np.array([sample["label"] for sample in dataset.read(range(len(dataset)), fields=["label"])])
    found: dict[str, Any] = {
        "spec": dataset.spec,
        "labels": {name: list(names) for name, names in dataset.labels.items()},
        "fingerprint": dataset.fingerprint,
        "keys": list(dataset.keys),
        "stored": [digest(sample) for sample in dataset.read(range(len(dataset)), decode=False)],
        "columns": {name: np.asarray(dataset.column(name)).tolist() for name in dataset.columns},
    }
    for name in names:
        loader = make_loader(dataset, name, labels, seed=7)
        epochs = [[key for batch in loader for key in batch["__key__"]] for _ in range(2)]
        loader = make_loader(dataset, name, labels, seed=7)
        batches = iter(loader)
        for _ in range(STEPS):
            next(batches)
        found[name] = {"epochs": epochs, "state": loader.state_dict()}
    return found


def write(folder: Path) -> None:
    """Write the datasets and what must come out of them."""
    for container in ("bag", "tar", "ffrecord", "gulp", "recordio"):
        spec = {"frames": "jpg[]", "label": "int"} if container == "gulp" else SPEC
        place = folder / container
        with bushel.Writer(place, spec, container=container, shard_samples=5, labels=NAMES) as writer:
            for number, sample in enumerate(samples(container)):
                writer.append(sample, key=f"k{number}")
        scans = container != "gulp"
        dataset = bushel.index(place, seek=scans, segments=scans, keys=True)
        described = json.dumps(describe(dataset, LOADERS))
        (folder / f"{container}.json").write_text(described + "\n", encoding="utf-8")


def main() -> None:
    """Write the data of a version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="the version, such as 0.2.0")
    folder = Path(__file__).parents[1] / "tests/_dataset" / f"kept-{parser.parse_args().version}"
    folder.mkdir()
    write(folder)


if __name__ == "__main__":
    main()
