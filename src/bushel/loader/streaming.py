"""Loading from what can only be read forward: compressed archives, pipes, standard input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from time import perf_counter
from typing import Any, Literal

import numpy as np

from bushel.core.dataset.stream import StreamDataset
from bushel.core.order import LIMIT, ORDER_VERSION, Exact, Sequential, derive
from bushel.core.parallel import cpu_count
from bushel.errors import UnsupportedError
from bushel.loader.collate import Collate, Sample
from bushel.loader.iterables import shuffle_buffer
from bushel.loader.outputs import Output, To
from bushel.loader.pipeline import Pipeline
from bushel.loader.plan import BatchPlan
from bushel.loader.prefetch import PrefetchWindow
from bushel.loader.ranks import detect_rank
from bushel.loader.report import BadSample, ErrorReport, Failure, error_limit
from bushel.loader.run import run_threads
from bushel.loader.state import LoaderState, Progress
from bushel.loader.stats import Clock, LoaderStats
from bushel.loader.transforms import SampleTransforms, generator
from bushel.transforms.by_field import Transforms

__all__ = ["StreamLoader"]

_STREAM_VERSION = 2  # of the order in which samples leave the shuffle buffer


class StreamLoader:
    """Iterates over a stream in batches. One `for` is one epoch, as with a `Loader`.

    In every epoch the sources are put in another order, shared among the ranks (rank r has every `world_size`-th), and
    read one after another. Samples go through a shuffle buffer: they leave it at random from among `buffer` that have
    come in. This is a weaker shuffle than a `Loader`'s. All of it follows from seed, epoch and rank.

    A state says how many samples this rank was given. Resuming reads the epoch again from its start and throws those
    away undecoded, so it costs the time of reading them, and it needs the same number of ranks.

    Args:
        stream: What to load from.
        batch_size: Samples in a batch of this rank. The last batch of an epoch may be short.
        buffer: Samples in the shuffle buffer, which are in memory as they are stored; 0 for no shuffle at all, not of
            the sources either.
        seed: 0 to 2**64 - 1.
        transforms: As for `Loader`; `rng` is keyed by (seed, rank, epoch, number of the sample in that).
        rank: As for `Loader`.
        world_size: As for `Loader`. At most as many as there are sources.
        workers: Threads that decode and transform. One more reads.
        processes: Refused unless 0: what can be read once, and in one order, does not split.
        reducing_gap: As for `Loader`.
        on_error: `"raise"` or `"skip"` samples that do not decode. A damaged archive is always raised: what comes after
            the damage is lost.
        max_errors: As for `Loader`, but not a share, since the number of samples is unknown.
        collate: As for `Loader`.
        batch_transform: As for `Loader`.
        prefetch: As for `Loader`.
        prefetch_bytes: As for `Loader`.
        to: As for `Loader`.
        pin_memory: As for `Loader`.
        device: As for `Loader`.

    Attributes:
        rank: Of this process.
        world_size: Number of processes.

    Raises:
        ValueError: An argument is out of its range, or there are fewer sources than ranks.
        UnsupportedError: `processes` is not 0.
    """

    def __init__(
        self,
        stream: StreamDataset,
        batch_size: int,
        *,
        buffer: int = 1000,
        seed: int = 0,
        transforms: Transforms | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        workers: int = 1,
        processes: Literal[0] = 0,
        on_error: Literal["raise", "skip"] = "raise",
        max_errors: int | None = 100,
        collate: Collate | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        reducing_gap: float | None = 2.0,
        prefetch: int | None = None,
        prefetch_bytes: int = 1 << 30,
        to: To = "numpy",
        pin_memory: bool = False,
        device: Any = None,
    ) -> None:
        self.rank, self.world_size = detect_rank(rank, world_size)
        if processes:
            raise UnsupportedError(
                "a stream is read by this process, from front to back: leave processes= out, or make a dataset of it "
                "by `bushel convert`, which a Loader reads with processes="
            )
        if on_error not in ("raise", "skip"):
            raise ValueError(f"a stream cannot go back for another sample: on_error is raise or skip, not {on_error!r}")
        if batch_size < 1 or buffer < 0 or workers < 1 or (prefetch is not None and prefetch < 1):
            raise ValueError("batch_size, workers and prefetch are at least 1, buffer at least 0")
        if self.world_size > len(stream.sources):
            raise ValueError(
                f"{len(stream.sources)} sources cannot be shared among {self.world_size} ranks: store the samples in "
                f"at least as many archives"
            )
        self._stream, self._batch_size, self._buffer, self._workers = stream, batch_size, buffer, workers
        self._seed = Sequential(LIMIT, seed).seed
        self._transforms = SampleTransforms.of(transforms, stream.spec, complete=False, reducing_gap=reducing_gap)
        self._collate, self._batch_transform, self._on_error = collate, batch_transform, on_error
        self._output, self._window = Output(to, pin_memory, device), PrefetchWindow.of(prefetch, prefetch_bytes)
        self._report, self._clock = ErrorReport(error_limit(max_errors, None)), Clock()
        self._progress, self._begun = Progress(0), False

    @property
    def epoch(self) -> int:
        """The epoch being iterated, or about to be."""
        return self._progress.epoch

    @property
    def errors(self) -> list[BadSample]:
        """The bad samples met by this process so far; `sample` is the number in the rank's epoch."""
        return self._report.bad_samples()

    def __iter__(self) -> Generator[Any]:
        """Begin an epoch: the next one, or the rest of the one that `load_state_dict` led to."""
        if self._begun:
            self._progress = Progress(self._progress.epoch + 1)
        self._begun = True
        return self._iterate(self._progress)

    def _iterate(self, progress: Progress) -> Generator[Any]:
        reader = _StreamReader(self._stream, self._stored(progress.epoch), progress.samples)
        pipeline = _StreamPipeline(
            reader,
            Sequential(LIMIT, self._rank_key),
            transforms=self._transforms,
            collate=self._collate,
            batch_transform=self._batch_transform,
            on_error=self._on_error,
        )
        finished = run_threads(
            pipeline,
            _plans(progress.epoch, progress.samples, self._batch_size),
            self._report,
            self._clock,
            self._output,
            workers=self._workers,
            window=self._window,
            fetchers=1,
        )
        asked = perf_counter()
        try:
            for step in finished:
                if reader.end is not None and step.consumed - self._batch_size >= reader.end:
                    break
                got = perf_counter()
                counts = {"bytes": step.stored_bytes, "batches": 1, "samples": step.samples}
                self._clock.add({"waiting": got - asked, **counts})
                progress.samples = step.consumed
                if step.batch is not None:
                    yield step.batch
                del step
                asked = perf_counter()
                self._clock.add({"training": asked - got})
        finally:
            finished.close()
        if progress is self._progress:
            self._progress, self._begun = Progress(progress.epoch + 1), False

    def _stored(self, epoch: int) -> Iterator[Sample]:
        """This rank's samples of an epoch, as they are stored, shuffled."""
        sources = np.arange(len(self._stream.sources), dtype=np.int64)
        if self._buffer:
            sources = Exact(len(sources), self._seed).take(epoch, sources)
        mine = self._stream.part(sources[self.rank :: self.world_size].tolist()).stored()
        rng = generator(self._rank_key, epoch, LIMIT)  # which is the number of no sample
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

    def stats(self) -> LoaderStats:
        """Where the time went so far, and what to change; print it. Unpacking and reading both count as storage."""
        return LoaderStats.of(self._clock.read(), errors=len(self.errors), threads=self._workers, cpus=cpu_count())

    def state_dict(self) -> dict[str, str | int]:
        """Where this rank's trainer is; `samples` counts those of this rank."""
        state = LoaderState(self._version, self._fingerprint, self._seed, self._progress.epoch, self._progress.samples)
        return state.to_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state of the same rank: the next `for` yields what is left of its epoch.

        Raises:
            StateError: The state is of other sources, another buffer or number of ranks, or is no state.
        """
        loaded = LoaderState.from_dict(state)
        loaded.check(version=self._version, fingerprint=self._fingerprint, samples=LIMIT)
        self._seed, self._progress, self._begun = loaded.seed, Progress(loaded.epoch, loaded.samples), False


def _plans(epoch: int, start: int, size: int) -> Iterator[BatchPlan]:
    """Plans without end: where a stream ends is not known before it does."""
    for first in count(start, size):
        numbers = np.arange(first, first + size, dtype=np.int64)
        yield BatchPlan(epoch, numbers, numbers, first + size)


@dataclass(frozen=True, slots=True)
class _StreamPipeline(Pipeline):
    """A pipeline whose reads cannot be tried again."""

    def _fetch(self, plan: BatchPlan) -> list[Sample | Failure]:
        return [*self.dataset.read(plan.samples)]


class _StreamReader:
    """A stream with the methods of a dataset, where positions are numbers of samples in the order of their coming.

    One thread reads, always the next samples; others decode.

    Attributes:
        end: Number of samples, once it is known.
    """

    spec: Mapping[str, str] = {}
    keys: Sequence[str] = ()
    fingerprint = ""

    def __init__(self, stream: StreamDataset, samples: Iterator[Sample], skipped: int) -> None:
        self._stream, self._samples, self._skipped = stream, samples, skipped
        self.end: int | None = None

    def __len__(self) -> int:
        return LIMIT

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Nothing to prefetch: a stream comes as it comes."""

    def read(self, positions: Any, fields: Any = None, *, decode: bool = False) -> list[Sample]:
        """The next samples, fewer at the end."""
        if self._skipped:
            skipped = sum(1 for _ in islice(self._samples, self._skipped))
            self._skipped = 0
            if skipped < int(positions[0]):
                self.end = skipped
        found = list(islice(self._samples, len(positions)))
        if len(found) < len(positions) and self.end is None:
            self.end = int(positions[0]) + len(found)
        return found

    def decode_samples(
        self, stored: Sequence[Sample], positions: Any, encoded: Collection[str] = (), fields: Any = None
    ) -> list[Sample]:
        """Decode samples."""
        return [self._stream.decode_sample(sample, encoded) for sample in stored]

    def position(self, key: str) -> int:
        """Streams do not know where a key is."""
        raise KeyError(key)

    def location(self, position: int, field: str) -> tuple[None, None]:
        """Streams do not know where a sample was."""
        return None, None
