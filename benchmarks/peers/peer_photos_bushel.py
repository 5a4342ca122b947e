"""Bushel's Loader, with fused decoding of crops, or with the libraries of the other loaders as a transform."""

from __future__ import annotations

import os
import site
from collections.abc import Iterator
from typing import Any

import crop

if "BUSHEL_SITE" in os.environ:  # in an environment that has those libraries, and Bushel elsewhere
    site.addsitedir(os.environ["BUSHEL_SITE"])

import bushel
from bushel.loader import Loader
from bushel.transforms import EachFrame, RandomHorizontalFlip, RandomResizedCrop

_opened: dict[str, Any] = {}


def prepare(path: str, variant: str) -> None:
    """Open the dataset."""
    _opened[path] = bushel.open(path)


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches."""
    own: list[Any] = [RandomResizedCrop(crop.SIDE), RandomHorizontalFlip()]
    options: dict[str, Any] = {"transforms": {"image": own}}
    if variant == "libraries":
        options = {"transforms": {"image": [crop.with_cv2]}, "decode": False}
    elif variant == "process":
        options["processes"] = 1
    elif variant == "clips":
        options = {"transforms": {"frames": [EachFrame(own)]}, "collate": {"frames": "stack"}}
        size = crop.BATCH // len(_opened[path].available(0)["frames"])
        for batch in Loader(_opened[path], size, shuffle=True, seed=seed, **options):
            yield batch["frames"].reshape(-1, *batch["frames"].shape[2:])
        return
    for batch in Loader(_opened[path], crop.BATCH, shuffle=True, seed=seed, **options):
        yield batch["image"]
