"""Read a peer's dataset on request: ``serve.py PEER PATH COUNT``, run in the peer's environment.

The dataset is opened once, and ``{"ready": PEER, "open": seconds}`` is printed. Each line ``BATCH SEED BATCHES`` on
standard input then reads BATCHES batches of BATCH random records, and prints one JSON object: wall and CPU seconds (of
all threads) and the number of records. A caller that keeps several of these open measures peers of different
environments in turns, A B C, A B C. The last batch of each line is checked after the clock stops. An empty line or the
end of the input stops the process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time

import numpy as np
from records import check


def main() -> None:
    """Open the dataset, then answer each line of input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", help="granular, lmdb, array_record, bagz, mxnet, slices or gather")
    parser.add_argument("path")
    parser.add_argument("count", type=int, help="how many records the dataset holds")
    options = parser.parse_args()
    peer = importlib.import_module(f"peer_{options.peer}")
    start = time.perf_counter()
    handle = peer.open(options.path)
    print(json.dumps({"ready": options.peer, "open": time.perf_counter() - start}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        size, seed, batches = map(int, line.split())
        plan = np.random.default_rng(seed).integers(0, options.count, (batches, size))
        wall, cpu = time.perf_counter(), time.process_time()
        for indices in plan:
            batch = peer.read_batch(handle, indices)
        done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        check(batch, plan[-1])
        print(json.dumps({"peer": options.peer, **done, "records": size * batches}), flush=True)


if __name__ == "__main__":
    main()
