"""`StreamLoader`: batches from sources that can only be read forward, through a shuffle buffer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bushel._dataset.views.stream import StreamDataset, check_again
from bushel._runtime.arrays import check_count
from bushel._runtime.order import LIMIT, ORDER_VERSION, Exact, Sequential, derive
from bushel._runtime.public import public
from bushel.errors import UnsupportedError
from bushel.loader.decode.sample_transforms import SampleTransforms, generator
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.loadable import PlainReader
from bushel.loader.run.pipeline import Pipeline
from bushel.loader.run.threads import run_inline, run_threads
from bushel.loader.values.bad_samples import Failure
from bushel.loader.values.collate import Sample
from bushel.loader.values.outputs import Finished
from bushel.transforms.values import Call

from .base import INSTEAD, Item, LoaderBase, Progress
from .options import StreamOptions, check_rules
from .state import LoaderState

if TYPE_CHECKING:
    from bushel._dataset.read.stored_reader import Room
    from bushel.loader.run.read_ahead import HeldBatch

T = TypeVar("T")
_STREAM_VERSION = 2  # of the order in which samples leave the shuffle buffer


def shuffle_buffer(
    samples: Iterable[T], size: int, draw: Callable[[int], int], *, initial: int | None = None
) -> Iterator[T]:
    """Shuffle samples through a buffer: each sample that leaves is drawn at random from those in the buffer.

    The buffer is filled with `initial` samples before the first one leaves. Then it grows by one
    sample for each that leaves, until it holds `size` samples. At the end of the input it is
    emptied, still at random.

    Args:
        samples: The input.
        size: Number of samples in the buffer.
        draw: Returns a random integer from 0 to its argument - 1, such as
            `random.Random(0).randrange`.
        initial: Number of samples to wait for; at most `size`, which is the default.

    Examples:
        >>> import random
        >>> from bushel.loader import shuffle_buffer
        >>> list(shuffle_buffer(range(8), 4, random.Random(0).randrange))
        [3, 4, 0, 2, 7, 1, 6, 5]
    """
    least = size if initial is None else min(initial, size)
    source, buffer = iter(samples), list[T]()
    for sample in source:
        buffer.append(sample)
        if len(buffer) < size:
            buffer.extend(islice(source, 1))
        if len(buffer) >= least:
            yield _take(buffer, draw)
    while buffer:
        yield _take(buffer, draw)


def _take(held: list[T], draw: Callable[[int], int]) -> T:
    """Take a random sample out of a list; the last sample moves to its place."""
    place, last = draw(len(held)), held.pop()
    if place == len(held):
        return last
    taken, held[place] = held[place], last
    return taken


@public(instead=INSTEAD)
class StreamLoader(StreamOptions, LoaderBase[Item]):
    """Iterates over a stream in batches. One `for` is one epoch, as with a `Loader`.

    In every epoch the sources are put in another order and divided among the ranks: rank r reads
    every `world_size`-th source, one after another. Samples leave a shuffle buffer in random order.
    This shuffles less well than a `Loader`. The order depends only on the seed, the epoch and the
    rank.

    A state counts the samples that this rank was given. Resuming reads the epoch again from its
    start and drops those samples undecoded, so it takes as long as reading them, and needs the same
    number of ranks.

    `peek` reads the sources from their start, so it refuses standard input and open files, which
    can be read only once.

    Args:
        stream: The source of samples, as `bushel.open_stream` returns it.
        batch_size: Number of samples in a batch of this rank. The last batch of an epoch may be
            shorter.
        buffer: Number of samples in the shuffle buffer, as stored bytes; 0 to shuffle neither
            samples nor sources.
        steps: Number of batches in an epoch, all of them full, on every rank. A rank whose sources
            end before reads them again. None for the end of the sources, which is another step on
            every rank.

    All other options work as in `Loader`. The differences: `transforms` names its fields, `rng` is
    keyed by (seed, rank, epoch, number of the sample), one more thread than `threads` reads,
    `processes` must be 0, `on_error` cannot be `"replace"`, `max_errors` cannot be a share, and
    there are at least as many sources as ranks. A damaged archive always raises its error, since
    what follows the damage is lost.

    Attributes:
        rank: Rank of this process.
        world_size: Number of training processes.

    Raises:
        ValueError: An argument is out of its range, or there are fewer sources than ranks.
        UnsupportedError: `processes` is not 0.

    Examples:
        >>> stream = bushel.open_stream("train/*.tar", fields=["label"])
        >>> loader = bushel.StreamLoader(stream, batch_size=5, buffer=100)
        >>> [len(batch["label"]) for batch in loader]
        [5, 5, 2]
    """

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.stream, StreamDataset):
            raise TypeError(
                f"a {type(self.stream).__name__} is not a "
                "stream: give what bushel.open_stream returns"
            )
        if self.processes:
            raise UnsupportedError(
                "processes= cannot be used with a stream, which one process "
                "reads from front to back. Leave it out, or run "
                "`bushel convert`: a Loader can read the result with processes="
            )
        if self.on_error == "replace":
            raise ValueError(
                "on_error='replace' needs random access: with a stream, give 'raise' or 'skip'"
            )
        check_count("batch_size", self.batch_size, least=1)
        check_count("buffer", self.buffer)
        if self.steps is not None:
            check_count("steps", self.steps, least=1)
            check_again(self.stream, "no epoch of a number of steps= can be made of it")
            if self.on_error == "skip":
                raise ValueError(
                    "on_error='skip' makes batches smaller, but "
                    "steps= promises full ones: leave one out"
                )
        self._prepare(None, least_threads=1)
        check_rules(self.collate, None)
        self._use_rank()
        self._planned = SampleTransforms.of(
            self.transforms,
            self.stream.spec,
            complete=False,
            reducing_gap=self.reducing_gap,
            sample=self.sample_transform,
        )

    def __len__(self) -> int:
        """Number of batches in an epoch, if `steps=` gives it.

        Raises:
            TypeError: It is known only at the end of the sources.
        """
        if self.steps is None:
            raise TypeError(
                "a StreamLoader without steps= has no length: "
                "it is known only at the end of its sources"
            )
        return self.steps

    def __bool__(self) -> bool:
        return True

    def _use_rank(self) -> None:
        if self.world_size > (count := len(self.stream.sources)):
            raise ValueError(
                f"{count} sources cannot be shared among {self.world_size} "
                f"ranks: store the samples in at least {self.world_size} archives"
            )

    def _unequal_steps(self, progress: Progress) -> str | None:
        if self.steps is not None:
            return None
        return (
            f"the {self.world_size} ranks of a stream have unequal steps, and may "
            "wait for each other forever: give steps=, the batches of an epoch on "
            "every rank, or run `bushel convert` and use a Loader with drop_last="
        )

    def __repr__(self) -> str:
        return (
            f"<bushel.StreamLoader: batches of {self.batch_size} from "
            f"{self.stream!r}, shuffle buffer of {self.buffer}, seed {self.seed}, "
            f"rank {self.rank} of {self.world_size}, {self._threads} threads; "
            f"epoch {self.epoch}, {self._progress.samples} samples consumed>"
        )

    def _run(self, progress: Progress, *, ahead: bool = True) -> Generator[Finished]:
        if not ahead:
            check_again(self.stream, "no batch of it can be read without counting it")
        stored = self._stored(progress.epoch)
        reader: Any = _StreamReader(self.stream, stored, progress.samples)
        pipeline = _StreamPipeline(
            PlainReader(reader),
            Sequential(LIMIT, self._rank_key),
            transforms=self._planned,
            collate=self.collate,
            batch_transform=None if self.batch_transform is None else Call.of(self.batch_transform),
            on_error=self.on_error,
        )
        plans = _plans(progress.epoch, progress.samples, self.batch_size)
        if self.steps is not None:
            plans = islice(plans, max(0, self.steps - progress.samples // self.batch_size))
        iteration = self._iteration(pipeline, ahead=ahead)
        if ahead:
            finished = run_threads(iteration, plans, fetchers=1)
        else:
            finished = run_inline(iteration, plans)
        try:
            yield from finished
        finally:
            finished.close()
            # the garbage collector runs this in the thread that reads, which goes on
            with suppress(ValueError):
                stored.close()

    def _stored(self, epoch: int) -> Generator[Sample]:
        """Return this rank's stored samples of an epoch, shuffled."""
        sources = np.arange(len(self.stream.sources))
        if self.buffer:
            sources = Exact(len(sources), self.seed).take(epoch, sources)
        part = self.stream.part(sources[self.rank :: self.world_size].tolist())
        for round_of_sources in count() if self.steps else range(1):
            mine: Iterable[Sample] = part.stored()
            samples = 0
            # no sample has such a number
            rng = generator(self._rank_key, epoch, LIMIT + round_of_sources)
            if self.buffer:
                mine = shuffle_buffer(mine, self.buffer, rng.integers)
            for sample in mine:
                yield sample
                samples += 1
            if not samples:
                return

    @property
    def _rank_key(self) -> int:
        return derive(ORDER_VERSION, self.seed, self.rank)

    @property
    def _version(self) -> str:
        return f"stream({self.buffer},{self.world_size})/{_STREAM_VERSION}"

    @property
    def _fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.stream.sources).encode()).hexdigest()[:32]

    def state_dict(self) -> dict[str, str | int]:
        """Return the state of training; `samples` counts the samples of this rank.

        Examples:
            >>> loader = bushel.StreamLoader(bushel.open_stream("train/*.tar"), batch_size=5)
            >>> batches = iter(loader)
            >>> batch = next(batches)
            >>> loader.state_dict()["samples"]
            5
        """
        state = LoaderState(
            self._version,
            self._fingerprint,
            self.seed,
            self._progress.epoch,
            self._progress.samples,
        )
        return state.to_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state of the same rank: the next `for` yields the rest of its epoch.

        Raises:
            StateError: The state belongs to other sources, another buffer or number of ranks, or is
                not a state.

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
        loaded.check(version=self._version, fingerprint=self._fingerprint)
        loaded.check_samples(LIMIT)
        self._set(seed=loaded.seed)
        self._go_to(Progress.at(loaded.epoch, loaded.samples))


