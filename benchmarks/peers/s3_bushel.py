"""Bushel: `read` of stored bytes, by position."""

from __future__ import annotations

import bushel


def open(bucket: str) -> bushel.Dataset:
    """Open the dataset, which has no stored index, so it is scanned."""
    return bushel.open(f"s3://{bucket}/set")


def read_batch(dataset: bushel.Dataset, batch: list[tuple[int, str, int, int]]) -> list[bytes]:
    """Return the records of a batch."""
    return [sample["bin"] for sample in dataset.read([position for position, *_ in batch], decode=False)]
