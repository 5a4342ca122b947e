"""Orders that read a dataset shard by shard or chunk by chunk, equal to the original's for equal seeds."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator, Sequence, Sized
from itertools import accumulate, pairwise
from typing import Any, Protocol

from bushel.compat.webdataset.utils import torch_ranks

_EPOCH = 1289738273

Range = tuple[int, int]


class _Sharded(Protocol):
    lengths: Sequence[int]


class _RangeSampler:
    """Positions shuffled within ranges; the ranges are shuffled too, from the second epoch on."""

    def __init__(
        self, ranges: Sequence[Range], length: int, seed: int, *, shuffle: bool, shufflefirst: bool
    ) -> None:
        self.ranges, self.length, self.seed = list(ranges), length, seed
        self.shuffle, self.shufflefirst, self.epoch = shuffle, shufflefirst, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        """Yield the positions of an epoch."""
        rng = random.Random(self.seed + _EPOCH * self.epoch)
        order = list(range(len(self.ranges)))
        if self.shuffle and (self.shufflefirst or self.epoch > 0):
            rng.shuffle(order)
        for number in order:
            positions = list(range(*self.ranges[number]))
            if self.shuffle:
                rng.shuffle(positions)
            yield from positions
        self.epoch += 1


class ShardListSampler(_RangeSampler):
    """Positions of a dataset, shuffled within shards; the shards are shuffled too, from the second epoch on."""

    def __init__(
        self,
        dataset: _Sharded,
        *,
        lengths: Sequence[int] | None = None,
        seed: int = 0,
        shufflefirst: bool = False,
    ) -> None:
        ranges = list(
            pairwise(accumulate(dataset.lengths if lengths is None else lengths, initial=0))
        )
        super().__init__(
            ranges, ranges[-1][1] if ranges else 0, seed, shuffle=True, shufflefirst=shufflefirst
        )


ShardedSampler = ShardListSampler


class ChunkedSampler(_RangeSampler):
    """Positions shuffled within chunks; the chunks are shuffled too, from the second epoch on.

    `num_samples` is a number of positions or a range (first, end); `dslength_per_replica` is the
    length to report.
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
        ranges = [(start, min(start + chunksize, last)) for start in range(first, last, chunksize)]
        self.dslength_per_replica = (
            dslength_per_replica if dslength_per_replica > 0 else last - first
        )
        super().__init__(
            ranges, self.dslength_per_replica, seed, shuffle=shuffle, shufflefirst=shufflefirst
        )


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
    """Return a `ChunkedSampler` of the range of positions that belongs to this rank.

    Rank and number of ranks come from torch.distributed by default, or are one rank. `drop_last` is
    ignored.
    """
    if drop_last is not None:
        warnings.warn(
            "DistributedChunkedSampler does not support drop_last, thus it will be ignored",
            stacklevel=2,
        )
    ranks: Any = torch_ranks(None)
    if ranks is None and num_replicas is None:
        warnings.warn(
            (
                "DistributedChunkedSampler is called without "
                "distributed initialized; assuming single process"
            ),
            stacklevel=2,
        )
    own_rank, world = ranks or (0, 1)
    rank, num_replicas = own_rank if rank is None else rank, num_replicas or world
    if not 0 <= rank < num_replicas:
        raise ValueError(f"rank={rank} is out of range: there are {num_replicas} ranks")
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
