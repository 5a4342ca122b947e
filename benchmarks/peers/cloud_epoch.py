"""Read an epoch from S3: ``cloud_epoch.py PEER BUCKET read SEED MEMORY URL…``, in the peer's environment.

Prints one JSON object: wall and CPU seconds from opening to the last batch, with child processes, the number of records
and of their bytes. ``cloud_epoch.py mds BUCKET fill COUNT LENGTH`` writes the dataset of MosaicML's streaming.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

BATCH = 128
WORKERS = 2
Epoch = Callable[[str, int, list[str]], Iterator[list[bytes]]]
Order = Literal["exact", "blocks"] | None
MEMORY = [1 << 30]
"""Bytes that a loader of Bushel may prefetch."""


def bushel_epoch(order: Order, bucket: str, seed: int, urls: list[str]) -> Iterator[list[bytes]]:
    """Bushel's Loader, of a dataset with an index."""
    import bushel

    dataset, memory = bushel.open(f"s3://{bucket}/set"), MEMORY[0]
    for batch in bushel.Loader(dataset, BATCH, shuffle=order, seed=seed, decode=False, prefetch_bytes=memory):
        yield batch["bin"]


def cached_epoch(bucket: str, seed: int, urls: list[str]) -> Iterator[list[bytes]]:
    """Bushel's Loader with the order of blocks, and an empty block cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BUSHEL_CACHE_DIR"] = folder
        yield from bushel_epoch("blocks", bucket, seed, urls)


def requests_epoch(bucket: str, seed: int, urls: list[str]) -> Iterator[list[bytes]]:
    """A range request of obstore for each record, 32 at a time, in the order of Bushel's exact shuffle."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import obstore
    from obstore.store import S3Store

    import bushel

    dataset = bushel.open(f"s3://{bucket}/set")
    order = bushel.loader.Exact(len(dataset), seed).take(0, np.arange(len(dataset)))
    places = [dataset.location(position, "bin") for position in order.tolist()]
    length = len(dataset.read([0], decode=False)[0]["bin"])
    store = S3Store(bucket, client_options={"allow_http": True})

    def read(place: tuple[str, int]) -> bytes:
        return bytes(obstore.get_range(store, place[0].removeprefix(f"s3://{bucket}/"), start=place[1], length=length))

    with ThreadPoolExecutor(32) as threads:
        values = threads.map(read, places)
        for start in range(0, len(places), BATCH):
            yield [next(values) for _ in places[start : start + BATCH]]


def webdataset_epoch(bucket: str, seed: int, urls: list[str]) -> Iterator[list[bytes]]:
    """WebDataset, each shard from a process of `curl`, shuffled in a buffer of 1000."""
    import torch
    import webdataset

    pipes = [f"pipe:curl --silent --fail '{url}'" for url in urls]
    stream = webdataset.WebDataset(pipes, shardshuffle=len(pipes), seed=seed, empty_check=False)
    stream = stream.shuffle(1000, seed=seed).to_tuple("bin").batched(BATCH, collation_fn=list)
    for batch in torch.utils.data.DataLoader(stream, batch_size=None, num_workers=WORKERS):
        yield [record for (record,) in batch]


def mds_epoch(bucket: str, seed: int, urls: list[str]) -> Iterator[list[bytes]]:
    """MosaicML's streaming: whole shards into an empty local folder."""
    import torch
    from streaming import StreamingDataset

    os.environ["S3_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as local:
        dataset = StreamingDataset(
            remote=f"s3://{bucket}/mds", local=local, shuffle=True, shuffle_seed=seed, batch_size=BATCH
        )
        for batch in torch.utils.data.DataLoader(dataset, BATCH, num_workers=WORKERS, collate_fn=list):
            yield [sample["data"] for sample in batch]


def fill_mds(bucket: str, count: int, length: int) -> None:
    """Write an MDS of random records to the bucket."""
    import numpy as np
    from streaming import MDSWriter

    os.environ["S3_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"]
    rng = np.random.default_rng(0)
    with MDSWriter(out=f"s3://{bucket}/mds", columns={"data": "bytes"}, size_limit=1 << 26) as writer:
        for _ in range(count):
            writer.write({"data": rng.bytes(length)})


EPOCHS: dict[str, Epoch] = {
    "bushel_exact": partial(bushel_epoch, "exact"),
    "bushel_blocks": partial(bushel_epoch, "blocks"),
    "bushel_cached": cached_epoch,
    "bushel_stored": partial(bushel_epoch, None),
    "webdataset": webdataset_epoch,
    "mds": mds_epoch,
    "requests": requests_epoch,
}


def main() -> None:
    """Run one epoch, or write the dataset."""
    peer, bucket, what, *words = sys.argv[1:]
    if what == "fill":
        fill_mds(bucket, *map(int, words))
        print(json.dumps({}))
        return
    _import(peer)
    wall, cpu = time.perf_counter(), _cpu()
    records = read = 0
    MEMORY[0] = int(words[1])
    for batch in EPOCHS[peer](bucket, int(words[0]), words[2:]):
        records += len(batch)
        read += sum(map(len, batch))
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": _cpu() - cpu, "records": records, "bytes": read}))


def _import(peer: str) -> None:
    """Import the packages before the clock starts. Bushel imports most of itself when it is first used."""
    if peer.startswith(("bushel", "requests")):
        import bushel

        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(f"{folder}/one.tar", "w") as archive:
                archive.addfile(tarfile.TarInfo("0.bin"), io.BytesIO())
            list(bushel.Loader(bushel.open(f"{folder}/one.tar"), BATCH, shuffle="blocks", decode=False))
        for module in ("obstore.store", "bushel.storage.objects.location", "bushel.loader.run.read_ahead"):
            __import__(module)
    else:
        import torch  # noqa: F401

        __import__({"mds": "streaming"}.get(peer, peer))


def _cpu() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
