"""SPDL's pipeline over JPEG files, in threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crop
import numpy as np
from spdl.pipeline import PipelineBuilder


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches."""
    paths = sorted(Path(path).glob("*.jpg"))
    order = np.random.default_rng(seed).permutation(len(paths)).tolist()

    def load(number: int) -> np.ndarray:
        return crop.with_cv2(paths[number].read_bytes(), np.random.default_rng((seed, number)))

    builder = PipelineBuilder().add_source(order).pipe(load, concurrency=crop.THREADS)
    pipeline = builder.aggregate(crop.BATCH).pipe(np.stack).add_sink(3).build(num_threads=crop.THREADS + 1)
    with pipeline.auto_stop():
        yield from pipeline
