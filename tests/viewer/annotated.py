"""A dataset of annotated pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import bushel

__all__ = ["write_annotated"]


def write_annotated(path: Path, samples: int = 6) -> Path:
    """Write pictures with boxes, a mask, key points and a caption."""
    spec = {"image": "png", "boxes": "json", "things": "array", "mask": "png", "keypoints": "array", "caption": "utf8"}
    with bushel.Writer(path, spec, container="bag") as writer:
        for number in range(samples):
            mask = np.zeros((100, 200), np.uint8)
            mask[:50, :100], mask[50:, 100:] = 3, 7
            writer.append(
                {
                    "image": np.full((100, 200, 3), 10 * number, np.uint8),
                    "boxes": [{"bbox": [120, 50, 70, 40], "category_id": number % 2}],
                    "things": np.array([[20, 20, 80, 40]], np.float32),
                    "mask": mask,
                    "keypoints": np.array([[20, 20, 2], [0, 0, 0]], np.float32),
                    "caption": f"number {number}",
                },
                key=f"k{number}",
            )
    return path
