"""FFCV's Loader over a beton, in two threads. One thread has half the rate, and four are not faster.

Its decoder always resizes by area, and uses libjpeg-turbo's fast, less exact inverse DCT.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("NUMBA_THREADING_LAYER_PRIORITY", "tbb workqueue omp")  # threads of OpenMP spin while they wait

import crop
from ffcv.fields import RGBImageField
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip

_opened: dict[str, Any] = {}


def prepare(path: str, variant: str) -> None:
    """Open the dataset and compile the pipeline, which takes seconds."""
    _opened[path] = Loader(
        path,
        crop.BATCH,
        num_workers=crop.THREADS,
        os_cache=True,
        order=OrderOption.RANDOM,
        seed=0,
        drop_last=False,
        custom_fields={"image": RGBImageField},
        pipelines={"image": [RandomResizedCropRGBImageDecoder((crop.SIDE, crop.SIDE)), RandomHorizontalFlip()]},
    )


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches, each a view of memory that a later one overwrites. The loader counts epochs itself."""
    for (images,) in _opened[path]:
        yield images
