"""Stages over many samples: shuffling, selecting, batching, caching. Shuffles equal the original's for equal seeds."""

from __future__ import annotations

import os
import pickle
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from bushel.compat.batching import in_batches
from bushel.compat.errors import WrongTypeError, WrongUseError
from bushel.loader import shuffle_buffer

from .errors import UnevenBatchError
from .pytorch import is_tensor
from .tariterators import removed_keys
from .utils import PipelineStage

Collate = Callable[[list[Any]], Any]


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
    """Shuffle samples in a buffer, which reads two samples for each that leaves until it is full."""
    if seed is not None and rng is not None:
        raise WrongUseError("shuffle takes rng= or seed=, not both")
    if rng is None:
        rng = random.Random(int((os.getpid() + time.time()) * 1e9) if seed is None else seed)
    return shuffle_buffer(data, bufsize, rng.randrange, initial=initial)


class detshuffle(PipelineStage):
    """`shuffle` in an order that depends only on the seed and on how often the stage was used."""

    def __init__(
        self, bufsize: int = 1000, initial: int = 100, seed: int = 0, epoch: int = -1
    ) -> None:
        self.bufsize, self.initial, self.seed, self.epoch = bufsize, initial, seed, epoch

    def run(self, src: Iterable[Any]) -> Iterator[Any]:
        """Yield the samples of the next epoch."""
        self.epoch += 1
        return _shuffle(src, self.bufsize, self.initial, random.Random(self.seed + self.epoch))


def _select(data: Iterable[Any], predicate: Callable[[Any], Any]) -> Iterator[Any]:
    """Keep the samples for which the predicate is true."""
    return (sample for sample in data if predicate(sample))


def _rsample(data: Iterable[Any], p: float = 0.5) -> Iterator[Any]:
    """Keep each sample with probability `p`, by Python's global generator."""
    if not 0.0 <= p <= 1.0:
        raise WrongUseError(f"rsample(p={p}): a probability is between 0 and 1")
    return (sample for sample in data if random.uniform(0.0, 1.0) < p)


def _slice(data: Iterable[Any], *args: int | None) -> Iterator[Any]:
    """Keep some samples, as `itertools.islice`."""
    return islice(data, *args)


def combine_values(
    b: Sequence[Any], combine_tensors: bool = True, combine_scalars: bool = True
) -> Any:
    """Combine the values of one field: numbers, arrays and tensors of equal shapes become one; others stay a list."""
    first = b[0]
    if isinstance(first, int | float):
        return np.array(list(b)) if combine_scalars else b
    if not (is_tensor(first) or isinstance(first, np.ndarray)):
        return list(b)
    if not combine_tensors:
        return b
    shapes = {tuple(value.shape) for value in b}
    if len(shapes) != 1:
        raise WrongUseError(f"all shapes must be equal in collation, got {shapes}")
    if isinstance(first, np.ndarray):
        return np.array(list(b)) if first.ndim == 0 else np.stack(b)
    import torch

    return torch.stack(list(b))


def tuple2dict(sample: Any) -> dict[Any, Any]:
    """Return a tuple as a dict by position, and a dict as it is."""
    return sample if isinstance(sample, dict) else dict(enumerate(sample))


def dict2tuple(d: dict[int, Any]) -> tuple[Any, ...]:
    """Return the tuple of a dict by position."""
    return tuple(d[i] for i in range(1 + max(d)))


def default_collation_fn(
    samples: Sequence[Any], combine_tensors: bool = True, combine_scalars: bool = True
) -> Any:
    """Make a batch: a tuple or a dict, as the samples are, of the combined values of each field."""
    rows = [tuple2dict(sample) for sample in samples]
    keys = rows[0].keys()
    other = next((row.keys() for row in rows[1:] if row.keys() != keys), None)
    if other is not None:
        raise WrongUseError(
            f"keys don't match in different samples: {list(keys)} and {list(other)}"
        )
    result = {
        key: combine_values([row[key] for row in rows], combine_tensors, combine_scalars)
        for key in keys
    }
    return dict2tuple(result) if isinstance(samples[0], list | tuple) else result


