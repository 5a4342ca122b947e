"""Small shards, made by Python's own tarfile so that they do not depend on what is tested."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

File = tuple[str, bytes]


def archive(files: Iterable[File], format: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def files_of(path: Path) -> list[File]:
    with tarfile.open(path) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar if member.isreg()]  # type: ignore[union-attr]


def numbered(first: int, last: int) -> list[File]:
    """Samples `s000`, `s001`, … with a class and a text."""
    return [file for i in range(first, last) for file in ((f"s{i:03d}.cls", b"%d" % i), (f"s{i:03d}.txt", b"t%d" % i))]


def write_shards(folder: Path, shards: int = 3, samples: int = 10) -> str:
    """Shards of that many samples, and the pattern that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        first = shard * samples
        (folder / f"x-{shard:04d}.tar").write_bytes(archive(numbered(first, first + samples)))
    return str(folder / f"x-{{0000..{shards - 1:04d}}}.tar")


def jpeg(seed: int, size: tuple[int, int] = (16, 24)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def png(seed: int, size: tuple[int, int] = (16, 24)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()
