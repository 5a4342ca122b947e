"""Measure the speed of a loader on a dataset, and of each of its stages alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.stream import StreamDataset
from bushel._runtime.order import Exact
from bushel._runtime.permutation import LIMIT
from bushel._runtime.shuffle import Shuffle
from bushel.loader.decode.micro_batch import stored_bytes
from bushel.loader.loader import Loader
from bushel.loader.run.stats import LoaderStats
from bushel.loader.stream_loader import StreamLoader
from bushel.loader.values.collate import Sample
from bushel.transforms.by_field import Transforms

_ROUNDS = 3
_HELD_BYTES = 1 << 26  # memory for stored samples, which are decoded repeatedly
_MOST_HELD = 1 << 17
_READ = 256
_POSITION = "__position__"
_NEAR = 0.8  # share of the slowest stage's speed from which the loader itself costs little


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of one stage."""

    samples: int  # number of samples that the stage processed
    stored_bytes: int  # their size as stored, in bytes
    seconds: float  # time that it took

    def __add__(self, other: Rate) -> Rate:
        """Return the rate of both measurements together."""
        return Rate(self.samples + other.samples, self.stored_bytes + other.stored_bytes, self.seconds + other.seconds)

    @property
    def samples_per_second(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Stored bytes per second."""
        return self.stored_bytes / self.seconds


@dataclass(frozen=True, slots=True)
class StageBenchmarks:
    """The speeds of the loader and of its stages."""

    storage: Rate  # reading alone
    decode: Rate  # all but reading, with samples in memory: decoding, transforms, collation
    whole: Rate  # the whole loader
    stats: LoaderStats  # statistics of the loader

    @property
    def bound(self) -> str:
        """The slower stage: `storage` or `decode`."""
        return "storage" if self.storage.samples_per_second < self.decode.samples_per_second else "decode"

    @property
    def share(self) -> float:
        """The speed of the loader as a share of the speed of its slowest stage."""
        lowest = min(self.storage.samples_per_second, self.decode.samples_per_second)
        return self.whole.samples_per_second / lowest

    @property
    def advice(self) -> str:
        """One sentence about what limits the loader here and what to change."""
        stats = self.stats
        threads = max(1, stats.threads)
        reaches = f"the loader reaches {min(self.share, 1):.0%} of the speed of {self.bound} alone"
        if self.share < _NEAR:
            work = {"storage": stats.storage, "decode": stats.decode, "transform": stats.transform}
            work["collate"] = stats.collate
            most = max(work, key=lambda stage: work[stage])
            return f"{reaches}, and spends most of its time in {most}: try other numbers of workers"
        if self.bound == "storage":
            return f'storage-bound: {reaches}; read fewer fields, use shuffle="blocks", or store the data nearer'
        cores = f"decode-bound with {min(threads, stats.cpus)} of {stats.cpus} cores busy: {reaches}"
        if threads < stats.cpus:
            return f"{cores}; use more workers"
        return f"{cores}; store smaller images or tile them, or use more cores"


def measure(
    dataset: Dataset | StreamDataset,
    batch_size: int,
    *,
    seconds: float,
    shuffle: Shuffle = True,
    transforms: Transforms | None = None,
    fields: Sequence[str] | None = None,
    workers: int | None = None,
    processes: int = 0,
) -> StageBenchmarks:
    """Measure a dataset.

    The stages are measured in turns, so that a disturbance affects all of them.

    Args:
        dataset: The dataset.
        batch_size: As for `Loader`.
        seconds: Time to measure each stage.
        shuffle: As for `Loader`. Each measurement has another order, so that the samples of the one before are less
            likely to be in memory. A small dataset is in memory anyway.
        transforms: As for `Loader`.
        fields: Names of the fields to read.
        workers: As for `Loader`.
        processes: As for `Loader`; the stages alone are measured in this process.

    Raises:
        ValueError: The dataset has no samples, or `processes` is given for a stream.
    """
    if isinstance(dataset, StreamDataset):
        if processes:
            raise ValueError("processes cannot be used with a stream, which one process reads: leave it out")
        held, stream = _hold(dataset.stored()), dataset.stored()
        read: Callable[[float], Rate] = partial(_drain, stream)
        whole: Loader | StreamLoader
        whole = StreamLoader(dataset, batch_size, transforms=transforms, workers=workers)
    else:
        held = _hold(_shuffled(dataset, fields))
        common: dict[str, Any] = {"shuffle": shuffle, "fields": fields, "workers": workers}
        read = partial(_run, Loader(dataset, batch_size, **common, seed=1, decode=False, collate=len))
        whole = Loader(dataset, batch_size, **common, seed=2, transforms=transforms, processes=processes)
    if not held:
        raise ValueError("the dataset has no samples to measure")
    decode = Loader(_InMemory(dataset, held), batch_size, transforms=transforms, workers=workers)
    stages: dict[str, Callable[[float], Rate]] = {
        "storage": read,
        "decode": partial(_run, decode),
        "whole": partial(_run, whole),
    }
    rounds = [{name: stage(seconds / _ROUNDS) for name, stage in stages.items()} for _ in range(_ROUNDS)]
    rates = {name: sum((one[name] for one in rounds[1:]), start=rounds[0][name]) for name in stages}
    return StageBenchmarks(**rates, stats=whole.stats())


def _run(loader: Loader | StreamLoader, seconds: float) -> Rate:
    """Load for a time, in as many epochs as it takes."""
    before, start = loader.stats(), perf_counter()
    while perf_counter() - start < seconds:
        batches = loader.stats().batches
        for _ in loader:
            if perf_counter() - start > seconds:
                break
        if loader.stats().batches == batches:
            break
    after = loader.stats()
    return Rate(after.samples - before.samples, after.stored_bytes - before.stored_bytes, perf_counter() - start)


def _drain(samples: Iterable[Sample], seconds: float) -> Rate:
    """Read a stream for a time, or to its end."""
    start = perf_counter()
    read = size = 0
    for sample in samples:
        read += 1
        size += stored_bytes(sample)
        if perf_counter() - start > seconds:
            break
    return Rate(read, size, perf_counter() - start)


def _hold(samples: Iterable[Sample]) -> list[Sample]:
    """Return the first samples, as many as are held in memory."""
    held: list[Sample] = []
    size = 0
    for sample in samples:
        held.append(sample)
        size += stored_bytes(sample)
        if size > _HELD_BYTES or len(held) == _MOST_HELD:
            break
    return held


def _shuffled(dataset: Dataset, fields: Sequence[str] | None) -> Iterator[Sample]:
    """Yield the stored samples of a dataset, in random order."""
    order = Exact(len(dataset), seed=0)
    for first in range(0, len(dataset), _READ):
        positions = np.arange(first, min(first + _READ, len(dataset)), dtype=np.int64)
        numbers = order.take(0, positions)
        for number, sample in zip(numbers.tolist(), dataset.read(numbers, fields, decode=False), strict=True):
            yield {**sample, _POSITION: number}


class _InMemory:
    """An endless dataset that repeats some stored samples of another one, so that only reading costs nothing."""

    fingerprint = ""
    keys: Sequence[str] = ()

    def __init__(self, dataset: Dataset | StreamDataset, held: Sequence[Sample]) -> None:
        self._dataset, self._held = dataset, held
        self._positions = np.array([sample.pop(_POSITION, 0) for sample in held], np.int64)
        self.spec: Mapping[str, str] = dataset.spec

    def __len__(self) -> int:
        return LIMIT  # an epoch that ends would end the threads

    def read(self, positions: Any, fields: Any = None, *, decode: bool = False) -> list[Sample]:
        """Return samples from memory."""
        return [self._held[position] for position in (positions % len(self._held)).tolist()]

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: npt.NDArray[np.int64],
        encoded: Collection[str] = (),
        fields: Any = None,
    ) -> list[Sample]:
        """Decode samples as the dataset does."""
        if isinstance(self._dataset, StreamDataset):
            return [self._dataset.decode_sample(sample, encoded) for sample in stored]
        return self._dataset.decode_samples(stored, self._positions[positions % len(self._held)], encoded, fields)

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Do nothing: the samples are in memory."""

    def position(self, key: str) -> int:
        """Raise KeyError: the samples have no keys."""
        raise KeyError(key)

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """Return file and offset of a field in the dataset."""
        if isinstance(self._dataset, StreamDataset):
            return None, None
        return self._dataset.location(int(self._positions[position % len(self._held)]), field)