def _batched(
    data: Iterable[Any],
    batchsize: int = 20,
    collation_fn: Collate | None = default_collation_fn,
    partial: bool = True,
) -> Iterator[Any]:
    """Make batches of `batchsize` samples; `partial` keeps a shorter last one, `collation_fn=None` gives lists."""
    batches = in_batches(data, max(batchsize, 1), drop_last=not partial)
    return batches if collation_fn is None else (collation_fn(batch) for batch in batches)


def _unlisted(data: Iterable[list[Any]]) -> Iterator[Any]:
    """Yield the samples of lists."""
    for batch in data:
        if not isinstance(batch, list):
            raise WrongTypeError(
                f"unlisted takes lists, not a {type(batch).__name__}: batches are for unbatched()"
            )
        yield from batch


def _unbatched(data: Iterable[Any]) -> Iterator[Any]:
    """Yield the samples of batches."""
    for batch in data:
        if not isinstance(batch, list | tuple | dict):
            raise ValueError(f"unknown sample type: {type(batch)}")  # noqa: TRY004  (what the original raises)
        values = list(batch.values()) if isinstance(batch, dict) else list(batch)
        lengths = {len(value) for value in values}
        if len(lengths) > 1:
            raise UnevenBatchError(f"the fields of a batch have {sorted(lengths)} values")
        for i in range(lengths.pop() if lengths else 0):
            row = [value[i] for value in values]
            yield dict(zip(batch, row, strict=True)) if isinstance(batch, dict) else tuple(row)


class Cached(PipelineStage):
    """A stage that keeps all samples in memory after they were read to the end."""

    def __init__(self) -> None:
        self.cached: list[Any] | None = None

    def run(self, source: Iterable[Any]) -> Iterator[Any]:
        """Yield the samples of the source, or the cached ones."""
        if self.cached is not None:
            yield from self.cached
            return
        samples = []
        for sample in source:
            samples.append(sample)
            yield sample
        self.cached = samples


def _is_removed(sample: Any, removed: Callable[[str], frozenset[str]]) -> bool:
    """Return whether a sample of a shard was removed from it, given the removed keys of shards by URL."""
    url, key = (
        (sample.get("__url__"), sample.get("__key__")) if isinstance(sample, dict) else (None, None)
    )
    return isinstance(url, str) and isinstance(key, str) and key in removed(url)


class LMDBCached(PipelineStage):
    """A stage that keeps all samples in an LMDB database, which later runs of the program find again.

    Samples are pickled, so use only databases that you have made. Keys are the numbers of samples,
    so that equal keys do not replace one another; databases of the original are read too.
    """

    def __init__(
        self, fname: str, map_size: float = 1e12, pickler: Any = pickle, chunksize: int = 500
    ) -> None:
        self.db: Any = import_module("lmdb").open(fname, readonly=False, map_size=int(map_size))
        self.pickler, self.chunksize = pickler, chunksize

    def is_complete(self) -> bool:
        """Return whether all samples are in the database."""
        with self.db.begin(write=False) as txn:
            return txn.get(b"_") is not None

    def add_samples(self, samples: Iterable[tuple[str, Any]]) -> None:
        with self.db.begin(write=True) as txn:
            for key, sample in samples:
                txn.put(key.encode(), self.pickler.dumps(sample))

    def run(self, source: Iterable[Any]) -> Iterator[Any]:
        """Yield the samples of the database if it is complete, else of the source.

        Samples that `bushel remove` removed from their local shards since are skipped.
        """
        if self.is_complete():
            removed = lru_cache(maxsize=None)(removed_keys)
            with self.db.begin(write=False) as txn:
                samples = (self.pickler.loads(value) for key, value in txn.cursor() if key != b"_")
                yield from (sample for sample in samples if not _is_removed(sample, removed))
            return
        waiting: list[tuple[str, Any]] = []
        for number, sample in enumerate(source):
            waiting.append((f"{number:012d}", sample))
            if len(waiting) >= self.chunksize:
                self.add_samples(waiting)
                waiting = []
            yield sample
        self.add_samples(waiting)
        with self.db.begin(write=True) as txn:
            txn.put(b"_", b"1")

    def close(self) -> None:
        self.db.close()
