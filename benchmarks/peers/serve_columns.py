"""Load epochs of numbers on request: ``serve_columns.py PEER VARIANT PATH DTYPE LENGTH SOURCE write|load``.

It runs in the peer's environment. With `write` it writes the dataset at PATH from the numbers in SOURCE. With `load`,
each line ``SEED`` on standard input loads one epoch and prints one JSON object: samples, wall and CPU seconds of the
process and its children. An empty line stops it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

BATCH = 256


def children_cpu() -> float:
    """Return the CPU seconds of all running descendants of this process."""
    total, parents = 0.0, {os.getpid()}
    known = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            known[int(name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    while found := {one for one, (parent, _) in known.items() if parent in parents and one not in parents}:
        total += sum(known[one][1] for one in found)
        parents |= found
    return total


def cpu() -> float:
    """Return the CPU seconds of this process and its children, those that ended included."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system + children_cpu()


def main() -> None:
    """Import the peer, then write its dataset or answer each line of input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", help="memmap, bushel, grain, hf, mds or litdata")
    parser.add_argument("variant")
    parser.add_argument("path")
    parser.add_argument("dtype")
    parser.add_argument("length", type=int)
    parser.add_argument("source")
    parser.add_argument("do", choices=("write", "load"))
    options = parser.parse_args()
    peer = importlib.import_module(f"peer_columns_{options.peer}")
    if options.do == "write":
        rows = np.memmap(options.source, options.dtype, "r").reshape(-1, options.length)
        peer.write(options.path, options.variant, rows)
        return
    loader = peer.Loader(options.path, options.variant, np.dtype(options.dtype), options.length)
    print(json.dumps({"ready": options.peer}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        wall, start, samples = time.perf_counter(), cpu(), 0
        batches = loader.epoch(int(line))
        for batch in batches:
            if tuple(batch.shape[1:]) != (options.length,) or str(batch.dtype).removeprefix("torch.") != options.dtype:
                raise ValueError(f"a batch of {batch.dtype} {tuple(batch.shape)}")
            samples += len(batch)
        spent = cpu() - start  # before its processes are gone
        print(json.dumps({"samples": samples, "wall": time.perf_counter() - wall, "cpu": spent}), flush=True)
        del batches


if __name__ == "__main__":
    main()
