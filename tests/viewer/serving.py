"""The pages of a viewer of small datasets, and a client of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

SPEC = {
    "image": "png",
    "frames": "jpg[]",
    "vector": "array",
    "caption": "utf8",
    "meta": "json",
    "label": "int",
    "raw": "bytes",
    "words": "utf8[]",
}
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def sample(number: int) -> dict[str, Any]:
    """Return the values of a sample."""
    y, x = np.mgrid[:24, :36]
    return {
        "image": np.stack([x * 7, y * 10, np.full_like(x, number)], axis=-1).astype(np.uint8),
        "frames": [np.full((16, 24, 3), 20 * frame, np.uint8) for frame in range(number % 4)],
        "vector": np.arange(number + 2, dtype=np.float32),
        "caption": f"number {number}: <b>bold</b>",
        "meta": {"n": number, "list": [1, None, True]},
        "label": number % 3,
        "raw": SVG if number % 2 else bytes(range(256)) * 40,
        "words": ["one", str(number)],
    }


def write(path: Path, samples: int = 12, container: str = "bag") -> Path:
    """Write a dataset with a value of every kind."""
    with bushel.Writer(path, SPEC, container=container) as writer:
        for number in range(samples):
            writer.append(sample(number), key=f"set/{number:03d}")
    return path


@contextmanager
def client_of(*sources: Any, **options: Any) -> Iterator[Any]:
    """Yield a client of the pages of these datasets, without the guard."""
    pytest.importorskip("httpx")
    pytest.importorskip("jinja2")
    testclient = pytest.importorskip("starlette.testclient")
    from bushel.viewer.named import make_shelf
    from bushel.viewer.serve import make_pages

    with testclient.TestClient(make_pages(make_shelf(sources, **options)), base_url="http://127.0.0.1:8000") as client:
        yield client


def damage(path: Path, offset: int, data: bytes, position: int = 3) -> None:
    """Overwrite stored bytes of the image of a sample, whose file keeps its time of modification."""
    with bushel.open(path) as found:
        file, start = found.location(position, "image")
    stat = os.stat(file)
    with open(file, "r+b") as stream:
        stream.seek(start + offset)
        stream.write(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
