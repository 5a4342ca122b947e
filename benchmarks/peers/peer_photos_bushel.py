"""Bushel's Loader, with fused decoding of crops, or with the libraries of the other loaders as a transform."""

from __future__ import annotations

import os
import site
from collections.abc import Iterator
from typing import Any

import crop

if "SITE_WITH_BUSHEL" in os.environ:  # in an environment that has those libraries, and Bushel elsewhere
    site.addsitedir(os.environ["SITE_WITH_BUSHEL"])

import bushel
from bushel.loader import Loader
from bushel.transforms import EachFrame, RandomHorizontalFlip, RandomResizedCrop

_loaders: dict[str, Any] = {}


def prepare(path: str, variant: str) -> None:
    """Make the Loader, which serves all epochs, as in a training run."""
    dataset = bushel.open(path)
    own: list[Any] = [RandomResizedCrop(crop.SIDE), RandomHorizontalFlip()]
    options: dict[str, Any] = {"transforms": {"image": own}}
    size = crop.BATCH
    if variant == "libraries":
        options = {"transforms": {"image": [crop.with_cv2]}, "decode": False}
    elif variant == "process":
        options["processes"] = 1
    elif variant == "clips":
        options = {"transforms": {"frames": [EachFrame(own)]}, "collate": {"frames": "stack"}}
        size //= len(dataset.available(0)["frames"])
    _loaders[path] = Loader(dataset, size, shuffle=True, **options)


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches of the next epoch."""
    for batch in _loaders[path]:
        if variant == "clips":
            yield batch["frames"].reshape(-1, *batch["frames"].shape[2:])
        else:
            yield batch["image"]
