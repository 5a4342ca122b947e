"""Several datasets as one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from bushel.core.dataset.dataset import Dataset

__all__ = ["concat", "one_after_another"]


def concat(datasets: Iterable[Dataset]) -> Dataset:
    """Return several datasets as one, one after another. Their containers and specs may differ.

    A sample without a key gets its position in the new dataset as key. If several samples have the same key, looking it
    up returns the first. `labels` has the class names of all; `bushel.ingest.merge` also joins datasets that number the
    classes differently.

    Raises:
        ValueError: `datasets` is empty.
        FormatError: A field is a sequence in one dataset and plain in another.
        SpecError: Two datasets give different names to the same class number of a field.

    Examples:
        >>> both = bushel.concat([ds[:2], ds[8:]])
        >>> len(both), both.keys[2]
        (6, 'dog/2')
    """
    whole = one_after_another(datasets)
    whole.labels  # noqa: B018 - raises if they differ
    return whole


def one_after_another(datasets: Iterable[Dataset]) -> Dataset:
    """Do what `concat` does, whatever the names of classes are. `labels` of the result may raise."""
    datasets = list(datasets)
    if not datasets:
        raise ValueError("concat needs at least one dataset")
    shards = [shard.only(dataset.spec) for dataset in datasets for shard in dataset.shards]
    whole = Dataset(shards, verify=max((each._reader.verify for each in datasets), key=(False, None, True).index))
    whole._reader.incomplete = next(filter(None, (dataset._reader.incomplete for dataset in datasets)), None)
    names = list(dict.fromkeys(name for dataset in datasets for name in dataset.spec))
    sizes = [int(dataset._reader.starts[-1]) for dataset in datasets]
    if all(dataset._whole for dataset in datasets):
        return whole._view(names=names)
    positions = [
        dataset._absolute(np.arange(len(dataset), dtype=np.int64)) + start
        for dataset, start in zip(datasets, itertools.accumulate(sizes, initial=0), strict=False)
    ]
    return whole._view(np.concatenate(positions), names)
