"""Read ranges of S3 objects on request: ``serve_s3.py PEER BUCKET``, run in the peer's environment.

Each line of standard input is a JSON list of batches, each a list of [position, object, start, stop]. All are read, and
one JSON object is printed: wall and CPU seconds (of all threads), the records, and the CRC-32 of all their bytes, which
is computed after the clock stops and shows that all peers read the same. An empty line stops the process.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import zlib


def main() -> None:
    """Open the dataset, then answer each line of input."""
    name, bucket = sys.argv[1:]
    peer = importlib.import_module(f"s3_{name}")
    handle = peer.open(bucket)
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        batches = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        read = [peer.read_batch(handle, batch) for batch in batches]
        done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        crc = 0
        for batch in read:
            for record in batch:
                crc = zlib.crc32(record, crc)
        print(json.dumps({**done, "records": sum(map(len, batches)), "crc": crc}), flush=True)


if __name__ == "__main__":
    main()
