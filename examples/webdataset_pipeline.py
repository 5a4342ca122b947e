"""A WebDataset pipeline, moved to Bushel by one line: the import.

    python examples/webdataset_pipeline.py run
    python examples/webdataset_pipeline.py run --original     the same on the package webdataset, if it is installed

`import webdataset as wds` becomes `import bushel.compat.webdataset as wds`; nothing else changes.
"""

from __future__ import annotations

import argparse
import importlib
import random
from pathlib import Path
from typing import Any

import numpy as np
from shapes import open_shapes


def write_shards(wds: Any, folder: Path) -> str:
    """Write the shapes as shards, and return the pattern of their names."""
    shapes = open_shapes(folder / "shapes")
    with wds.ShardWriter(str(folder / "shapes-%06d.tar"), maxcount=128, verbose=0) as writer:
        for number, sample in enumerate(shapes):
            writer.write({"__key__": f"{number:06d}", "jpg": sample["image"], "cls": sample["label"]})
    return str(folder / "shapes-{000000..000003}.tar")


def main() -> None:
    """Read one epoch."""
    parser = argparse.ArgumentParser(description="A pipeline of webdataset.")
    parser.add_argument("folder", type=Path, help="where the shards are written")
    parser.add_argument("--original", action="store_true", help="use the package webdataset")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wds: Any = importlib.import_module("webdataset" if options.original else "bushel.compat.webdataset")

    urls = write_shards(wds, options.folder)
    random.seed(0)
    dataset = (
        wds.WebDataset(urls, shardshuffle=False)
        .shuffle(200)
        .decode("rgb8")
        .to_tuple("jpg", "cls")
        .map_tuple(lambda image: image[16:48, 16:48], lambda label: label)
        .batched(64)
    )
    batches, counts, shape = 0, np.zeros(2, int), (0,)
    for images, labels in dataset:
        batches, shape = batches + 1, np.asarray(images).shape
        counts += np.bincount(np.asarray(labels), minlength=2)
    print(f"{batches} batches, the last one {shape}; samples of each class {counts.tolist()}")


if __name__ == "__main__":
    main()
