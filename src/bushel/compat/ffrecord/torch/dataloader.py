"""PyTorch's loader, for datasets of batches, that can begin in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset

from bushel.compat.ffrecord.torch.dataset import Dataset

__all__ = ["DataLoader"]


class DataLoader(TorchDataLoader[Any]):  # type: ignore[misc, unused-ignore]  # without PyTorch
    """PyTorch's `DataLoader`, with `set_step`, whose workers are forked.

    It takes datasets of this module and any other; of the former a batch is one read.

    Args:
        dataset: As for PyTorch.
        batch_size: As for PyTorch.
        shuffle: As for PyTorch.
        sampler: As for PyTorch.
        batch_sampler: As for PyTorch.
        num_workers: As for PyTorch.
        collate_fn: As for PyTorch.
        pin_memory: As for PyTorch.
        drop_last: As for PyTorch.
        timeout: As for PyTorch.
        worker_init_fn: As for PyTorch.
        generator: As for PyTorch. To resume an epoch with `shuffle`, seed it as it was seeded for that epoch.
        prefetch_factor: As for PyTorch; without workers it does nothing.
        persistent_workers: As for PyTorch.
        skippable: Whether `set_step` can be called.
        options: What else PyTorch takes.
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
        """Leave out the first batches of every epoch from now on; none of their samples is read.

        The loader is shorter by so many. Reset it with 0 before the next epoch.

        Args:
            step: Number of batches.

        Raises:
            ValueError: There are not more batches than that.
            RuntimeError: The loader is not skippable, or the dataset is an `IterableDataset`.
        """
        if not self._skippable:
            raise RuntimeError("this loader cannot skip steps: it needs skippable=True and a dataset with indices")
        batches = len(super()._index_sampler)
        if not 0 <= step < max(batches, 1):
            raise ValueError(f"step {step} of {batches} batches: give 0 to {max(batches, 1) - 1}")
        self._step = step

    @property
    def _index_sampler(self) -> Any:
        """PyTorch takes the numbers of each batch from here, and its length."""
        sampler = super()._index_sampler
        return _From(self, sampler) if self._indexed else sampler


class _From:
    """What a sampler yields behind the step that its loader is set to."""

    def __init__(self, loader: DataLoader, sampler: Any) -> None:
        self._loader, self._sampler = loader, sampler
        self._single = (
            loader.batch_size is None and loader.batch_sampler is None and isinstance(loader.dataset, Dataset)
        )

    def __len__(self) -> int:
        return len(self._sampler) - self._loader._step

    def __iter__(self) -> Iterator[Any]:
        left = islice(iter(self._sampler), self._loader._step, None)
        return ([index] for index in left) if self._single else left
