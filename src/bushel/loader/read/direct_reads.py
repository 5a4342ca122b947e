"""Direct reads (`O_DIRECT`) for epochs of several times the bytes that fit into memory.

Reading such an epoch through the page cache adds pages that are evicted before the next epoch needs them, and evicting
takes more time than reading. An epoch that fits, or nearly does, is read through the page cache.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import direct, reader_and_selection
from bushel._runtime.system import memory_limit
from bushel.errors import BushelError
from bushel.kernels import MappedFile

DatasetT = TypeVar("DatasetT")

_TIMES_MEMORY = 3
"""An epoch in random order finds 6 % of its bytes in a page cache that holds a third of them."""

_LOOKED_AT = 256


def read_directly(dataset: DatasetT, fields: Any, *, decode: bool) -> DatasetT:
    """Return a view that reads local files directly, if an epoch has too many bytes and their file system offers it.

    Args:
        dataset: The dataset of a loader.
        fields: The fields that it reads.
        decode: Whether they are decoded.
    """
    if not isinstance(dataset, Dataset) or dataset.remote or not len(dataset):
        return dataset
    enough = _TIMES_MEMORY * memory_limit()
    large = dataset.size > enough and _can_read_more(dataset, enough, fields, decode=decode)
    return direct(dataset) if large else dataset


def _can_read_more(dataset: Dataset, enough: int, fields: Any, *, decode: bool) -> bool:
    """Return whether all samples have more bytes together, and the file of the first can be read directly.

    Samples at equal distances stand for all.
    """
    samples = len(dataset)
    places = np.linspace(0, samples, min(samples, _LOOKED_AT), endpoint=False).astype(np.int64)
    reader, selection = reader_and_selection(dataset)
    positions = selection.absolute(places)
    with suppress(BushelError, OSError, KeyError):  # raised again, with the sample, when a batch is read
        asked = reader.asked(positions, selection.wanted(fields))
        groups = reader.readable(positions, asked)
        rest = reader.unknown(groups, asked) if decode else asked
        plan = reader.plan(groups, len(positions), rest, parts=decode)
        found = sum(int(np.maximum(batch.extents.length, 0).sum()) for batch in plan.batches)
        if found * samples // len(places) > enough:
            first = reader.file(*plan.batches[0].files[0])
            return isinstance(first, MappedFile) and first.direct() is not None
    return False
