"""What `Loader` and `StreamLoader` share: keyword arguments, epochs, state and rank."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, TypedDict, get_args

from bushel.core.parallel import cpu_count
from bushel.errors import StateError
from bushel.loader.bad_samples import BadSample, ErrorReport, OnError, error_limit
from bushel.loader.batch_arrays import BufferPool
from bushel.loader.collate import Collate
from bushel.loader.outputs import Output, To
from bushel.loader.pipeline import Clock, Finished
from bushel.loader.run import PrefetchWindow
from bushel.loader.stats import LoaderStats
from bushel.transforms.by_field import Transforms

__all__ = ["LoaderBase", "LoaderState", "Options", "Progress", "SharedArguments", "detect_rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The keyword arguments that all loaders share, with their defaults. `Loader` documents them."""

    seed: int = 0
    transforms: Transforms | None = None
    rank: int | None = None
    world_size: int | None = None
    workers: int | None = None
    processes: int = 0
    on_error: OnError = "raise"
    max_errors: float | None = 100
    collate: Collate | None = None
    batch_transform: Callable[[Any], Any] | None = None
    reducing_gap: float | None = 2.0
    prefetch: int | None = None
    prefetch_bytes: int = 1 << 30
    to: To = "numpy"
    pin_memory: bool = False
    device: Any = None


class SharedArguments(TypedDict, total=False):
    """The types of `Options`, for the signatures of loaders."""

    seed: int
    transforms: Transforms | None
    rank: int | None
    world_size: int | None
    workers: int | None
    processes: int
    on_error: OnError
    max_errors: float | None
    collate: Collate | None
    batch_transform: Callable[[Any], Any] | None
    reducing_gap: float | None
    prefetch: int | None
    prefetch_bytes: int
    to: To
    pin_memory: bool
    device: Any


@dataclass(slots=True)
class Progress:
    """The progress of one iteration. Each `for` has its own, so an old iterator cannot change a newer one.

    Attributes:
        epoch: Number of the epoch.
        start: Positions of the epoch that were consumed before the iteration.
        samples: Positions of the epoch that are consumed.
        given: Number of batches that the iteration gave to the trainer.
    """

    epoch: int
    start: int = 0
    samples: int = 0
    given: int = 0

    @classmethod
    def at(cls, epoch: int, samples: int = 0) -> Progress:
        """Return the progress of an iteration that starts in an epoch after this many samples."""
        return cls(epoch, samples, samples)


