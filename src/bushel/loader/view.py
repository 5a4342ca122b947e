"""A map-style view of a dataset, for `torch.utils.data.DataLoader` and whatever else asks for samples by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel.codecs.image import ImageReading
from bushel.core.order import Sequential
from bushel.loader.collate import Sample
from bushel.loader.pipeline import Pipeline, Readable
from bushel.loader.plan import BatchPlan
from bushel.loader.report import Failure, raise_first
from bushel.loader.stats import Clock
from bushel.loader.transforms import SampleTransforms
from bushel.transforms.by_field import Transforms

__all__ = ["MapView"]


class MapView:
    """Decoded and transformed samples by position. Whole batches are read at once where the caller asks for them so.

    A torch `DataLoader` does (`__getitems__`), with `collate_fn=bushel.loader.collate` for batches like a `Loader`'s.
    Order, workers, ranks and resuming are then the DataLoader's; the `Loader` needs none of it.

    Args:
        dataset: What to read from.
        transforms: As for `Loader`.
        fields: As for `Loader`.
        seed: Keys the randomness of transforms.
        reducing_gap: As for `Loader`.
        orient: As for `Loader`.
        tolerant: As for `Loader`.

    Attributes:
        epoch: Keys the randomness of transforms too: set it before every epoch. DataLoader workers that outlive an
            epoch (`persistent_workers`) do not see the change.
    """

    def __init__(
        self,
        dataset: Readable,
        *,
        transforms: Transforms | None = None,
        fields: Any = None,
        seed: int = 0,
        reducing_gap: float | None = 2.0,
        orient: bool = False,
        tolerant: bool = False,
    ) -> None:
        reading = ImageReading(orient, tolerant)
        checked = SampleTransforms.of(transforms, dataset.spec, reducing_gap=reducing_gap, reading=reading)
        self._pipeline = Pipeline(dataset, Sequential(len(dataset), seed), fields, transforms=checked)
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._pipeline.dataset)

    def __getitem__(self, position: int) -> Sample:
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[Sample]:
        """The samples at these positions, negative ones from the end, in one read.

        Raises:
            IndexError: A position is out of range.
        """
        size = len(self)
        numbers = np.array(positions, np.int64).reshape(-1)
        if len(numbers) and not (numbers.min() >= -size and numbers.max() < size):
            raise IndexError(f"positions {numbers.min()} to {numbers.max()} of a dataset of {size} samples")
        numbers = np.where(numbers < 0, numbers + size, numbers)
        plan, clock = BatchPlan(self.epoch, numbers, numbers, 0), Clock()
        stored = self._pipeline.fetch(plan, clock).samples
        prepared = self._pipeline.prepare(self.epoch, numbers, stored, clock)
        raise_first(prepared)
        return [sample for sample in prepared if not isinstance(sample, Failure)]
