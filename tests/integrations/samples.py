"""A small dataset for the tests of integrations: photos, labels with names, text and JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.sources.folders import jpeg

import bushel

SPEC = {"image": "jpg", "label": "int", "caption": "utf8", "meta": "json", "box": "array(float32,4)", "tags": "utf8[]"}
NAMES = {"label": ("cat", "dog", "eel")}


def write(path: Path, samples: int = 10, *, container: str = "bag") -> bushel.Dataset:
    """Write a dataset of two or more shards, and open it."""
    with bushel.Writer(path, SPEC, container=container, shard_samples=6, labels=NAMES) as writer:
        for number in range(samples):
            sample = {
                "image": jpeg(number % 16),
                "label": number % 3,
                "caption": f"photo {number}",
                "meta": {"number": number},
                "box": np.full(4, number, np.float32),
                "tags": ["a"] * (number % 3),
            }
            writer.append(sample, key=f"k{number}")
    return bushel.open(path)
