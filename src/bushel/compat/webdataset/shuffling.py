"""Stages that change the order of samples or leave some out. Orders are those of the original for the same seeds."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from bushel.compat.webdataset.currying import pipelinefilter
from bushel.compat.webdataset.utils import PipelineStage

__all__ = ["detshuffle", "pick", "rsample", "select", "shuffle", "slice"]


def pick(buf: list[Any], rng: random.Random) -> Any:
    """Take a random item out of a buffer; the last one takes its place."""
    k = rng.randrange(len(buf))
    sample, last = buf[k], buf.pop()
    if k < len(buf):
        buf[k] = last
    return sample


def _shuffle(
    data: Iterable[Any],
    bufsize: int = 1000,
    initial: int = 100,
    rng: random.Random | None = None,
    seed: Any = None,
    handler: object = None,
) -> Iterator[Any]:
    """Let samples leave at random from a buffer, which grows by one for each that leaves until it is full.

    Args:
        data: The source.
        bufsize: Samples in the buffer.
        initial: Samples that it has before the first one leaves it.
        rng: Where randomness comes from.
        seed: Makes one; with neither, the order differs from time to time.
        handler: Not used.

    Raises:
        ValueError: Both `rng` and `seed` are given.
    """
    if seed is not None and rng is not None:
        raise ValueError("shuffle takes rng= or seed=, not both")
    if seed is not None:
        rng = random.Random(seed)
    elif rng is None:
        rng = random.Random(int((os.getpid() + time.time()) * 1e9))
    initial = min(initial, bufsize)
    source = iter(data)
    buf: list[Any] = []
    for sample in source:
        buf.append(sample)
        if len(buf) < bufsize:
            buf.extend(islice(source, 1))
        if len(buf) >= initial:
            yield pick(buf, rng)
    while buf:
        yield pick(buf, rng)


shuffle = pipelinefilter(_shuffle)


class detshuffle(PipelineStage):
    """`shuffle` in an order that follows from a seed and the number of times it was used.

    Args:
        bufsize: As for `shuffle`.
        initial: As for `shuffle`.
        seed: A number.
        epoch: One less than the number of the next epoch.
    """

    def __init__(self, bufsize: int = 1000, initial: int = 100, seed: int = 0, epoch: int = -1) -> None:
        self.bufsize, self.initial, self.seed, self.epoch = bufsize, initial, seed, epoch

    def run(self, src: Iterable[Any]) -> Iterator[Any]:
        """The samples of the next epoch."""
        self.epoch += 1
        return _shuffle(src, self.bufsize, self.initial, random.Random(self.seed + self.epoch))


def _select(data: Iterable[Any], predicate: Callable[[Any], Any]) -> Iterator[Any]:
    """Only the samples of which the predicate is true."""
    return (sample for sample in data if predicate(sample))


select = pipelinefilter(_select)


def _rsample(data: Iterable[Any], p: float = 0.5) -> Iterator[Any]:
    """Every sample with probability `p`, by Python's global generator.

    Raises:
        ValueError: That is no probability.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"rsample(p={p}): a probability is between 0 and 1")
    return (sample for sample in data if random.uniform(0.0, 1.0) < p)


rsample = pipelinefilter(_rsample)


def _slice(data: Iterable[Any], *args: int | None) -> Iterator[Any]:
    """As `itertools.islice`."""
    return islice(data, *args)


slice = pipelinefilter(_slice)
