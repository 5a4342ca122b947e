"""A dataset to be described: photos with labels, captions, licences and sources."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

import bushel

SPEC = {"image": "jpg", "label": "int", "caption": "utf8", "meta": "json"}


def jpeg(number: int) -> bytes:
    """Return a photo."""
    out = io.BytesIO()
    Image.fromarray(np.full((48, 64, 3), number * 20 % 255, np.uint8)).save(out, "JPEG")
    return out.getvalue()


def write(path: Path, container: str = "tar") -> Path:
    """Write twelve samples in three shards."""
    with bushel.Writer(
        path,
        SPEC,
        container=container,
        shard_samples=5,
        columns=["auto", "meta.license", "meta.url"],
        labels={"label": ["cat", "dog"]},
        sync=False,
    ) as writer:
        for n in range(12):
            meta = {"license": "cc0-1.0" if n % 3 == 0 else "cc-by-4.0", "url": f"https://host{n % 3}.org/{n}"}
            sample = {"image": jpeg(n), "label": n % 2, "caption": f"a | <caption> {n}", "meta": meta}
            writer.append(sample, key=f"{('cat', 'dog')[n % 2]}/{n}")
    return path
