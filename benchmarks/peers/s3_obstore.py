"""obstore alone: `get_ranges` per object, in its own threads."""

from __future__ import annotations

import os
from collections import defaultdict

import obstore
from obstore.store import S3Store


def open(bucket: str) -> S3Store:
    """Connect; the credentials are in the environment."""
    return S3Store(bucket, client_options={"allow_http": os.environ["AWS_ENDPOINT_URL"].startswith("http:")})


def read_batch(
    store: S3Store, batch: list[tuple[int, str, int, int]], *, coalesce: int = 1 << 20
) -> list[obstore.Bytes]:
    """Return the records of a batch. Gaps of up to `coalesce` bytes are read to save requests."""
    rows = defaultdict(list)
    for row, (_, key, start, stop) in enumerate(batch):
        rows[key].append((row, start, stop))
    found: list[obstore.Bytes] = [None] * len(batch)
    for key, own in rows.items():
        starts, ends = [start for _, start, _ in own], [stop for _, _, stop in own]
        values = obstore.get_ranges(store, key, starts=starts, ends=ends, coalesce=coalesce)
        for (row, *_), data in zip(own, values, strict=True):
            found[row] = data
    return found
