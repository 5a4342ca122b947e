"""s3torchconnector: ranged readers without buffers, one per object and thread, in 16 threads."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from s3torchconnector import S3ClientConfig, S3ReaderConstructor
from s3torchconnector._s3client import S3Client

THREADS = 16


class Readers(threading.local):
    """The readers of one thread."""

    def __init__(self) -> None:
        self.of: dict[str, Any] = {}


def open(bucket: str) -> tuple[S3Client, str, Readers, ThreadPoolExecutor]:
    """Connect; the credentials are in the environment."""
    options = S3ClientConfig(force_path_style=True)
    region = os.environ.get("AWS_REGION", "us-east-1")
    client = S3Client(region, endpoint=os.environ["AWS_ENDPOINT_URL"], s3client_config=options)
    return client, bucket, Readers(), ThreadPoolExecutor(THREADS)


def read_batch(
    handle: tuple[S3Client, str, Readers, ThreadPoolExecutor], batch: list[tuple[int, str, int, int]]
) -> list[bytes]:
    """Return the records of a batch."""
    client, bucket, readers, pool = handle
    return list(pool.map(partial(_read, client, bucket, readers), batch))


def _read(client: S3Client, bucket: str, readers: Readers, record: tuple[int, str, int, int]) -> bytes:
    _, key, start, stop = record
    if key not in readers.of:
        whole_values = S3ReaderConstructor.range_based(buffer_size=0)
        readers.of[key] = client.get_object(bucket, key, reader_constructor=whole_values)
    readers.of[key].seek(start)
    data: bytes = readers.of[key].read(stop - start)
    return data
