"""torch.utils.data: a loader as an `IterableDataset`, for programs and frameworks that insist on a `DataLoader`.

For samples by position there is `bushel.loader.MapView`, which a `DataLoader` takes as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import check_count
from bushel.errors import StateError, needed_by
from bushel.loader.base import detect_rank
from bushel.loader.loader import Loader
from bushel.loader.run.processes import SharedCounts

with needed_by("bushel.integrations.torch_data", "bushel[torch]"):
    import torch.utils.data

__all__ = ["BatchDataset"]

_MOST_WORKERS = 256


class BatchDataset(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc] # torch is an extra
    """The batches of a `bushel.Loader`, as an `IterableDataset` of whole batches.

        DataLoader(BatchDataset(ds, 256, shuffle=True), batch_size=None, num_workers=0)

    Every iteration is the next epoch, also with workers. `bushel.Loader` reads ahead in threads, so
    a `DataLoader` needs none. With `num_workers=n`, each worker loads every n-th part of this
    rank's samples, and batches come from the workers by turns. `StatefulDataLoader` of torchdata
    saves and restores it without workers.

    Args:
        dataset: The dataset.
        batch_size: Samples of a batch of one rank, or of one worker of the `DataLoader`.
        options: As for `bushel.Loader`; `to` is `torch` by default.

    Examples:
        >>> from torch.utils.data import DataLoader
        >>> from bushel.integrations.torch_data import BatchDataset
        >>> loader = DataLoader(BatchDataset(ds, 4, shuffle=True), batch_size=None)
        >>> [tuple(batch["label"].shape) for batch in loader]
        [(4,), (4,), (4,)]
    """

    def __init__(self, dataset: Dataset, batch_size: int, **options: Any) -> None:
        super().__init__()
        self._place = options.pop("rank", None), options.pop("world_size", None)
        detect_rank(*self._place, may_change=True)
        self._dataset, self._batch_size, self._options = (
            dataset,
            batch_size,
            {"to": "torch", **options},
        )
        self._loader: Loader | None = None
        self._epoch: int | None = None
        self._resumes = False  # whether the next iteration continues from a state
        self._next_epochs = SharedCounts("int64", _MOST_WORKERS * (_MOST_WORKERS + 1) // 2)

    def __getstate__(self) -> dict[str, Any]:
        # a worker that is spawned has no process group
        return {
            **self.__dict__,
            "_loader": None,
            "_place": detect_rank(*self._place, may_change=True),
        }

    def _own(self) -> Loader:
        """Return the loader of this process, which is made when it is first needed."""
        if self._loader is None:
            place: tuple[int | None, int | None] = self._place
            if (worker := torch.utils.data.get_worker_info()) is not None:
                rank, world_size = detect_rank(*place)
                place = rank * worker.num_workers + worker.id, world_size * worker.num_workers
            self._loader = Loader(
                self._dataset, self._batch_size, rank=place[0], world_size=place[1], **self._options
            )
        return self._loader

    def __iter__(self) -> Iterator[Any]:
        loader, worker = self._own(), torch.utils.data.get_worker_info()
        if worker is not None:
            # each worker counts its iterations; other numbers of workers divide the epochs in other
            # ways
            counts = self._next_epochs.numbers
            place = worker.num_workers * (worker.num_workers - 1) // 2 + worker.id
            if not self._resumes:
                loader.epoch = int(counts[place])
            counts[place] = loader.epoch + 1
        elif self._epoch is not None:
            loader.epoch = self._epoch
        self._epoch, self._resumes = None, False
        return iter(loader)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch, also in workers that run already."""
        self._epoch = check_count("epoch", epoch)
        self._next_epochs.numbers[:] = self._epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader."""
        return {"loader": self._own().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            StateError: The state belongs to another dataset or order.
        """
        if not isinstance(state, Mapping) or "loader" not in state:
            raise StateError(f"expected the dict that state_dict() returned, not {state!r:.80}")
        self._own().load_state_dict(state["loader"])
        self._epoch, self._resumes = None, True
