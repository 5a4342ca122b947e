"""What iterators give: batches, and descriptions of their arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bushel.compat.mxnet.ndarray import NDArray

__all__ = ["DataBatch", "DataDesc", "DataIter"]


class DataDesc(NamedTuple):
    """Name and shape of an array of a batch."""

    name: str
    shape: tuple[int, ...]


class DataBatch:
    """A batch.

    Attributes:
        data: Images: one array, NCHW.
        label: Labels: one array.
        pad: Samples at the end that only fill the batch.
        index: Ids of the samples, or None.
    """

    def __init__(self, data: list[NDArray], label: Sequence[NDArray] = (), pad: int = 0, index: Any = None) -> None:
        self.data, self.label, self.pad, self.index = data, label, pad, index

    def __str__(self) -> str:
        shapes, labels = [one.shape for one in self.data], [one.shape for one in self.label]
        return f"DataBatch: data shapes: {shapes} label shapes: {labels}"


class DataIter:
    """Base class of iterators: `next` gives a batch or raises StopIteration; `reset` begins anew."""

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[DataBatch]:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def next(self) -> DataBatch:
        """The next batch.

        Raises:
            StopIteration: There is none until `reset`.
        """
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""
