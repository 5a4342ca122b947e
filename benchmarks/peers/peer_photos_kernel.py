"""The ceiling of Bushel's loader: its decoding kernel alone, from two threads, on bytes and boxes that are in memory.

Nothing is read, shuffled, drawn or handed over in order; each thread calls the kernel once per batch, without the
interpreter lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import crop
import numpy as np

import bushel
from bushel.kernels import decode_jpegs, jpeg_header
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fuse import plan_decode

_work: list[tuple[list[bytes], Any]] = []


def prepare(path: str, variant: str) -> None:
    """Read all images, and draw a crop for each; the frames of a clip have the same one."""
    plan = plan_decode([RandomResizedCrop(crop.SIDE), RandomHorizontalFlip()])
    datas: list[bytes] = []
    rows: list[Any] = []
    dataset = bushel.open(path)
    for number, sample in enumerate(dataset.read(range(len(dataset)), decode=False)):
        frames = sample["frames"] if variant == "clips" else [sample["image"]]
        for frame in frames:
            rng = np.random.Generator(np.random.Philox(number))
            rows.append(plan.geometry(*jpeg_header(frame)[:2], rng).row)
        datas += frames
    for first in range(0, len(datas), crop.BATCH):
        last = first + crop.BATCH
        _work.append((datas[first:last], np.array(rows[first:last], np.int32)))


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Batches, as they lie, in memory that each thread uses again."""
    own = threading.local()

    def decode(batch: tuple[list[bytes], Any]) -> Any:
        if not hasattr(own, "out"):
            own.out = np.empty((crop.BATCH, crop.SIDE, crop.SIDE, 3), np.uint8)
        out = own.out[: len(batch[0])]
        if errors := decode_jpegs(*batch, out):
            raise ValueError(errors[0][1])
        return out

    with ThreadPoolExecutor(crop.THREADS) as pool:
        yield from pool.map(decode, _work)