def _plans(epoch: int, start: int, size: int) -> Iterator[BatchPlan]:
    """Yield plans without end: the length of a stream is unknown."""
    for first in count(start, size):
        numbers = np.arange(first, first + size)
        yield BatchPlan(epoch, numbers, numbers, first + size)


class _StreamPipeline(Pipeline, frozen=True):
    """A pipeline that does not try a failed read again."""

    def _fetch(
        self, plan: BatchPlan, fields: Any, held: HeldBatch | None = None, room: Room | None = None
    ) -> list[Sample | Failure]:
        return [*self.source.dataset.read(plan.samples)]


class _StreamReader:
    """A stream with the methods of a dataset that batches need. Positions are numbers in the order of reading.

    One thread reads, always the next samples; others decode.
    """

    spec: Mapping[str, str] = {}
    keys: Sequence[str] = ()

    def __init__(self, stream: StreamDataset, samples: Iterator[Sample], skipped: int) -> None:
        self._stream, self._samples, self._skipped = stream, samples, skipped

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Do nothing: a stream cannot be prefetched."""

    def read(self, positions: Any, fields: Any = None, *, decode: bool = False) -> list[Sample]:
        """Return the next samples; fewer at the end."""
        skipped, self._skipped = self._skipped, 0
        for _ in islice(self._samples, skipped):
            pass
        return list(islice(self._samples, len(positions)))

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: Any,
        encoded: Collection[str] = (),
        fields: Any = None,
    ) -> list[Sample]:
        """Decode samples."""
        return [self._stream.decode_sample(sample, encoded) for sample in stored]

    def location(self, position: int, field: str) -> tuple[None, None]:
        """Return None: a stream does not know where a sample was."""
        return None, None
