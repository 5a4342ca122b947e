"""Write tar shards with WebDataset: ``write_webdataset.py PLAN PATTERN [--shard-samples N]``, e.g. ``x-%06d.tar``."""

from __future__ import annotations

import argparse

import lines
import webdataset


def main() -> None:
    """Write the samples of a plan: bytes unchanged, values with WebDataset's own encoders."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("pattern", help="name of the shards, with %%06d in it")
    parser.add_argument("--shard-samples", type=int, default=100_000)
    parser.add_argument("--start-shard", type=int, default=0)
    options = parser.parse_args()
    writer = webdataset.ShardWriter(
        options.pattern, maxcount=options.shard_samples, start_shard=options.start_shard, verbose=0, mtime=0
    )
    with writer:
        for sample in lines.read_plan(options.plan)["samples"]:
            writer.write({"__key__": sample["key"], **sample["fields"]})


if __name__ == "__main__":
    main()
