"""Datasets of documents of different lengths, and transforms of their tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import bushel

COUNT = 150
LENGTHS = [(number * 37) % 29 + 1 for number in range(COUNT)]


def write(path: Path, lengths: list[int], **options: Any) -> bushel.Dataset:
    """Write documents whose tokens are 1000 * number and up, with a mask of the same length, a label and an array."""
    spec = {"tokens": "array", "mask": "array", "label": "int", "box": "array"}
    with bushel.Writer(path, spec, shard_samples=60, columns=["label", "tokens.length"], **options) as writer:
        for number, length in enumerate(lengths):
            own = {"tokens": np.arange(length, dtype=np.int32) + 1000 * number, "mask": np.arange(length) % 2 == 0}
            writer.append({**own, "label": number, "box": np.zeros(4, np.float32)}, key=f"k{number}")
    return bushel.open(path)


def longer(tokens: Any) -> Any:
    """A transform that adds tokens."""
    return np.concatenate([tokens, tokens])
