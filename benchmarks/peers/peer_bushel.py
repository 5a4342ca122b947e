"""Bushel's batched `read` of stored bytes. The last part of the path names the container: `…/tar`, `…/bag`.

`peer_bushel_gather` and `peer_bushel_verify` read the same datasets, in one buffer and with checksums compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.views.dataset import Dataset
from bushel._writer.writer import Writer
from bushel.containers import writable_containers

writable_containers()  # imported on first use; here, with everything else that is imported before a clock starts

GULP_FIELD = "frames"  # a gulp holds frames and nothing else; they need not be JPEG for as long as nobody decodes them


def write(path: str, records: Iterable[bytes]) -> None:
    """Write a dataset with one field to the folder ``path``; one in a folder called ``keyed`` has keys."""
    container, keyed = Path(path).name, Path(path).parent.name == "keyed"
    name, kind = (GULP_FIELD, "jpg") if container == "gulp" else ("data", "bytes")
    with Writer(path, {name: kind}, container=container) as writer:
        for number, record in enumerate(records):
            writer.append({name: record}, key=f"sample-{number:09d}" if keyed else None)


def open(path: str, *, verify: bool = False) -> Dataset:
    """Open the dataset at ``path``."""
    return open_dataset(path, verify=verify)


def read_batch(handle: Dataset, indices: np.ndarray) -> Samples:
    """Return the samples at ``indices``."""
    return Samples(handle.read(indices, decode=False))


class Samples:
    """Samples of `Dataset.read`, indexed by position, with their only field."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[bytes]:
        return (sample.get("data") or sample[GULP_FIELD] for sample in self.samples)
