"""Parts of a dataset that other rooms need beyond its public names: its reader, and positions in the whole dataset."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bushel._dataset.columns import part_of
from bushel._dataset.reader import Reader
from bushel._dataset.samples import Samples
from bushel._index.columns import Part

__all__ = ["column_of_view", "is_whole", "reader_of", "whole_position", "whole_positions"]


def reader_of(dataset: Samples) -> Reader:
    """Return the reader that a dataset and all of its views share. Its positions are those in the whole dataset."""
    return dataset._reader


def whole_positions(dataset: Samples, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the positions in the whole dataset of samples of a view.

    Args:
        dataset: A dataset or a view.
        positions: int64[n], positions in it, each at least 0 and below its length.

    Returns:
        int64[n].
    """
    return dataset._selection.absolute(positions)


def whole_position(dataset: Samples, position: int) -> int:
    """Return the position in the whole dataset of a sample of a view. A negative one counts from the end.

    Raises:
        IndexError: The position is out of range.
    """
    return dataset._selection.at(position)


def is_whole(dataset: Samples) -> bool:
    """Return whether this is not a view of some samples, or of the samples in another order."""
    return dataset._selection.is_whole(int(dataset._reader.starts[-1]))


def column_of_view(dataset: Samples, name: str) -> Part:
    """Return values and missing ones of a column, for the samples of a view.

    Raises:
        KeyError: There is no such column; the message says which is meant, or which command makes it.
        FormatError: An index is damaged.
    """
    return part_of(dataset._reader, dataset._selection.positions, name)
