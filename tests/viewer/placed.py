"""A dataset with vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import bushel

__all__ = ["SAMPLES", "write_vectors"]

SAMPLES = 40


def write_vectors(path: Path, samples: int = SAMPLES) -> Path:
    """Write samples whose vectors are two groups; the vector of sample 3 has another length."""
    rng = np.random.default_rng(0)
    with bushel.Writer(path, {"embedding": "array", "label": "int"}, container="bag") as writer:
        for number in range(samples):
            vector = rng.normal(size=8).astype(np.float32) + 20 * (number % 2)
            writer.append(
                {"embedding": vector[:5] if number == 3 else vector, "label": number % 2}, key=f"k{number:02d}"
            )
    return path
