"""Small datasets in every container, and damage to order."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

import bushel

SPEC = {"image": "jpg", "label": "int"}
"""A spec that every container can hold."""


def jpeg(number: int, size: int = 24) -> bytes:
    """A JPEG that depends on the number."""
    pixels = np.random.default_rng(number).integers(0, 256, (size, size + number % 5, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=80)
    return file.getvalue()


def sample(number: int) -> dict[str, Any]:
    """A sample of `SPEC`."""
    return {"image": jpeg(number), "label": number * 37 % 300}


def key(number: int) -> str:
    """Its key."""
    return f"class {number % 2}/{number:03d}"


def write(
    folder: Path,
    container: str,
    generation: Literal["B", "C"] | None = None,
    count: int = 7,
    shard_samples: int | None = 3,
) -> Path:
    """A dataset of `SPEC` with keys and checksums, in several shards."""
    with bushel.Writer(
        folder, SPEC, container=container, generation=generation, shard_samples=shard_samples, sync=False
    ) as writer:
        for number in range(count):
            writer.append(sample(number), key=key(number))
    return folder


def overwrite(file: Path, offset: int, data: bytes, *, keep_time: bool = True) -> None:
    """Change bytes of a file, as decay does: without a new modification time."""
    stat = file.stat()
    with open(file, "r+b") as handle:
        handle.seek(offset)
        handle.write(data)
    if keep_time:
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def flip(file: Path, offset: int) -> None:
    """Flip one bit, keeping the time."""
    overwrite(file, offset, bytes([file.read_bytes()[offset] ^ 1]))


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file under a folder, with its bytes and its time."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def reading(path: Path, **options: Any) -> bushel.Dataset:
    """An open dataset that is not a stream."""
    return bushel.open(path, **options)
