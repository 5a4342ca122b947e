"""Write a peer's dataset: ``fill.py PEER PATH COUNT LENGTH``, run in the environment that holds the peer.

The content is the same for every peer (see records.py). Prints one JSON object: wall and CPU seconds, records, bytes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time

from records import records


def main() -> None:
    """Write the dataset with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", help="granular, lmdb, array_record, bagz, mxnet, slices or gather")
    parser.add_argument("path")
    parser.add_argument("count", type=int)
    parser.add_argument("length", type=int)
    options = parser.parse_args()
    peer = importlib.import_module(f"peer_{options.peer}")
    wall, cpu = time.perf_counter(), time.process_time()
    peer.write(options.path, records(options.count, options.length))
    done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({"peer": options.peer, **done, "records": options.count, "bytes": options.count * options.length}))


if __name__ == "__main__":
    main()
