"""The random numbers of samples and of transforms of batches: a function of seed, epoch and sample only.

So they do not depend on the thread, process, batch or rank that transforms a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

from bushel._runtime.arrays import I32, I64, Array
from bushel._runtime.permutation import LIMIT
from bushel.kernels import draw_crops
from bushel.transforms.fused import Program

from .bad_samples import named

if TYPE_CHECKING:
    from bushel.loader.plan.plan import BatchPlan
    from bushel.transforms.values import Call


class _SampleSeed(ISpawnableSeedSequence):
    """The words (seed, epoch, sample). Philox takes the first two as its key.

    `Philox(key=...)` would cost three times as much, since NumPy then also asks the system for
    entropy, and spawned generators would differ from run to run. A `SeedSequence` mixes the words,
    and is made only for those.
    """

    def __init__(self, *words: int) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Array:
        return np.array(self._words[:n_words], dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._sequence.spawn(n_children)

    @cached_property
    def _sequence(self) -> np.random.SeedSequence:
        return np.random.SeedSequence(self._words)


def generator(seed: int, epoch: int, sample: int) -> np.random.Generator:
    """Return the source of random numbers for one sample in one epoch.

    It is Philox (Salmon et al., 2011) with the key (seed, epoch) and the sample's position in the
    upper half of its counter.
    """
    counter = np.array([0, 0, sample, 0], np.uint64)
    # NumPy takes any ISeedSequence, but its annotations name only this one
    words = cast("np.random.SeedSequence", _SampleSeed(seed, epoch, sample))
    return np.random.Generator(np.random.Philox(words, counter=counter))


class SampleDraws:
    """The random numbers of some samples. A kernel draws crops for all of them, and everything else a generator each.

    A generator is made when it is asked for, and goes on after the numbers that the kernel drew.

    Args:
        seed: The seed.
        epoch: Number of the epoch.
        samples: int64[n], the number of each sample.
        random: Whether random numbers are drawn at all. If not, samples have no generators.
    """

    def __init__(self, seed: int, epoch: int, samples: I64, *, random: bool) -> None:
        self._seed, self._epoch, self._random = seed, epoch, random
        self._samples = samples
        self._drawn: I64 | None = None  # numbers that the kernel drew; -1 with a generator
        self._made: dict[int, np.random.Generator] = {}

    def __getitem__(self, at: int) -> np.random.Generator | None:
        """Return the generator of a sample; None if nothing is random."""
        if not self._random:
            return None
        if at not in self._made:
            rng = generator(self._seed, self._epoch, int(self._samples[at]))
            if self._drawn is not None:
                rng.random(int(self._drawn[at]))
                self._drawn[at] = -1
            self._made[at] = rng
        return self._made[at]

    def crops(
        self, places: Sequence[int], datas: Sequence[Any], program: Program, *, exif_rotate: bool
    ) -> tuple[I32, list[int]]:
        """Draw the crops of some samples in a kernel.

        Args:
            places: The places of the samples, ascending.
            datas: The stored images.
            program: The steps of the transforms.
            exif_rotate: Whether images are turned by their Exif orientation before.

        Returns:
            The geometries, and the numbers of the images that are left to the caller, as
            `draw_crops` returns them.
        """
        if self._drawn is None:
            self._drawn = np.zeros(len(self._samples), np.int64)
            self._drawn[list(self._made)] = -1
        samples, drawn = self._samples[places], self._drawn[places]
        rows_and_left = draw_crops(
            datas, program, self._seed, self._epoch, samples, drawn, orient=exif_rotate
        )
        self._drawn[places] = drawn
        return rows_and_left


def transformed(call: Call, batch: Any, seed: int, plan: BatchPlan) -> Any:
    """Return a batch after its `batch_transform`, whose random numbers depend on the first position of the batch.

    Raises:
        TypeError: The transform returned None.
    """
    if call.random:
        batch = call.function(batch, rng=generator(seed, plan.epoch, LIMIT + plan.first))
    else:
        batch = call.function(batch)
    if batch is None:
        raise TypeError(
            f"the batch_transform {named(call.function)} returned None: return the batch"
        )
    return batch
