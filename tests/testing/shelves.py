"""Shelves: files of the extension package in `tests/extension_package`."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["PACKAGE", "TEXTS", "write_shelf"]

PACKAGE = Path(__file__).parents[1] / "extension_package"
TEXTS = {"a": "one", "b": "", "ç/d": "déjà vu ☕", "long": "x" * 5000}


def write_shelf(path: Path, texts: Mapping[str, str]) -> Path:
    """Write a `.shelf` file, and return its path."""
    parts = [b"SHELF 1\n"]
    for key, text in texts.items():
        name, value = key.encode(), text.encode()
        parts += [struct.pack("<III", len(name), len(value), zlib.crc32(value)), name, value]
    path.write_bytes(b"".join(parts))
    return path
