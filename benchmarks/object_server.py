"""The S3 server of the benchmarks, with a proxy before it that adds latency, and the records on it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np

from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath
from measure import ROOT
from served import PEERS

__all__ = ["BUCKET", "LENGTH", "SHARDS", "Record", "delayed", "empty", "fill", "running_server", "upload"]

BUCKET = "bushel-benchmark"
SHARDS, LENGTH = 4, 100_000
Record = tuple[int, str, int, int]
"""Position, object, first byte, and the byte after the last."""

_ENDPOINT = "AWS_ENDPOINT_URL"
_SCRIPT = ROOT / "scripts" / "object_store.sh"


@contextmanager
def running_server() -> Iterator[None]:
    """Provide an S3 server, and its variables in the environment."""
    own = _ENDPOINT not in os.environ
    if own:
        text = subprocess.run([_SCRIPT, "env"], check=True, capture_output=True, text=True).stdout
        os.environ.update(dict(word.split("=", 1) for word in text.split() if "=" in word))
    started = own and not _answers(os.environ[_ENDPOINT])
    if started:
        subprocess.run([_SCRIPT, "start"], check=True)
    try:
        yield
    finally:
        if started:
            subprocess.run([_SCRIPT, "stop"], check=True)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def delayed(milliseconds: float, link: float | None = None) -> Iterator[None]:
    """Delay every answer of the server, for the processes that are started inside this block.

    Args:
        milliseconds: Time after which an answer comes.
        link: Bytes a second of all answers together; by default any.
    """
    if not milliseconds and link is None:
        yield
        return
    server = os.environ[_ENDPOINT]
    command = [sys.executable, str(PEERS / "delay.py"), server, str(milliseconds), *([str(link)] if link else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        os.environ[_ENDPOINT] = proxy.stdout.readline().strip()
        try:
            yield
        finally:
            os.environ[_ENDPOINT] = server
            proxy.terminate()


def fill(count: int, length: int = LENGTH) -> list[Record]:
    """Upload tars of random records of this many bytes, in place of all objects of the bucket. Return the records."""
    bucket = _made_bucket()
    empty()
    records: list[Record] = []
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        key, packed = f"set/train-{shard:06d}.tar", io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for _ in range(count // SHARDS):
                info = tarfile.TarInfo(f"{len(records):08d}.bin")
                info.size = length
                archive.addfile(info, io.BytesIO(rng.bytes(length)))
                start = packed.tell() - -(-length // 512) * 512
                records.append((len(records), key, start, start + length))
        library().put(bucket.store, key, packed.getvalue())
    return records


def upload(folder: Path, key: str, *, hidden: bool = True) -> None:
    """Upload the files of a folder under a key; those in hidden folders, such as Bushel's index, if they are wanted."""
    bucket = _made_bucket()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        if not hidden and any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        library().put(bucket.store, f"{key}/{path.relative_to(folder)}", path)


def _made_bucket() -> ObjectPath:
    """Make the bucket, if it is not there, and return its path."""
    bucket = ObjectPath.parse(f"s3://{BUCKET}")
    url = library().sign(bucket.store, "PUT", "", timedelta(minutes=1))
    urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
    return bucket


def empty() -> None:
    """Delete all objects of the bucket."""
    bucket = ObjectPath.parse(f"s3://{BUCKET}")
    old = [each["path"] for page in library().list(bucket.store, chunk_size=1000) for each in page]
    if old:
        library().delete(bucket.store, old)
