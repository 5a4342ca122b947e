"""DALI over JPEG files, on the CPU, in two threads. One thread has half the rate, and four are not faster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crop
import numpy as np
from nvidia.dali import fn, pipeline_def, types

AHEAD = 2


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


@pipeline_def(batch_size=crop.BATCH, num_threads=crop.THREADS, device_id=None, prefetch_queue_depth=AHEAD)
def _pipeline(files: list[str]) -> Any:
    data, _ = fn.readers.file(files=files)
    image = fn.decoders.image_random_crop(
        data, random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10, output_type=types.RGB
    )
    image = fn.resize(image, size=(crop.SIDE, crop.SIDE), interp_type=types.INTERP_LINEAR)  # antialiased
    return fn.flip(image, horizontal=fn.random.coin_flip())


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield all full batches, each a view of memory that the batch after the next overwrites.

    Batches are asked for one by one, as otherwise DALI would decode the first of another epoch at the end.
    """
    paths = sorted(map(str, Path(path).glob("*.jpg")))
    order = np.random.default_rng(seed).permutation(len(paths))
    pipeline = _pipeline([paths[number] for number in order], seed=seed)
    pipeline.build()
    batches = len(paths) // crop.BATCH
    for _ in range(min(AHEAD, batches)):
        pipeline.schedule_run()
    for number in range(batches):
        [images] = pipeline.share_outputs()
        yield np.asarray(images.as_tensor())
        pipeline.release_outputs()
        if number + AHEAD < batches:
            pipeline.schedule_run()
