"""Several datasets as one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Never

import numpy as np

from bushel._dataset.read.reader import Reader
from bushel._dataset.read.selection import joined
from bushel._dataset.read.shard_fields import only
from bushel._runtime.public import public
from bushel.errors import UnsupportedError

from .dataset import Dataset


@public()
def concat(datasets: Iterable[Dataset], *others: Never) -> Dataset:
    """Concatenate datasets. Their containers and specs may differ.

    A sample without a key gets its position in the new dataset as key. If several samples have the
    same key, looking it up returns the first. `labels` has the class names of all; `bushel.merge`
    also joins datasets that number the classes differently.

    Args:
        datasets: The datasets, in a list.
        others: Nothing: `concat(a, b)` is refused with the call that works.

    Raises:
        ValueError: `datasets` is empty.
        TypeError: `datasets` is not a list of datasets.
        FormatError: A field is a sequence in one dataset and plain in another.
        SpecError: Two datasets give different names to the same class number of a field.

    Examples:
        >>> both = bushel.concat([ds[:2], ds[8:]])
        >>> len(both), both.keys[2]
        (6, 'dog/2')
    """
    if others or isinstance(datasets, Dataset):
        raise TypeError("concat takes one list of datasets: write bushel.concat([a, b])")
    whole = one_after_another(datasets)
    whole.labels  # noqa: B018 - raises if they differ
    return whole


def one_after_another(datasets: Iterable[Dataset]) -> Dataset:
    """Concatenate as `concat` does, without comparing names of classes. `labels` of the result may raise."""
    datasets = list(datasets)
    if not datasets:
        raise ValueError("concat needs at least one dataset")
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "concat takes a list of datasets, not of "
                f"{type(dataset).__name__}: open paths with bushel.open"
            )
    names = list(dict.fromkeys(name for dataset in datasets for name in dataset.spec))
    if any(dataset.reader.windows is not None for dataset in datasets):
        whole = _all_windows(datasets)
    else:
        whole = Dataset((), reader=_reader_of_all(datasets))
    if all(dataset._is_whole for dataset in datasets):
        return whole._view(names=names)
    wholes = (dataset.reader.whole for dataset in datasets)
    sizes = (len(some) if isinstance(some, range) else some.total for some in wholes)
    positions = [
        dataset.selection.every + start
        for dataset, start in zip(datasets, itertools.accumulate(sizes, initial=0), strict=False)
    ]
    return whole._view(np.concatenate(positions), names)


def _reader_of_all(datasets: Sequence[Dataset]) -> Reader:
    """Return a reader of all samples of datasets, also of those that views leave out."""
    shards = [only(shard, dataset.spec) for dataset in datasets for shard in dataset.reader.counted]
    verify = max((dataset.reader.verify for dataset in datasets), key=(False, None, True).index)
    incomplete = next(filter(None, (dataset.reader.incomplete for dataset in datasets)), None)
    if any(dataset.reader.sides for dataset in datasets):
        from bushel._dataset.read.joined import joined_in_turn

        readers = [(dataset.reader, dataset.spec) for dataset in datasets]
        reader: Reader = joined_in_turn(shards, readers, verify=verify, incomplete=incomplete)
    else:
        reader = Reader(shards, verify=verify, incomplete=incomplete)
    remaining = joined([dataset.reader.whole for dataset in datasets])
    reader.remaining = None if isinstance(remaining, range) else remaining
    return reader


def _all_windows(views: Sequence[Dataset]) -> Dataset:
    """Return a view of all windows of some views.

    Raises:
        UnsupportedError: One of them has other windows, or none.
    """
    from bushel._dataset.read.window_reader import WindowReader
    from bushel._dataset.read.windows import Windows

    from .make_windows import view_of

    readers = [view.reader for view in views if isinstance(view.reader, WindowReader)]
    shapes = {reader.windows.shape.described() for reader in readers}
    if len(readers) < len(views) or len(shapes) > 1:
        raise UnsupportedError(
            "windows are only joined with windows that are made in the same way: call windows() "
            "with the same arguments on each dataset, or on the result of bushel.concat"
        )
    bases = [Dataset((), reader=reader.base, selection=reader.selection) for reader in readers]
    return view_of(one_after_another(bases), Windows.joined(reader.windows for reader in readers))
