"""Several datasets as one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from bushel.core.dataset.dataset import Dataset

__all__ = ["concat"]


def concat(datasets: Iterable[Dataset]) -> Dataset:
    """One dataset of several, one after another; their containers and specs may differ.

    A sample without a key of its own gets its position in the new dataset as key. Where several samples have the same
    key, looking it up gives the first.

    Raises:
        ValueError: There is nothing to join.
        FormatError: A field is a sequence in one of them and plain in another.
    """
    datasets = list(datasets)
    if not datasets:
        raise ValueError("concat needs at least one dataset")
    shards = [shard.only(dataset.spec) for dataset in datasets for shard in dataset.shards]
    whole = Dataset(shards, verify=any(dataset._reader.verify for dataset in datasets))
    sizes = [int(dataset._reader.starts[-1]) for dataset in datasets]
    names = list(dict.fromkeys(name for dataset in datasets for name in dataset.spec))
    if all(
        isinstance(d._positions, range) and d._positions == range(size) for d, size in zip(datasets, sizes, strict=True)
    ):
        return whole._view(names=names)
    starts = itertools.accumulate(sizes, initial=0)
    positions = [
        dataset._absolute(np.arange(len(dataset), dtype=np.int64)) + start
        for dataset, start in zip(datasets, starts, strict=False)
    ]
    return whole._view(np.concatenate(positions), names)
