"""An epoch from Parquet files as on the Hub: ``peer_hub.py TASK PEER PLACE SEED LOCAL``, in the peer's environment.

TASK is `photos` (random crops of 224 × 224, shuffled) or `texts` (strings in stored order). PLACE is a folder, or the
URL of one on S3; for webdataset a file with the URLs or paths of archives. The first batch of LOCAL, the same data on
disk, is read before the clock starts, so that imports are done. Prints one JSON object: items, and wall and CPU seconds
with child processes.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH, ROWS = 64, 256


def bushel_photos(place: str, seed: int, order: Any) -> Iterator[int]:
    """Bushel's Loader with its own crops."""
    import bushel
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    transforms: Any = {"image": [RandomResizedCrop(224), RandomHorizontalFlip()]}
    ds = bushel.open(place)
    for batch in bushel.Loader(
        ds, BATCH, shuffle=order, seed=seed, fields=["image", "label"], transforms=transforms, threads=2
    ):
        yield len(batch["image"])


def datasets_photos(place: str, seed: int, form: Any) -> Iterator[int]:
    """Hugging Face datasets, in its map form or streaming with a buffer of 400, and Pillow."""
    from crop import with_pillow
    from datasets import Image, load_dataset

    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as cache:
        streaming = form == "streaming"
        data = load_dataset(
            "parquet", data_files=f"{place}/*.parquet", split="train", streaming=streaming, cache_dir=cache
        )
        data = data.cast_column("image", Image(decode=False))
        data = data.shuffle(seed=seed, buffer_size=400) if streaming else data.shuffle(seed=seed)
        for row in data:
            with_pillow(row["image"]["bytes"], rng)
            yield 1


def litdata_set(place: str, shuffle: bool) -> Any:
    """Return LitData's reader of a folder of Parquet files, which it has indexed."""
    from litdata import StreamingDataset
    from litdata.streaming.item_loader import ParquetLoader

    os.environ.setdefault("DATA_OPTIMIZER_CACHE_FOLDER", tempfile.mkdtemp())
    options = {"endpoint_url": os.environ.get("AWS_ENDPOINT_URL")} if "://" in place else {}
    if options:  # LitData has no option for a server without TLS
        from litdata.streaming import downloader

        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    return StreamingDataset(place, item_loader=ParquetLoader(), shuffle=shuffle, storage_options=options)


def litdata_photos(place: str, seed: int, form: Any) -> Iterator[int]:
    """LitData on Parquet, and Pillow."""
    from crop import with_pillow

    rng = np.random.default_rng(seed)
    for row in litdata_set(place, shuffle=True):
        image = row["image"] if isinstance(row, dict) else row[0]
        with_pillow(image["bytes"], rng)
        yield 1


def webdataset_photos(place: str, seed: int, form: Any) -> Iterator[int]:
    """WebDataset on archives of the same photos, shuffled in a buffer of 400, and Pillow."""
    import webdataset
    from crop import with_pillow

    rng = np.random.default_rng(seed)
    urls = Path(place).read_text(encoding="utf-8").split()
    pipes = [f"pipe:curl --silent --fail '{url}'" if "://" in url else url for url in urls]
    stream = webdataset.WebDataset(pipes, shardshuffle=len(pipes), seed=seed, empty_check=False).shuffle(400, seed=seed)
    for (photo,) in stream.to_tuple("jpg"):
        with_pillow(photo, rng)
        yield 1


def bushel_texts(place: str, seed: int, form: Any) -> Iterator[int]:
    """Bushel's Loader in stored order."""
    import bushel

    for batch in bushel.Loader(bushel.open(place), ROWS, fields=["text"], threads=1):
        yield sum(map(len, batch["text"])) and len(batch["text"])


def datasets_texts(place: str, seed: int, form: Any) -> Iterator[int]:
    """Hugging Face datasets, streaming."""
    from datasets import load_dataset

    data = load_dataset("parquet", data_files=f"{place}/*.parquet", split="train", streaming=True, columns=["text"])
    for batch in data.iter(ROWS):
        yield sum(map(len, batch["text"])) and len(batch["text"])


def litdata_texts(place: str, seed: int, form: Any) -> Iterator[int]:
    """LitData on Parquet."""
    for row in litdata_set(place, shuffle=False):
        text = row["text"] if isinstance(row, dict) else row[-1]
        yield 1 if len(text) else 0


def polars_texts(place: str, seed: int, form: Any) -> Iterator[int]:
    """The reader of polars, file by file."""
    import polars

    for path in sorted(Path(place).glob("*.parquet")):
        for part in polars.read_parquet(path, columns=["text"]).iter_slices(ROWS):
            texts = part["text"].to_list()
            yield sum(map(len, texts)) and len(texts)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Run one epoch."""
    task, peer, place, seed, local = sys.argv[1:6]
    name, _, form = peer.partition(":")
    order = {"exact": True}.get(form, form)
    epoch = globals()[f"{name}_{task}"]
    next(epoch(local, 1 + int(seed), order))
    wall, cpu = time.perf_counter(), _cpu()
    items = sum(epoch(place, int(seed), order))
    print(json.dumps({"items": items, "wall": time.perf_counter() - wall, "cpu": _cpu() - cpu}))


if __name__ == "__main__":
    main()
