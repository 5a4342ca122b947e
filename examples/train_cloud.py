"""Train from an object store, with a cache on the local disk: the second epoch asks the store for nothing.

    bushel pack photos/ s3://bucket/train/ --container tar --shard-bytes 500MB
    python examples/train_cloud.py s3://bucket/train/ --cache /scratch/bushel --cache-size 500GB

URLs of S3, Google Cloud Storage, Azure, the Hugging Face Hub and HTTP servers work alike (docs/cloud.md). Opening a
million samples reads their index and none of them. `shuffle="blocks"` reads neighbours together, so that a batch is a
few long requests rather than hundreds of short ones.
"""

from __future__ import annotations

import argparse
import os
import time

import bushel
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop


def main() -> None:
    """Load some epochs."""
    parser = argparse.ArgumentParser(description="Load from an object store with a cache.")
    parser.add_argument("url", help="URL of a dataset with a field of images")
    parser.add_argument("--cache", help="folder of the block cache, on a local disk")
    parser.add_argument("--cache-size", default="10GB", help="largest size of the cache")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=32, help="height and width of the crops")
    options = parser.parse_args()
    if options.cache is not None:
        os.environ["BUSHEL_CACHE_DIR"], os.environ["BUSHEL_CACHE_SIZE"] = options.cache, options.cache_size

    ds = bushel.open(options.url)
    print(ds)
    loader = bushel.Loader(
        ds,
        options.batch,
        shuffle="blocks",
        seed=0,
        transforms=[RandomResizedCrop(options.side), RandomHorizontalFlip()],
        on_error="replace",  # a damaged sample does not end a run of days; loader.errors lists them
    )
    for _ in range(options.epochs):
        epoch, start, samples = loader.epoch, time.perf_counter(), 0
        for batch in loader:
            samples += len(batch["__key__"])
        print(f"epoch {epoch}: {samples} samples in {time.perf_counter() - start:.1f} s, {len(loader.errors)} damaged")


if __name__ == "__main__":
    main()
