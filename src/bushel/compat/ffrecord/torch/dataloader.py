"""PyTorch's loader for datasets that are read in batches, which can start in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset

from bushel.compat.errors import WrongUseError

from .dataset import Dataset


class DataLoader(TorchDataLoader[Any]):  # type: ignore[misc, unused-ignore]  # without PyTorch
    """PyTorch's `DataLoader` with forked workers, and `set_step` if `skippable`. Batches of `Dataset` are one read.

    Arguments work as in PyTorch; `prefetch_factor` is ignored without workers. To resume an epoch
    with `shuffle`, seed the generator as it was seeded for that epoch.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = 2,
        persistent_workers: bool = False,
        skippable: bool = True,
        **options: Any,
    ) -> None:
        self._step = 0
        self._indexed = not isinstance(dataset, IterableDataset)
        self._skippable = skippable and self._indexed
        super().__init__(
            dataset=dataset,
            batch_size=batch_size,
            shuffle=shuffle or None,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context="fork" if num_workers else None,
            generator=generator,
            prefetch_factor=prefetch_factor if num_workers else None,
            persistent_workers=persistent_workers,
            **options,
        )

    def set_step(self, step: int) -> None:
        """Skip the first `step` batches of every epoch from now on, without reading them; 0 skips none.

        The length of the loader shrinks by `step`. Reset it to 0 before the next epoch.
        """
        if not self._skippable:
            raise RuntimeError(
                "this loader cannot skip batches: it needs skippable=True and a map-style dataset"
            )
        batches = len(super()._index_sampler)
        if not 0 <= step < max(batches, 1):
            raise WrongUseError(f"step {step} of {batches} batches: use 0 to {max(batches, 1) - 1}")
        self._step = step

    @property
    def _index_sampler(self) -> Any:
        """The sampler from which PyTorch takes the indices of each batch, and its length."""
        sampler = super()._index_sampler
        return _RestOf(self, sampler) if self._indexed else sampler


class _RestOf:
    """A sampler without the batches that its loader skips."""

    def __init__(self, loader: DataLoader, sampler: Any) -> None:
        self._loader, self._sampler = loader, sampler
        self._single = (
            loader.batch_size is None
            and loader.batch_sampler is None
            and isinstance(loader.dataset, Dataset)
        )

    def __len__(self) -> int:
        return len(self._sampler) - self._loader._step

    def __iter__(self) -> Iterator[Any]:
        left = islice(iter(self._sampler), self._loader._step, None)
        return ([index] for index in left) if self._single else left
