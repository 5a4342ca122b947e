"""Damaged datasets for the pages that show commands which find damage."""

from __future__ import annotations

import os
from pathlib import Path


def flip_a_bit(path: Path, offset: int) -> None:
    """Damage a file as a failing disk does: its size and its time stay."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
