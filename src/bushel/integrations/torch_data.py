"""torch.utils.data: a loader as an `IterableDataset`, for programs and frameworks that insist on a `DataLoader`.

For samples by position there is `bushel.loader.MapView`, which a `DataLoader` takes as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bushel._dataset.views.dataset import Dataset
from bushel.errors import StateError, needed_by
from bushel.loader.loader import Loader
from bushel.loader.ranks import detect_rank

with needed_by("bushel.integrations.torch_data", "bushel[torch]"):
    import torch.utils.data

__all__ = ["BatchDataset"]


class BatchDataset(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc] # torch is an extra
    """The batches of a `bushel.Loader`, as an `IterableDataset` of whole batches.

        DataLoader(BatchDataset(ds, 256, shuffle=True), batch_size=None, num_workers=0)

    Every iteration is the next epoch. `bushel.Loader` reads ahead in threads, so a `DataLoader` needs no workers. With
    `num_workers=n`, each worker loads every n-th part of this rank's samples, batches come from the workers by turns,
    and `set_epoch` sets the epoch, as with a `DistributedSampler`. `StatefulDataLoader` of torchdata saves and
    restores it without workers.

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
        rank, world_size = detect_rank(options.pop("rank", None), options.pop("world_size", None))
        self._dataset, self._batch_size, self._options = dataset, batch_size, {"to": "torch", **options}
        self._place = rank, world_size
        self._loader: Loader | None = None
        self._epoch: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}

    def _own(self) -> Loader:
        """Return the loader of this process, which is made when it is first needed."""
        if self._loader is None:
            rank, world_size = self._place
            if (worker := torch.utils.data.get_worker_info()) is not None:
                rank, world_size = rank * worker.num_workers + worker.id, world_size * worker.num_workers
            self._loader = Loader(self._dataset, self._batch_size, rank=rank, world_size=world_size, **self._options)
        return self._loader

    def __iter__(self) -> Iterator[Any]:
        loader = self._own()
        if self._epoch is not None:
            loader.load_state_dict({**loader.state_dict(), "epoch": self._epoch, "samples": 0})
            self._epoch = None
        return iter(loader)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch. A `DataLoader` that starts new workers for each epoch needs it."""
        self._epoch = epoch

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
        self._epoch = None
