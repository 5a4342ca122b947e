"""Orders that read a dataset shard by shard, or chunk by chunk. They are the original's for the same seeds."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator, Sequence, Sized
from typing import Any, Protocol

from bushel.compat.webdataset.utils import torch_ranks

__all__ = ["ChunkedSampler", "DistributedChunkedSampler", "ShardListSampler", "ShardedSampler"]

_EPOCH = 1289738273

Range = tuple[int, int]


class _Sharded(Protocol):
    lengths: Sequence[int]


def _iterate(ranges: Sequence[Range], rng: random.Random, *, indexes: bool, ranges_too: bool) -> Iterator[int]:
    order = list(range(len(ranges)))
    if ranges_too:
        rng.shuffle(order)
    for number in order:
        positions = list(range(*ranges[number]))
        if indexes:
            rng.shuffle(positions)
        yield from positions


class ShardListSampler:
    """Positions shuffled within their shards, which are shuffled too, from the second epoch on.

    Args:
        dataset: A `ShardListDataset`.
        lengths: Samples of each shard; the dataset's if not given.
        seed: A number that the order follows from, with the epoch.
        shufflefirst: Whether shards are shuffled in the first epoch, too.
    """

    def __init__(
        self, dataset: _Sharded, *, lengths: Sequence[int] | None = None, seed: int = 0, shufflefirst: bool = False
    ) -> None:
        self.ranges: list[Range] = []
        start = 0
        for length in dataset.lengths if lengths is None else lengths:
            self.ranges.append((start, start + length))
            start += length
        self.seed, self.shufflefirst, self.epoch = seed, shufflefirst, 0

    def set_epoch(self, epoch: int) -> None:
        """Make this the next epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.ranges[-1][1] if self.ranges else 0

    def __iter__(self) -> Iterator[int]:
        """The positions of an epoch."""
        rng = random.Random(self.seed + _EPOCH * self.epoch)
        shards = self.shufflefirst or self.epoch > 0
        yield from _iterate(self.ranges, rng, indexes=True, ranges_too=shards)
        self.epoch += 1


ShardedSampler = ShardListSampler


class ChunkedSampler:
    """Positions shuffled within chunks, which are shuffled too, from the second epoch on.

    Args:
        dataset: What has a length.
        dslength_per_replica: What to say for the number of positions, if more than 0.
        num_samples: How many positions, or the first and the one behind the last; all if not given.
        chunksize: Positions of a chunk.
        seed: A number that the order follows from, with the epoch.
        shuffle: Whether to shuffle at all.
        shufflefirst: Whether chunks are shuffled in the first epoch, too.
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        dslength_per_replica: int = -1,
        num_samples: int | Range | None = None,
        chunksize: int = 2000,
        seed: int = 0,
        shuffle: bool = True,
        shufflefirst: bool = False,
    ) -> None:
        count = len(dataset) if num_samples is None else num_samples
        first, last = (0, count) if isinstance(count, int) else count
        self.dslength_per_replica = dslength_per_replica if dslength_per_replica > 0 else last - first
        self.ranges = [(start, min(start + chunksize, last)) for start in range(first, last, chunksize)]
        self.seed, self.shuffle, self.shufflefirst, self.epoch = seed, shuffle, shufflefirst, 0

    def set_epoch(self, epoch: int) -> None:
        """Make this the next epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.dslength_per_replica

    def __iter__(self) -> Iterator[int]:
        """The positions of an epoch."""
        rng = random.Random(self.seed + _EPOCH * self.epoch)
        chunks = self.shuffle and (self.shufflefirst or self.epoch > 0)
        yield from _iterate(self.ranges, rng, indexes=self.shuffle, ranges_too=chunks)
        self.epoch += 1


def DistributedChunkedSampler(
    dataset: Sized,
    *,
    num_replicas: int | None = None,
    num_samples: int | None = None,
    rank: int | None = None,
    shuffle: bool = True,
    shufflefirst: bool = False,
    seed: int = 0,
    drop_last: bool | None = None,
    chunksize: int = 1000000,
) -> ChunkedSampler:
    """A `ChunkedSampler` of this rank's part: one run of positions.

    Args:
        dataset: What has a length.
        num_replicas: Number of ranks; torch.distributed's if not given, or 1.
        num_samples: Positions of all ranks.
        rank: This rank; torch.distributed's if not given, or 0.
        shuffle: As for `ChunkedSampler`.
        shufflefirst: As for `ChunkedSampler`.
        seed: As for `ChunkedSampler`.
        drop_last: Not used.
        chunksize: As for `ChunkedSampler`.

    Raises:
        ValueError: There is no such rank.
    """
    if drop_last is not None:
        warnings.warn("DistributedChunkedSampler does not support drop_last, thus it will be ignored", stacklevel=2)
    found: Any = torch_ranks(None)
    if found is None and num_replicas is None:
        warnings.warn(
            "DistributedChunkedSampler is called without distributed initialized; assuming single process", stacklevel=2
        )
    own, world = found or (0, 1)
    rank, num_replicas = own if rank is None else rank, num_replicas or world
    if not 0 <= rank < num_replicas:
        raise ValueError(f"rank={rank} is none of {num_replicas}")
    count = num_samples or len(dataset)
    share = math.ceil(count / num_replicas)
    first = min(rank * share, count)
    return ChunkedSampler(
        dataset,
        dslength_per_replica=math.ceil(len(dataset) / num_replicas),
        num_samples=(first, min(first + share, count)),
        chunksize=chunksize,
        seed=seed,
        shuffle=shuffle,
        shufflefirst=shufflefirst,
    )
