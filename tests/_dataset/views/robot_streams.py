"""Episodes of a robot whose streams have rates of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel import Dataset

RGB, DEPTH, JOINTS = 30, 15, 100


def write_robot(path: Path, counts: tuple[int, ...] = (60, 90), **stamps: Any) -> Dataset:
    """Write episodes of pictures, depths and joints at rates of their own, whose values are their numbers."""
    spec = {"rgb": "int[]", "rgb.time": "float[]", "depth": "int[]", "depth.time": "array(float32,-1)"}
    spec |= {"joints": "array(float32,-1,2)", "label": "int"}
    with bushel.Writer(path, spec, container="bag", sync=False) as writer:
        for number, count in enumerate(counts):
            seconds = count / RGB
            sample = {
                "rgb": list(range(count)),
                "rgb.time": (np.arange(count) / RGB).tolist(),
                "depth": list(range(int(seconds * DEPTH))),
                "depth.time": (np.arange(int(seconds * DEPTH)) / DEPTH + 0.01).astype(np.float32),
                "joints": np.arange(int(seconds * JOINTS), dtype=np.float32)[:, None].repeat(2, 1),
                "label": number,
            }
            writer.append(sample | stamps, key=f"ep{number}")
    return bushel.open(path)


TIMES: dict[str, Any] = {"rgb": "rgb.time", "depth": "depth.time", "joints": 100.0}
