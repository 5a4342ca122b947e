"""Benchmark of random batches from S3: Bushel, obstore, s3fs, boto3 and s3torchconnector, on the same objects.

    python benchmarks/cloud.py [--small] [--latency 0 5 50] [--length 1000000] [--only NAME ...] [--out results.json]

The server is Ceph's S3 gateway on loopback (`scripts/object_store.sh start`), unless `AWS_ENDPOINT_URL` names another;
if it does not run, it is started, and stopped at the end. The dataset is four tars of records of 100 KB (or --length).
Every peer has its own process and environment (`python interop/environments.py cloud cloud-torch`). They read the same
batches of 128 records in turns (A, B, C, A, B, C), and their results are compared. Loopback has no latency, and client
and server share the processors, so this measures the cost of a request; `--latency` puts a proxy before the server that
delays every answer. `cloud_epochs.py` measures whole epochs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from measure import Rate, Timing, console, how_to_make, in_turns, interpreter, options_parser, save, show
from object_server import BUCKET, LENGTH, SHARDS, Record, delayed, empty, fill, running_server

BATCH = 128
PEERS = {
    "bushel read": ("bushel", None),
    "bushel gather": ("bushel_gather", None),
    "obstore get_ranges": ("obstore", None),
    "obstore get_ranges, 256 KiB": ("obstore_gap", None),
    "s3fs cat_ranges": ("s3fs", "cloud"),
    "boto3, 16 threads": ("boto3", "cloud"),
    "s3torchconnector, 16 threads": ("torchconnector", "cloud-torch"),
}
AGAINST = ["obstore get_ranges", "s3fs cat_ranges", "boto3, 16 threads"]


def main() -> None:
    """Write the dataset, measure and print."""
    parser = options_parser(__doc__, "a few seconds, for a look")
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0], help="milliseconds before every answer")
    parser.add_argument("--rounds", type=int, help="how often each peer reads")
    parser.add_argument("--length", type=int, default=LENGTH, help="bytes of a record; 0.8 GB are written in all")
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS), metavar="NAME", help="these peers")
    options = parser.parse_args()
    count, rounds, batches = (800, 3, 2) if options.small else (8000, 9, 4)
    count = count * LENGTH // options.length
    rounds = options.rounds or rounds
    results: dict[str, dict[str, Rate]] = {}
    with running_server():
        records = fill(count, options.length)
        for latency in options.latency:
            with delayed(latency):
                rates, skipped = race(records, rounds, batches, options.only)
            results[f"random batches, {latency:g} ms"] = rates
            title = f"random batches of {BATCH} x {options.length:,} bytes from S3, {count} records in {SHARDS} tars"
            show(
                f"{title}, {latency:g} ms",
                "records",
                rates,
                ["obstore get_ranges", "s3fs cat_ranges", "boto3, 16 threads"],
            )
        empty()
    save(options.out, results, skipped)


def race(records: list[Record], rounds: int, batches: int, names: list[str]) -> tuple[dict[str, Rate], dict[str, str]]:
    """Let peers read the same random batches in turns. Return their rates, and who is skipped and why."""
    with ExitStack() as stack:
        servers, skipped = {}, {}
        for name in names:
            peer, environment = PEERS[name]
            python = interpreter(environment)
            if python.exists():
                servers[name] = stack.enter_context(serving(python, peer))
            else:
                skipped[name] = how_to_make(environment)
        crcs: dict[int, set[int]] = {}

        def measure(name: str, number: int) -> Timing:
            rng = np.random.default_rng(number)
            plan = [[records[row] for row in rng.integers(0, len(records), BATCH)] for _ in range(batches)]
            done = servers[name].ask(plan)
            crcs.setdefault(number, set()).add(int(done["crc"]))
            return Timing(int(done["records"]), done["wall"], done["cpu"])

        for name in servers:
            measure(name, -1 % 2**32)  # connections are made, indexes are loaded
        rates = in_turns({name: partial(measure, name) for name in servers}, rounds)
    if any(len(found) > 1 for found in crcs.values()):
        raise SystemExit("the peers have not read the same bytes")
    return rates, skipped


class Server:
    """A process that reads with one peer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, batches: list[list[Record]] | None) -> dict[str, float]:
        """Read batches; with None, wait until the process is ready."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if batches is not None:
            self._process.stdin.write(json.dumps(batches) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended with status {self._process.wait()}")
        answer: dict[str, float] = json.loads(line)
        return answer


@contextmanager
def serving(python: Path, peer: str) -> Iterator[Server]:
    """Run a peer in a process."""
    console.print(f"opening with {peer}")
    command = [str(python), str(Path(__file__).parent / "peers" / "serve_s3.py"), peer, BUCKET]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = Server(process)
        server.ask(None)
        try:
            yield server
        finally:
            if process.stdin is not None:
                process.stdin.close()


if __name__ == "__main__":
    main()
