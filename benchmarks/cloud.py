"""Benchmark of random batches from S3: Bushel, s3fs and boto3, on the same objects of the same server.

    python benchmarks/cloud.py [--small] [--out results.json]

The server is Ceph's S3 gateway on loopback (`scripts/object_store.sh start`), unless `AWS_ENDPOINT_URL` names another;
if it does not run, it is started, and stopped at the end. The dataset is four tars of 100 KB records. Every peer has
its own process and environment (`python interop/environments.py cloud`). The peers read the same batches of 128
records in turns (A, B, C, A, B, C), and their results are compared. Loopback has no latency, and client and server
share the processors, so this measures the cost of a request.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np

from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath
from measure import ROOT, Timing, console, in_turns, save, show

SCRIPT = ROOT / "scripts" / "object_store.sh"
BUCKET = "bushel-benchmark"
SHARDS, LENGTH, BATCH = 4, 100_000, 128
PEERS = {
    "bushel read": ("bushel", None),
    "bushel gather": ("bushel_gather", None),
    "obstore get_ranges": ("obstore", None),
    "s3fs cat_ranges": ("s3fs", "cloud"),
    "boto3, 16 threads": ("boto3", "cloud"),
}
Record = tuple[int, str, int, int]


def main() -> None:
    """Write the dataset, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few seconds, for a look")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    count, rounds, batches = (800, 3, 2) if options.small else (8000, 9, 4)
    with running_server(), ExitStack() as stack:
        records = fill(count)
        servers, skipped = {}, {}
        for name, (peer, environment) in PEERS.items():
            python = Path(sys.executable) if environment is None else ROOT / ".interop" / environment / "bin/python"
            if python.exists():
                servers[name] = stack.enter_context(serving(python, peer))
            else:
                skipped[name] = f"python interop/environments.py {environment} makes its environment"
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
        empty(ObjectPath.parse(f"s3://{BUCKET}"))
    if any(len(found) > 1 for found in crcs.values()):
        raise SystemExit("the peers have not read the same bytes")
    title = f"random batches of {BATCH} x {LENGTH:,} bytes from S3, {count} records in {SHARDS} tars"
    show(title, "records", rates, ["s3fs cat_ranges", "boto3, 16 threads"])
    save(options.out, {"random batches": rates}, skipped)


@contextmanager
def running_server() -> Iterator[None]:
    """Provide an S3 server, and its variables in the environment."""
    own = "AWS_ENDPOINT_URL" not in os.environ
    if own:
        text = subprocess.run([SCRIPT, "env"], check=True, capture_output=True, text=True).stdout
        os.environ.update(dict(word.split("=", 1) for word in text.split() if "=" in word))
    started = own and not answers(os.environ["AWS_ENDPOINT_URL"])
    if started:
        subprocess.run([SCRIPT, "start"], check=True)
    try:
        yield
    finally:
        if started:
            subprocess.run([SCRIPT, "stop"], check=True)


def answers(url: str) -> bool:
    """Return whether a server runs."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def fill(count: int) -> list[Record]:
    """Upload the dataset. Return its records: position, object, first byte, and the byte after the last."""
    bucket = ObjectPath.parse(f"s3://{BUCKET}")
    url = library().sign(bucket.store, "PUT", "", timedelta(minutes=1))
    urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
    empty(bucket)
    records: list[Record] = []
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        key, packed = f"set/train-{shard:06d}.tar", io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for _ in range(count // SHARDS):
                info = tarfile.TarInfo(f"{len(records):08d}.bin")
                info.size = LENGTH
                archive.addfile(info, io.BytesIO(rng.bytes(LENGTH)))
                start = (packed.tell() - LENGTH) // 512 * 512
                records.append((len(records), key, start, start + LENGTH))
        library().put(bucket.store, key, packed.getvalue())
    return records


def empty(bucket: ObjectPath) -> None:
    """Delete all objects of the bucket."""
    old = [each["path"] for page in library().list(bucket.store, chunk_size=1000) for each in page]
    if old:
        library().delete(bucket.store, old)


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
