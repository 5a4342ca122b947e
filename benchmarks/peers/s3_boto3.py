"""boto3: `get_object` with a range, in 16 threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.config import Config

THREADS = 16


def open(bucket: str) -> tuple[Any, str, ThreadPoolExecutor]:
    """Connect; the credentials are in the environment."""
    client = boto3.client("s3", config=Config(max_pool_connections=THREADS))
    return client, bucket, ThreadPoolExecutor(THREADS)


def read_batch(handle: tuple[Any, str, ThreadPoolExecutor], batch: list[tuple[int, str, int, int]]) -> list[bytes]:
    """Return the records of a batch."""
    client, bucket, pool = handle

    def read(record: tuple[int, str, int, int]) -> bytes:
        _, key, start, stop = record
        answer = client.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}")
        return answer["Body"].read()

    return list(pool.map(read, batch))
