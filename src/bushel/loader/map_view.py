"""`MapView`: a map-style view of a dataset, for `torch.utils.data.DataLoader` and other users of positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bushel._dataset.read.selection import Selection
from bushel._runtime.arrays import I64, check_count
from bushel._runtime.order import Sequential
from bushel._runtime.public import public
from bushel._runtime.threads import Clock
from bushel.codecs.image import ImageReading
from bushel.loader.decode.sample_transforms import SampleTransforms
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.loadable import source_of
from bushel.loader.read.random_window import RandomWindows
from bushel.loader.run.pipeline import Pipeline
from bushel.loader.run.processes import SharedCounts
from bushel.loader.values.bad_samples import Failure, raise_first
from bushel.loader.values.collate import Sample, collate

from .options import MapOptions, check_dataset, check_fields

_MOST_EPOCHS = (1 << 63) - 2


@public("bushel.loader", {"view.epoch = n": "set_epoch"})
class MapView(MapOptions):
    """Decoded and transformed samples by position.

    A torch `DataLoader` reads each batch at once (`__getitems__`); with
    `collate_fn=bushel.loader.collate` its batches are like the batches of a `Loader`. The
    DataLoader then does the ordering, workers, ranks and resuming. A `Loader` does not need a
    `MapView`.

    Args:
        dataset: The dataset to read.
        transforms: As for `Loader`.
        sample_transform: As for `Loader`.
        fields: As for `Loader`.
        seed: Seed of random transforms and windows. Their numbers depend on (seed, epoch, sample),
            as a `Loader`'s do.
        reducing_gap: As for `Loader`.
        exif_rotate: As for `Loader`.
        allow_truncated: As for `Loader`.

    Attributes:
        epoch: Number of the epoch, for random transforms. None (at first) counts, for each sample,
            how often it was read by this process and the DataLoader workers that it started, so
            that every epoch of a DataLoader has other augmentations. A number holds for all reads
            from then on, also in workers that run already.

    Examples:
        >>> from bushel.loader import MapView
        >>> from bushel.transforms import CenterCrop
        >>> view = MapView(ds, transforms=[CenterCrop(32)])
        >>> len(view), view[0]["image"].shape
        (12, (32, 32, 3))
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_dataset(self.dataset)
        reading, spec = ImageReading(self.exif_rotate, self.allow_truncated), self.dataset.spec
        planned = SampleTransforms.of(
            self.transforms,
            spec,
            reducing_gap=self.reducing_gap,
            reading=reading,
            sample=self.sample_transform,
        )
        check_fields(self.fields, spec, planned)
        seed = check_count("seed", self.seed, most=(1 << 64) - 1)
        fields, windows = self.fields, None
        if isinstance(fields, Mapping):
            fields, windows = RandomWindows.of(self.dataset, fields, seed)
        order = Sequential(len(self.dataset), seed)
        self._pipeline = Pipeline(
            source_of(self.dataset), order, fields, transforms=planned, windows=windows
        )
        self._random = planned.random or windows is not None
        self._epoch = SharedCounts("int64", 1)
        self._reads = SharedCounts("uint16", len(self.dataset) if self._random else 0)

    @property
    def epoch(self) -> int | None:
        """Number of the epoch, for random transforms; None to count how often each sample is read."""
        epoch = int(self._epoch.numbers[0])
        if epoch:
            return epoch - 1
        return None

    @epoch.setter
    def epoch(self, epoch: int | None) -> None:
        if epoch is None:
            self._epoch.numbers[0] = 0
        else:
            self._epoch.numbers[0] = check_count("epoch", epoch, most=_MOST_EPOCHS) + 1

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"<bushel.loader.MapView of {self.dataset!r}, epoch {self.epoch}>"

    def __getitem__(self, position: int) -> Sample:
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int] | I64) -> list[Sample]:
        """Return the samples at positions, in one read. Negative positions count from the end.

        Raises:
            IndexError: A position is out of range.
        """
        numbers = Selection(range(len(self)), {}).all_of(positions)
        epochs = self._epochs_of(numbers)
        samples: dict[int, Sample] = {}
        for epoch in np.unique(epochs).tolist():
            places = np.flatnonzero(epochs == epoch)
            samples |= zip(places.tolist(), self._samples(epoch, numbers[places]), strict=True)
        return [samples[place] for place in range(len(numbers))]

    def batch(self, positions: Sequence[int] | I64) -> dict[str, Any]:
        """Return the samples at positions as one batch, which costs less than to read and stack single samples.

        Raises:
            IndexError: A position is out of range.

        Examples:
            >>> from bushel.loader import MapView
            >>> MapView(ds, fields=["image"]).batch([3, 1])["image"].shape
            (2, 48, 64, 3)
        """
        return collate(self.__getitems__(positions))

    def _epochs_of(self, numbers: I64) -> I64:
        """Return the epoch of each sample, and count the reads."""
        epoch = self.epoch
        if epoch is not None or not self._random:
            return np.full(len(numbers), epoch or 0, np.int64)
        reads = self._reads.numbers
        epochs = reads[numbers].astype(np.int64)
        np.add.at(reads, numbers, 1)
        return epochs

    def _samples(self, epoch: int, numbers: I64) -> list[Sample]:
        plan, clock = BatchPlan(epoch, numbers, numbers, 0), Clock()
        decoded = self._pipeline.decode_and_transform(self._pipeline.fetch(plan, clock), clock)
        raise_first(decoded)
        return [sample for sample in decoded if not isinstance(sample, Failure)]
