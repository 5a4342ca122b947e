"""The named datasets of a mixture: their names in samples, and their transforms."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct
from bushel.loader.decode.sample_transforms import SampleTransforms

if TYPE_CHECKING:
    from bushel.loader.order.mixture import Mixture

SOURCE = "__source__"
"""The name of the dataset in each sample of a mixture."""


class Sources(Struct, frozen=True, eq=False):
    """The named datasets of a mixture.

    Attributes:
        names: Their names.
        starts: int64[datasets], the number of samples of the mixture's dataset before each.
        transforms: The transforms of each; empty if all have the transforms of the loader.
    """

    names: tuple[str, ...]
    starts: I64
    transforms: tuple[SampleTransforms, ...] = ()

    @classmethod
    def of(cls, mixture: Mixture, made: SampleTransforms, make: Any) -> Sources | None:
        """Return the datasets of a mixture; None if they have no names."""
        if not mixture.sources:
            return None
        own = [made if one.transforms is None else make(one.transforms) for one in mixture.sources]
        starts = np.array([one.start for one in mixture.sources], np.int64)
        names = tuple(one.name for one in mixture.sources)
        return cls(names, starts, () if all(one is made for one in own) else tuple(own))

    def without_transforms(self) -> Sources:
        """Return the datasets without transforms."""
        return replace(self, transforms=())

    def numbers(self, samples: I64) -> I64:
        """Return the number of the dataset of each sample."""
        return np.searchsorted(self.starts, samples, side="right") - 1

    def names_of(self, samples: I64) -> list[str]:
        """Return the name of the dataset of each sample."""
        return [self.names[number] for number in self.numbers(samples).tolist()]

    def name(self, decoded: MutableSequence[Any], samples: I64) -> None:
        """Write the name of its dataset into each sample."""
        for sample, name in zip(decoded, self.names_of(samples), strict=True):
            if isinstance(sample, dict):
                sample[SOURCE] = name

    def runs(self, samples: I64) -> Iterator[tuple[int, int, int]]:
        """Yield runs of samples of one dataset: its number, the place of the first of them, and that after the last."""
        numbers = self.numbers(samples)
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        start = 0
        for end in ends if len(numbers) else ():
            yield int(numbers[start]), start, end
            start = end

    def all_transforms(self, made: SampleTransforms) -> SampleTransforms:
        """Return a value that has the fields of all transforms, for questions about batches of all datasets."""
        if not self.transforms:
            return made
        fields = tuple(field for own in (made, *self.transforms) for field in own.fields)
        sample = next((own.sample for own in self.transforms if own.sample is not None), made.sample)
        return replace(made, fields=fields, sample=sample)
