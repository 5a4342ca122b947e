"""Photos for tests of folders."""

from __future__ import annotations

import hashlib

import numpy as np

from bushel.codecs import get_codec


def stored(name: str) -> bytes:
    """Return another file for each name; its contents only matter to those who decode it."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    kind = "png" if name.endswith("png") else "jpg"
    return bytes(get_codec(kind).encode(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)))
