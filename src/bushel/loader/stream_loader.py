"""`StreamLoader`: batches from sources that can only be read forward."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from bushel.core.dataset.stream import StreamDataset
from bushel.core.order import LIMIT, ORDER_VERSION, Exact, Sequential, derive
from bushel.errors import UnsupportedError
from bushel.loader.bad_samples import Failure
from bushel.loader.base import LoaderBase, LoaderState, Options, Progress, SharedArguments
from bushel.loader.collate import Sample
from bushel.loader.iterables import shuffle_buffer
from bushel.loader.micro_batch import SampleTransforms, generator
from bushel.loader.pipeline import Finished, Pipeline
from bushel.loader.plan import BatchPlan
from bushel.loader.run import run_threads

if TYPE_CHECKING:
    from bushel.loader.read_ahead import HeldBatch

__all__ = ["StreamLoader"]

_STREAM_VERSION = 2  # of the order in which samples leave the shuffle buffer


class StreamLoader(LoaderBase):
    """Iterates over a stream in batches. One `for` is one epoch, as with a `Loader`.

    In every epoch the sources are put in another order and divided among the ranks: rank r reads every `world_size`-th
    source, one after another. Samples leave a shuffle buffer in random order. This shuffles less well than a `Loader`.
    The order depends only on the seed, the epoch and the rank.

    A state counts the samples that this rank was given. Resuming reads the epoch again from its start and drops those
    samples undecoded, so it takes as long as reading them, and needs the same number of ranks.

    To look at one batch does not use up an epoch, as with a `Loader`, except of standard input and open files, which
    can be read only once.

    Args:
        stream: The source of samples, as `bushel.open_stream` returns it.
        batch_size: Number of samples in a batch of this rank. The last batch of an epoch may be shorter.
        buffer: Number of samples in the shuffle buffer, as stored bytes; 0 to shuffle neither samples nor sources.
        shared: All other keyword arguments are those of `Loader`: `seed`, `transforms`, `rank`, `world_size`,
            `workers`, `on_error`, `max_errors`, `collate`, `batch_transform`, `reducing_gap`, `prefetch`,
            `prefetch_bytes`, `to`, `pin_memory` and `device`. The differences: `transforms` names its fields, `rng` is
            keyed by (seed, rank, epoch, number of the sample), one more thread than `workers` reads, `processes` must
            be 0, `on_error` cannot be `"replace"`, `max_errors` cannot be a share, and there are at least as many
            sources as ranks. A damaged archive always raises its error, since what follows the damage is lost.

    Attributes:
        rank: Rank of this process.
        world_size: Number of training processes.

    Raises:
        ValueError: An argument is out of its range, or there are fewer sources than ranks.
        UnsupportedError: `processes` is not 0.

    Examples:
        >>> stream = bushel.open_stream("train/*.tar", fields=["label.cls"])
        >>> loader = bushel.StreamLoader(stream, batch_size=5, buffer=100)
        >>> [len(batch["label.cls"]) for batch in loader]
        [5, 5, 2]
    """

    def __init__(
        self, stream: StreamDataset, batch_size: int, *, buffer: int = 1000, **shared: Unpack[SharedArguments]
    ) -> None:
        options = Options(**shared)
        if options.processes:
            raise UnsupportedError(
                "processes= cannot be used with a stream, which one process reads from front to back. Leave it out, or "
                "run `bushel convert`: a Loader can read the result with processes="
            )
        if options.on_error == "replace":
            raise ValueError("on_error='replace' needs random access: with a stream, give 'raise' or 'skip'")
        if batch_size < 1 or buffer < 0:
            raise ValueError(f"batch_size={batch_size}, buffer={buffer}: expected batch_size >= 1 and buffer >= 0")
        super().__init__(options, None, least_workers=1)
        if self.world_size > len(stream.sources):
            raise ValueError(
                f"{len(stream.sources)} sources cannot be shared among {self.world_size} ranks: store the samples in "
                f"at least {self.world_size} archives"
            )
        self._stream, self._batch_size, self._buffer, self._options = stream, batch_size, buffer, options
        self._seed = Sequential(LIMIT, options.seed).seed
        self._transforms = SampleTransforms.of(
            options.transforms, stream.spec, complete=False, reducing_gap=options.reducing_gap
        )

    def __repr__(self) -> str:
        return (
            f"<bushel.StreamLoader: batches of {self._batch_size} from {self._stream!r}, shuffle buffer of "
            f"{self._buffer}, seed {self._seed}, rank {self.rank} of {self.world_size}, {self._workers} workers; "
            f"epoch {self.epoch}, {self._progress.samples} samples consumed>"
        )

    def _run(self, progress: Progress) -> Generator[Finished]:
        pipeline = _StreamPipeline(
            _StreamReader(self._stream, self._stored(progress.epoch), progress.samples),
            Sequential(LIMIT, self._rank_key),
            transforms=self._transforms,
            collate=self._options.collate,
            batch_transform=self._options.batch_transform,
            on_error=self._options.on_error,
        )
        return run_threads(
            pipeline,
            _plans(progress.epoch, progress.samples, self._batch_size),
            self._report,
            self._clock,
            self._output,
            pipeline.factory(self._pool),
            workers=self._workers,
            window=self._window,
            fetchers=1,
        )

    def _stored(self, epoch: int) -> Iterator[Sample]:
        """Return this rank's stored samples of an epoch, shuffled."""
        sources = np.arange(len(self._stream.sources), dtype=np.int64)
        if self._buffer:
            sources = Exact(len(sources), self._seed).take(epoch, sources)
        mine = self._stream.part(sources[self.rank :: self.world_size].tolist()).stored()
        rng = generator(self._rank_key, epoch, LIMIT)  # no sample has this number
        if not self._buffer:
            return iter(mine)
        return shuffle_buffer(mine, self._buffer, lambda size: int(rng.integers(size)))

    @property
    def _rank_key(self) -> int:
        return derive(ORDER_VERSION, self._seed, self.rank)

    @property
    def _version(self) -> str:
        return f"stream({self._buffer},{self.world_size})/{_STREAM_VERSION}"

    @property
    def _fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self._stream.sources).encode()).hexdigest()[:32]

    def state_dict(self) -> dict[str, str | int]:
        """Return the state of training; `samples` counts those that this rank was given.

        Examples:
            >>> loader = bushel.StreamLoader(bushel.open_stream("train/*.tar"), batch_size=5)
            >>> batches = iter(loader)
            >>> batch = next(batches)
            >>> loader.state_dict()["samples"]
            5
        """
        state = LoaderState(self._version, self._fingerprint, self._seed, self._progress.epoch, self._progress.samples)
        return state.to_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state of the same rank: the next `for` yields the rest of its epoch.

        Raises:
            StateError: The state belongs to other sources, another buffer or number of ranks, or is not a state.

        Examples:
            >>> loader = bushel.StreamLoader(bushel.open_stream("train/*.tar"), batch_size=5)
            >>> batches = iter(loader)
            >>> batch = next(batches)
            >>> resumed = bushel.StreamLoader(bushel.open_stream("train/*.tar"), batch_size=5)
            >>> resumed.load_state_dict(loader.state_dict())
            >>> [len(batch["__key__"]) for batch in resumed]
            [5, 2]
        """
        loaded = LoaderState.from_dict(state)
        loaded.check(version=self._version, fingerprint=self._fingerprint, samples=LIMIT)
        self._seed, self._progress, self._started = loaded.seed, Progress.at(loaded.epoch, loaded.samples), False


def _plans(epoch: int, start: int, size: int) -> Iterator[BatchPlan]:
    """Yield plans without end: the length of a stream is unknown."""
    for first in count(start, size):
        numbers = np.arange(first, first + size, dtype=np.int64)
        yield BatchPlan(epoch, numbers, numbers, first + size)


@dataclass(frozen=True, slots=True)
class _StreamPipeline(Pipeline):
    """A pipeline that does not try a failed read again."""

    def _fetch(self, plan: BatchPlan, fields: Any, held: HeldBatch | None = None) -> list[Sample | Failure]:
        return [*self.dataset.read(plan.samples)]


class _StreamReader:
    """A stream with the methods of a dataset. Positions are numbers of samples in the order of reading.

    One thread reads, always the next samples; others decode.
    """

    spec: Mapping[str, str] = {}
    keys: Sequence[str] = ()
    fingerprint = ""

    def __init__(self, stream: StreamDataset, samples: Iterator[Sample], skipped: int) -> None:
        self._stream, self._samples, self._skipped = stream, samples, skipped

    def __len__(self) -> int:
        return LIMIT

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Do nothing: a stream cannot be prefetched."""

    def read(self, positions: Any, fields: Any = None, *, decode: bool = False) -> list[Sample]:
        """Return the next samples; fewer at the end."""
        skipped, self._skipped = self._skipped, 0
        for _ in islice(self._samples, skipped):
            pass
        return list(islice(self._samples, len(positions)))

    def decode_samples(
        self, stored: Sequence[Sample], positions: Any, encoded: Collection[str] = (), fields: Any = None
    ) -> list[Sample]:
        """Decode samples."""
        return [self._stream.decode_sample(sample, encoded) for sample in stored]

    def position(self, key: str) -> int:
        """Raise KeyError: a stream does not know the positions of keys."""
        raise KeyError(key)

    def location(self, position: int, field: str) -> tuple[None, None]:
        """Return None: a stream does not know where a sample was."""
        return None, None
