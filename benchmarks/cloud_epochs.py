"""Benchmark of whole epochs from S3: Bushel's Loader, webdataset over `pipe:curl`, and MosaicML's MDS.

    python benchmarks/cloud_epochs.py [--small] [--rounds N] [--latency 0 5 50] [--length BYTES] [--only NAME ...]
        [--link MB] [--memory MB] [--out results.json]

It has the server, the records and `--latency` of `cloud.py`. Every contestant reads all records once, in batches of
128, in a process of its own that starts without a cache, in turns (A, B, C, A, B, C). The clock runs from opening the
dataset to the last batch, and includes worker processes: two of a DataLoader for webdataset and MDS, none for Bushel,
whose tars have an index. "requests, one a record" are made by obstore in 32 threads, in the order of the exact shuffle:
with --link (MB a second), that is what the link allows. --memory is what Bushel's loaders may prefetch.
The peers need `python interop/environments.py mds`.
"""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from functools import partial

import bushel
from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath
from measure import Rate, Timing, how_to_make, in_turns, interpreter, options_parser, save, show
from object_server import BUCKET, LENGTH, SHARDS, delayed, empty, fill, running_server
from served import PEERS

CONTESTANTS = {
    "bushel, exact shuffle": ("bushel_exact", None),
    "bushel, blocks": ("bushel_blocks", None),
    "bushel, blocks, block cache": ("bushel_cached", None),
    "bushel, stored order": ("bushel_stored", None),
    "webdataset, pipe:curl": ("webdataset", "mds"),
    "MosaicML MDS": ("mds", "mds"),
    "limit: requests, one a record": ("requests", None),
}


def main() -> None:
    """Write the datasets, measure and print."""
    parser = options_parser(__doc__, "a few seconds, for a look")
    parser.add_argument("--rounds", type=int, help="epochs of each contestant")
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0], help="milliseconds before every answer")
    parser.add_argument("--length", type=int, default=LENGTH, help="bytes of a record")
    parser.add_argument("--count", type=int, help="number of records")
    parser.add_argument("--link", type=float, help="MB a second of all answers together")
    parser.add_argument("--memory", type=float, default=1024, help="MB that a loader of Bushel may prefetch")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, metavar="NAME", help="measure these contestants")
    options = parser.parse_args()
    count, rounds = (800, 1) if options.small else (4000, 3)
    count, rounds = options.count or count, options.rounds or rounds
    length = options.length
    chosen = {name: CONTESTANTS[name] for name in options.only or CONTESTANTS}
    there = {name: peer for name, (peer, environment) in chosen.items() if interpreter(environment).exists()}
    skipped = {name: how_to_make(environment) for name, (_, environment) in chosen.items() if name not in there}
    results: dict[str, dict[str, Rate]] = {}
    with running_server():
        fill(count, length)
        bushel.index(f"s3://{BUCKET}/set")
        if "MosaicML MDS" in there:
            _run("mds", "fill", str(count), str(length))
        for latency in options.latency:
            with delayed(latency, options.link and options.link * 1e6):
                turns = {name: partial(_epoch, name, count, length, options.memory) for name in there}
                rates = in_turns(turns, rounds)
            link = f", {options.link:g} MB/s" if options.link else ""
            results[f"epochs, {latency:g} ms{link}"] = rates
            title = f"epochs of {count} x {length:,} bytes from S3 in {SHARDS} tars, {latency:g} ms{link}"
            show(title, "records", rates, ["webdataset, pipe:curl", "MosaicML MDS", "limit: requests, one a record"])
        empty()
    save(options.out, results, skipped)


def _run(peer: str, *words: str) -> dict[str, float]:
    environment = next(each for name, each in CONTESTANTS.values() if name == peer)
    command = [str(interpreter(environment)), str(PEERS / "cloud_epoch.py"), peer, BUCKET, *words]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    answer: dict[str, float] = json.loads(lines[-1])
    return answer


def _epoch(name: str, count: int, length: int, memory: float, number: int) -> Timing:
    """Run one epoch. The URLs are signed here for `curl`, which has no credentials."""
    bucket = ObjectPath.parse(f"s3://{BUCKET}")
    keys = [f"set/train-{shard:06d}.tar" for shard in range(SHARDS)]
    urls = [library().sign(bucket.store, "GET", key, timedelta(hours=1)) for key in keys]
    done = _run(CONTESTANTS[name][0], "read", str(number), str(int(memory * 1e6)), *urls)
    if (done["records"], done["bytes"]) != (count, count * length):
        raise SystemExit(f"{name} has read {done['records']} records of {done['bytes']} bytes together")
    return Timing(count, done["wall"], done["cpu"])


if __name__ == "__main__":
    main()
