"""Small datasets of every container, for the tests of object stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import bushel

SPEC = {"data": "bytes", "label": "int"}


def write(folder: Path, container: str, generation: str | None, count: int = 40, **more: Any) -> list[dict[str, Any]]:
    samples = make(container, count)
    spec = {"frames": "jpg[]", "label": "int"} if container == "gulp" else SPEC
    with bushel.Writer(folder, spec, container=container, generation=generation, **more) as writer:
        for number, sample in enumerate(samples):
            writer.append(sample, key=f"key-{number}")
    return samples


def make(container: str, count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    values = [rng.bytes(int(size)) for size in rng.integers(1, 5000, count)]
    if container == "gulp":
        return [{"frames": [value, value[::-1]], "label": number} for number, value in enumerate(values)]
    return [{"data": value, "label": number} for number, value in enumerate(values)]


def stored(dataset: bushel.Dataset, positions: list[int]) -> list[dict[str, Any]]:
    return dataset.read(positions, decode=False)
