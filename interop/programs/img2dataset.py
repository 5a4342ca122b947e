"""img2dataset: its writer of shards, with lists as metadata and captions of both kinds."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from run_program import packages, picture, show_members


def run(folder: Path) -> None:
    """Write two shards."""
    packages(folder, "img2dataset")
    from img2dataset.writer import WebDatasetSampleWriter

    schema = pa.schema([("key", pa.string()), ("sizes", pa.list_(pa.int64()))])
    Path("out").mkdir()
    for shard in range(2):
        writer = WebDatasetSampleWriter(shard, "out", True, 5, schema, "jpg")
        for n in range(4):
            meta = {"key": f"{shard:05}{n:04}", "sizes": np.array([n, shard])}
            caption = None if n == 1 else f"é {n}"
            writer.write(None if n == 2 else picture(n), meta["key"], caption, meta)
        writer.close()
        show_members(f"out/{shard:05}.tar")
