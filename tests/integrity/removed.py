"""A dataset from which samples are removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import bushel

COUNT, GONE = 20, (0, 3, 4, 11, 19)
KEPT = [number for number in range(COUNT) if number not in GONE]


def write(
    path: Path, container: str = "tar", count: int = COUNT, shard_samples: int | None = 6, **options: Any
) -> Path:
    spec = {"meta": "json"} if container == "gulp" else {"data": "bytes", "label": "int"}
    if container == "gulp":
        spec = {"frames": "jpg[]", "meta": "json"}
    with bushel.Writer(path, spec, container=container, shard_samples=shard_samples, sync=False, **options) as writer:
        for number in range(count):
            values: dict[str, Any] = {"data": b"%03d" % number * 5, "label": number}
            if container == "gulp":
                values = {"frames": [np.full((8, 8, 3), number, np.uint8)], "meta": {"label": number}}
            writer.append(values, key=f"k{number:02}")
    return path


def keys(numbers: Any) -> list[str]:
    return [f"k{number:02}" for number in numbers]


def restore_all(path: Path) -> None:
    """Take back all calls."""
    for done in bushel.removals(path):
        bushel.restore(path, done.call)
