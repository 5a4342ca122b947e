"""The records of all peers: ``length`` bytes; the first eight are the record's position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

BLOCK_BYTES = 1 << 24


def records(count: int, length: int, seed: int = 0) -> Iterator[bytes]:
    """Yield ``count`` records of ``length`` random bytes (8 or more), generated in blocks."""
    if length < 8:
        raise ValueError(f"a record holds its position in 8 bytes, so length must be 8 or more, not {length}")
    generator = np.random.default_rng(seed)
    per_block = max(1, BLOCK_BYTES // length)
    for start in range(0, count, per_block):
        block = generator.integers(0, 256, (min(per_block, count - start), length), dtype=np.uint8)
        block[:, :8] = np.arange(start, start + len(block), dtype="<u8").view(np.uint8).reshape(-1, 8)
        for row in block:
            yield row.tobytes()


def check(batch: Sequence[bytes] | np.ndarray, indices: np.ndarray) -> None:
    """Raise unless ``batch`` holds the records at ``indices``, in that order."""
    positions = [int.from_bytes(bytes(record[:8]), "little") for record in batch]
    if positions != indices.tolist():
        raise ValueError(f"asked for records {indices[:4]}…, and got {positions[:4]}…")
