"""Load epochs of photos on request: ``serve_photos.py PEER VARIANT PATH``, run in the peer's environment.

Each line ``SEED`` on standard input loads one epoch and prints one JSON object: images, and the seconds to the first
batch. The caller measures time, CPU seconds and memory of this process and its children. An empty line stops it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time

from crop import SIDE


def main() -> None:
    """Import the peer, then answer each line of input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", help="torch, webdataset, granular, spdl, grain, tf, dali, ffcv or bushel")
    parser.add_argument("variant")
    parser.add_argument("path")
    options = parser.parse_args()
    peer = importlib.import_module(f"peer_photos_{options.peer}")
    peer.prepare(options.path, options.variant)
    print(json.dumps({"ready": options.peer}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        images, start, first = 0, time.perf_counter(), 0.0
        for batch in peer.epoch(options.path, options.variant, int(line)):
            first = first or time.perf_counter() - start
            if tuple(batch.shape[1:]) != (SIDE, SIDE, 3) or "uint8" not in str(batch.dtype):
                raise ValueError(f"a batch of {batch.dtype} {tuple(batch.shape)}")
            images += len(batch)
        print(json.dumps({"images": images, "first": first}), flush=True)


if __name__ == "__main__":
    main()
