"""One script for webdataset 1.0.2 and for the drop-in: ``dropin_webdataset.py PACKAGE FOLDER [--small]``.

PACKAGE is `webdataset` or `bushel.compat.webdataset`. The shards are written to FOLDER by the package if they do not
exist. Prints a JSON line for each epoch that it measures: `{"case", "items", "seconds", "cpu_seconds"}`. Each
epoch is like that of a training script: shuffled samples, with images decoded and batched, or as stored bytes.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ITEMS, SMALL, SHARD, EPOCHS, BATCH = 4000, 1000, 500, 3, 64


def samples(items: int) -> Iterator[dict[str, Any]]:
    """Return JPEGs of 256 × 256 pixels with about the size of photos."""
    rng = np.random.default_rng(0)
    for number in range(items):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((256, 256), Image.Resampling.BICUBIC)).astype(np.int16)
        pixels = np.clip(smooth + rng.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=85)
        yield {"__key__": f"{number:06d}", "jpg": out.getvalue(), "cls": number % 1000}


def decoded(package: Any, shards: list[str]) -> Iterator[int]:
    """Yield the sizes of the batches of an epoch of decoded images."""
    dataset = package.WebDataset(shards, shardshuffle=False).shuffle(1000).decode("rgb8").to_tuple("jpg", "cls")
    for images, classes in dataset.batched(BATCH):
        if images.shape[1:] != (256, 256, 3) or len(images) != len(classes):
            raise RuntimeError(f"a batch of shape {images.shape}")
        yield len(images)


def stored(package: Any, shards: list[str]) -> Iterator[int]:
    """Yield the sizes of the batches of an epoch of stored bytes."""
    dataset = package.WebDataset(shards, shardshuffle=False).shuffle(1000).to_tuple("jpg", "cls")
    for images, _ in dataset.batched(BATCH):
        yield len(images)


def main() -> None:
    """Write the shards and measure."""
    package, folder = importlib.import_module(sys.argv[1]), Path(sys.argv[2])
    items = SMALL if "--small" in sys.argv else ITEMS
    if not folder.exists():
        folder.mkdir(parents=True)
        with package.ShardWriter(str(folder / "%06d.tar"), maxcount=SHARD, mtime=0, verbose=0) as writer:
            for sample in samples(items):
                writer.write(sample)
    shards = sorted(map(str, folder.glob("*.tar")))
    for case, epoch in (("epoch", decoded), ("epoch, stored bytes", stored)):
        for number in range(EPOCHS + 1):
            wall, cpu = time.perf_counter(), time.process_time()
            found = sum(epoch(package, shards))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if found != items:
                raise RuntimeError(f"{found} samples of {items}")
            if number:  # the first one only warms up
                print(json.dumps({"case": case, "items": items, "seconds": wall, "cpu_seconds": cpu}), flush=True)


if __name__ == "__main__":
    main()
