"""s3fs: `cat_ranges`, which sends all requests of a batch at once."""

from __future__ import annotations

import os

import s3fs


def open(bucket: str) -> tuple[s3fs.S3FileSystem, str]:
    """Connect; the credentials are in the environment."""
    return s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"]), bucket


def read_batch(handle: tuple[s3fs.S3FileSystem, str], batch: list[tuple[int, str, int, int]]) -> list[bytes]:
    """Return the records of a batch."""
    files, bucket = handle
    _, keys, starts, stops = zip(*batch, strict=True)
    return files.cat_ranges([f"{bucket}/{key}" for key in keys], list(starts), list(stops))
