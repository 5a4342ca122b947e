"""A dataset for tests, and datasets with another length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from . import utils
from .pytorch import IterableDataset
from .utils import PipelineStage


class MockDataset(IterableDataset):
    """The same sample, `length` times."""

    def __init__(self, sample: Any, length: int) -> None:
        self.sample, self.length = sample, length

    def __iter__(self) -> Iterator[Any]:
        return (self.sample for _ in range(self.length))


class repeatedly(IterableDataset, PipelineStage):
    """A dataset repeated for up to `nepochs` epochs or `nbatches` batches."""

    def __init__(
        self,
        source: Iterable[Any],
        nepochs: int | None = None,
        nbatches: int | None = None,
        length: int | None = None,
    ) -> None:
        self.source, self.nepochs, self.nbatches, self.length = source, nepochs, nbatches, length

    def invoke(self, source: Iterable[Any]) -> Iterator[Any]:
        """Repeat another source, as a stage."""
        return utils.repeatedly(source, nepochs=self.nepochs, nbatches=self.nbatches)

    def __iter__(self) -> Iterator[Any]:
        return self.invoke(self.source)


class with_epoch(IterableDataset):
    """A dataset in epochs of `length` samples; each epoch continues where the one before ended."""

    def __init__(self, dataset: Iterable[Any], length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length
        self.source: Iterator[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    def invoke(self, dataset: Iterable[Any]) -> Iterator[Any]:
        """Yield an epoch of another source, as a stage."""
        for _ in range(self.length):
            fresh = self.source is None
            self.source = iter(dataset) if self.source is None else self.source
            try:
                sample = next(self.source)
            except StopIteration:
                self.source = iter(dataset)
                sample = next(self.source, _END)
                if fresh or sample is _END:
                    return
            yield sample

    def __iter__(self) -> Iterator[Any]:
        return self.invoke(self.dataset)


_END = object()


class with_length(IterableDataset, PipelineStage):
    """A dataset whose `len` is `length`; its samples stay the same."""

    def __init__(self, dataset: Iterable[Any], length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length

    def invoke(self, dataset: Iterable[Any]) -> Iterator[Any]:
        """Iterate over another source, as a stage."""
        return iter(dataset)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)

    def __len__(self) -> int:
        return self.length