class LoaderBase:
    """Base class of `Loader` and `StreamLoader`.

    Attributes:
        rank: Rank of this process among the training processes.
        world_size: Number of training processes.
    """

    _is_single = False  # whether the trainer gets single samples instead of batches

    def __init_subclass__(cls) -> None:
        """Let `help` and editors show the shared keyword arguments in the signature of a loader."""
        own = inspect.signature(cls.__init__)
        named = [one for one in own.parameters.values() if one.name != "self" and one.kind != one.VAR_KEYWORD]
        cls.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*named, *inspect.signature(Options).parameters.values()], return_annotation=own.empty
        )

    def __init__(self, options: Options, samples: int | None, *, least_workers: int) -> None:
        """Check the shared arguments.

        Args:
            options: The shared arguments.
            samples: Number of samples; None if it is unknown.
            least_workers: Minimum number of worker threads.
        """
        if options.on_error not in get_args(OnError):
            raise ValueError(f"unknown on_error={options.on_error!r}: expected {', '.join(get_args(OnError))}")
        if options.processes < 0:
            raise ValueError(f"processes={options.processes}: expected 0 or more")
        workers = max(1, cpu_count() // max(1, options.processes)) if options.workers is None else options.workers
        if workers < least_workers:
            raise ValueError(f"workers={workers}: expected {least_workers} or more")
        if options.prefetch is not None and options.prefetch < 1:
            raise ValueError(f"prefetch={options.prefetch}: expected 1 or more batches")
        self.rank, self.world_size = detect_rank(options.rank, options.world_size)
        self._workers, self._processes = workers, options.processes
        self._window = PrefetchWindow.of(options.prefetch, options.prefetch_bytes)
        self._pool = BufferPool(self._window.most_bytes)
        self._output = Output(options.to, options.pin_memory, options.device)
        self._report, self._clock = ErrorReport(error_limit(options.max_errors, samples)), Clock()
        self._progress = Progress.at(0)
        self._started = False  # whether a `for` has started the epoch of `_progress`

    @property
    def epoch(self) -> int:
        """The epoch of the current iteration, or of the next one if none is running."""
        return self._progress.epoch

    @property
    def errors(self) -> list[BadSample]:
        """The bad samples that this process has met, each once, by position."""
        return self._report.bad_samples()

    def __iter__(self) -> Generator[Any]:
        """Start the next epoch, or the rest of the epoch that `load_state_dict` or `skip` led to.

        If the last iteration was left after at most one batch, as by `next(iter(loader))`, start the same epoch again.
        """
        if self._started:
            last = self._progress
            is_look = last.given <= 1
            self._progress = Progress.at(last.epoch, last.start) if is_look else Progress.at(last.epoch + 1)
        self._started = True
        return self._iterate(self._progress)

    def _iterate(self, progress: Progress) -> Generator[Any]:
        finished = self._run(progress)
        asked = perf_counter()
        try:
            for step in finished:
                if step.past_end:
                    break
                self._clock.add({"bytes": step.stored_bytes, "batches": 1})
                whole = (step.consumed, step.batch, step.samples)
                for consumed, batch, samples in self._single(progress.samples, step) if self._is_single else (whole,):
                    progress.samples = consumed
                    got = perf_counter()
                    self._clock.add({"waiting": got - asked, "samples": samples})
                    if batch is not None:
                        progress.given += 1
                        yield batch
                    del batch
                    asked = perf_counter()
                    self._clock.add({"training": asked - got})
                del step
        finally:
            finished.close()
        if progress is self._progress:
            self._progress, self._started = Progress.at(progress.epoch + 1), False

    def _run(self, progress: Progress) -> Generator[Finished]:
        """Yield the batches of an epoch from `progress` on."""
        raise NotImplementedError

    def _single(self, consumed: int, step: Finished) -> Iterator[tuple[int, Any, int]]:
        """Yield the samples of a read one by one: positions consumed then, the sample, and 1 (0 if it was skipped)."""
        raise NotImplementedError

    def stats(self) -> LoaderStats:
        """Return where the time went so far, in this process and its worker processes. Print it for advice.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> batches = list(loader)
            >>> loader.stats().samples
            12
        """
        threads = self._workers * max(1, self._processes)
        return LoaderStats.of(self._clock.read(), errors=len(self.errors), threads=threads, cpus=cpu_count())


@dataclass(frozen=True, slots=True)
class LoaderState:
    """A place in a training run.

    Attributes:
        version: Kind, parameters and version of the order, such as `exact/1`.
        fingerprint: Fingerprint of the dataset.
        seed: Seed of the order and the transforms.
        epoch: Number of the epoch, from 0.
        samples: Positions of that epoch that all ranks together have given to the trainer.

    Examples:
        >>> from bushel.loader import LoaderState
        >>> state = LoaderState.from_dict(bushel.Loader(ds, 4, shuffle=True).state_dict())
        >>> state.version, state.epoch
        ('exact/1', 0)
    """

    version: str
    fingerprint: str
    seed: int
    epoch: int
    samples: int

    def to_dict(self) -> dict[str, str | int]:
        """Return the state as plain values, for any checkpoint format."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> LoaderState:
        """Return the state that `to_dict` gave as a dict.

        Raises:
            StateError: A value is missing, of another type, or negative.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"the state is a {type(state).__name__}: expected the dict that state_dict() returned")
        return cls(
            _text(state, "version"),
            _text(state, "fingerprint"),
            _count(state, "seed"),
            _count(state, "epoch"),
            _count(state, "samples"),
        )

    def check(self, *, version: str, fingerprint: str, samples: int) -> None:
        """Check that the state fits the loader that will continue from it.

        Args:
            version: The version of the loader's order.
            fingerprint: The fingerprint of its dataset.
            samples: The number of samples in an epoch.

        Raises:
            StateError: The state belongs to another dataset or another order.
        """
        if self.fingerprint != fingerprint:
            raise StateError(
                f"the state belongs to another dataset (fingerprint {self.fingerprint} instead of {fingerprint}). "
                f"Open the same dataset, or start without the state"
            )
        if self.version != version:
            raise StateError(
                f"the state belongs to the order {self.version!r}, but this loader has {version!r}. Give the same "
                f"shuffle= as then, or finish the epoch with the release of bushel that saved the state"
            )
        if self.samples > samples:
            raise StateError(f"the state says {self.samples} samples consumed, but an epoch has only {samples}")


def _text(state: Mapping[str, object], name: str) -> str:
    text = state.get(name)
    if not isinstance(text, str):
        raise StateError(f"{name!r} of the state is {text!r}: expected a str, as state_dict() returned it")
    return text


def _count(state: Mapping[str, object], name: str) -> int:
    count = state.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 1 << 64:
        raise StateError(f"{name!r} of the state is {count!r}: expected a count, as state_dict() returned it")
    return count


def detect_rank(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """Return the rank of this process and the number of training processes.

    They come from the arguments; else from torch.distributed or a JAX cluster, if the program has initialised one; else
    from the environment variables `RANK` and `WORLD_SIZE`; else they are 0 and 1.

    Raises:
        ValueError: Only one of the two is given, or `rank` is not between 0 and `world_size` - 1.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank={rank}, world_size={world_size}: give both or neither")
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_jax() or _from_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of world_size={world_size}: expected 0 to {world_size - 1}")
    return rank, world_size


def _from_torch() -> tuple[int, int] | None:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    # outside a cluster, jax.process_count() would initialise the devices
    if jax is None or not getattr(jax.distributed, "is_initialized", bool)():
        return None
    return jax.process_index(), jax.process_count()


def _from_environment() -> tuple[int, int] | None:
    given = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if given == (None, None):
        return None
    try:
        return int(given[0] or ""), int(given[1] or "")
    except ValueError:
        raise ValueError(
            f"the environment has RANK={given[0]!r} and WORLD_SIZE={given[1]!r}: set both to numbers, unset both, or "
            f"give Loader(rank=, world_size=)"
        ) from None
