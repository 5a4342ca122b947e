"""An epoch of random crops from a Parquet file with Hugging Face datasets and Pillow: PATH map|streaming SEED."""

from __future__ import annotations

import json
import sys
import tempfile
import time

import numpy as np
from crop import with_pillow


def main() -> None:
    """Load the epoch and print its time."""
    from datasets import Image, load_dataset

    path, form, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as cache:
        streaming = form == "streaming"
        data = load_dataset("parquet", data_files=path, split="train", streaming=streaming, cache_dir=cache)
        data = data.cast_column("image", Image(decode=False))
        rng = np.random.default_rng(seed)
        wall, cpu, count = time.perf_counter(), time.process_time(), 0
        data = data.shuffle(seed=seed, buffer_size=400) if streaming else data.shuffle(seed=seed)
        for row in data:
            with_pillow(row["image"]["bytes"], rng)
            count += 1
        timing = {"items": count, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps(timing))


main()
