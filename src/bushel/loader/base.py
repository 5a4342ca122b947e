"""The shared base of the loaders: ranks, epochs, `peek`, statistics, bad samples, and how notebooks show them."""

from __future__ import annotations

import atexit
import os
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import fields
from threading import current_thread, main_thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Generic
from weakref import WeakSet

from msgspec import Struct

from bushel._runtime.arrays import check_count, python_numbers
from bushel._runtime.messages import warn
from bushel._runtime.threads import Clock, cpu_count
from bushel.errors import TooManyErrors, UnsupportedError, error_limit
from bushel.loader.read.batch_arrays import BufferPool
from bushel.loader.run.pipeline import Pipeline
from bushel.loader.run.stats import LoaderStats
from bushel.loader.run.threads import Iteration, PrefetchWindow
from bushel.loader.values.bad_samples import BadSample, ErrorReport
from bushel.loader.values.collate import Batch
from bushel.loader.values.outputs import Finished, Output

from .options import BatchOptions, check_shared


def detect_rank(
    rank: int | None = None, world_size: int | None = None, *, may_change: bool = False
) -> tuple[int, int]:
    """Return the rank of this process and the number of training processes.

    They come from the arguments; else from torch.distributed or a JAX cluster, if the program has
    initialised one; else from the environment variables `RANK` and `WORLD_SIZE`; else they are 0
    and 1.

    Args:
        rank: The rank, if it is given.
        world_size: The number of processes, if it is given.
        may_change: Whether they will be looked up again. Then `WORLD_SIZE` alone, which Lightning
            sets in the processes that it starts, is not an error yet.

    Raises:
        TypeError: One is not a whole number.
        ValueError: Only one of the two is given, or `rank` is not between 0 and `world_size` - 1.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank={rank}, world_size={world_size}: give both or neither")
    if rank is None or world_size is None:
        detected = _from_torch() or _from_jax() or _from_environment(may_change=may_change)
        if detected is None:
            return 0, 1
        rank, world_size = detected
    size = check_count("world_size", world_size, least=1)
    return check_count("rank", rank, most=size - 1, instead=f" in world_size={size}"), size


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


def _from_environment(*, may_change: bool) -> tuple[int, int] | None:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and (world_size is None or may_change):
        return None
    try:
        return int(rank or ""), int(world_size or "")
    except ValueError:
        raise ValueError(
            f"the environment has RANK={rank!r} and WORLD_SIZE={world_size!r}: "
            "set both to numbers, unset both, or give Loader(rank=, world_size=)"
        ) from None


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Batch)
    """A batch: a dict of fields, unless a function makes something else of it."""
else:  # the default of a type is for type checkers only
    Item = typing.TypeVar("Item")


INSTEAD = {
    "batch_transform=function of the loader": "map apply",
    "batch_size=n of the loader": "batch batched",
    "shuffle=True of the loader": "sampler",
    "loader.collate": "collate_fn",
    "loader.epoch = 0": "reset",
    "loader.epoch = n": "set_epoch",
    "loader.load_state_dict(state)": "load_state set_state resume restore load",
    "loader.state_dict()": "state get_state save checkpoint",
    "loader.threads or loader.processes": "num_workers workers",
    "next(iter(loader)), or loader.peek() for a batch that is not counted": "next get_batch",
}
"""What to write instead of methods that loaders of other libraries have."""


class Progress(Struct):
    """The progress of one iteration. Each `for` has its own, so an old iterator cannot change a newer one.

    Attributes:
        epoch: Number of the epoch.
        start: Positions of the epoch that were consumed before the iteration.
        samples: Positions of the epoch that are consumed.
        batches: Number of batches that the iteration gave to the trainer.
    """

    epoch: int
    start: int = 0
    samples: int = 0
    batches: int = 0

    @classmethod
    def at(cls, epoch: int, samples: int = 0) -> Progress:
        """Return the progress of an iteration that starts in an epoch after this many samples."""
        return cls(epoch, samples, samples)


class LoaderBase(BatchOptions, ABC, Generic[Item]):
    """Base class of `Loader` and `StreamLoader`: their options, and the progress of training."""

    _is_single = False  # whether the trainer gets single samples instead of batches
    _resuming: ClassVar[Mapping[str, bool]] = {}
    """The options of `load_state_dict` for a copy of the loader."""

    def _prepare(self, samples: int | None, *, least_threads: int) -> None:
        """Check the shared options, and resolve their defaults.

        Args:
            samples: Number of samples; None if it is unknown.
            least_threads: Minimum number of worker threads.
        """
        # states with numbers of Python can be stored as JSON
        self._given = {
            field.name: python_numbers(getattr(self, field.name)) for field in fields(self)
        }
        self._set(**self._given)
        check_shared(self)
        if self.threads is None:
            self._threads = max(1, cpu_count() // max(1, self.processes))
        else:
            self._threads = self.threads
        check_count("threads", self._threads, least=least_threads)
        rank, world_size = detect_rank(self.rank, self.world_size, may_change=True)
        self._set(rank=rank, world_size=world_size)
        self._gave_batches = self._warned = False
        self._pool = BufferPool(self.prefetch_bytes)
        self._output = Output(self.to, self.pin_memory, self.device)
        self._report, self._clock = ErrorReport(error_limit(self.max_errors, samples)), Clock()
        self._progress = Progress(0)
        self._started = False  # whether a `for` has started the epoch of `_progress`

    def _set(self, **options: Any) -> None:
        """Replace options by their resolved values. Users cannot change them."""
        for name, value in options.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the loader as its options and state: the copy continues independently from the same place."""
        return _restored, (type(self), self._given, self.state_dict(), self._resuming)

    @property
    def epoch(self) -> int:
        """The epoch of the last `for`, or of the next one if that has ended. Set it to go to the start of an epoch.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> loader.epoch = 3
            >>> batches = list(loader)
            >>> loader.epoch
            4
        """
        return self._progress.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._go_to(Progress.at(check_count("epoch", epoch, most=(1 << 64) - 1)))

    @property
    def errors(self) -> list[BadSample]:
        """The bad samples that this process has met, each once, by position."""
        return self._report.bad_samples()

    def __iter__(self) -> Generator[Item]:
        """Iterate over the next epoch, or over the rest of the one that `load_state_dict` or `skip` led to.

        The epoch starts with the first batch that is asked for. However early the loop is left, the
        next one is that of the next epoch; `peek` gives a batch that is not counted.
        """
        self._follow_rank()
        self._progress, self._started = self._next(), True
        self._warn_of_unequal_steps(self._progress)
        self._gave_batches = True
        return (yield from self._iterate(self._progress))

    def _follow_rank(self) -> None:
        """Look up rank and world size again, unless they were given: a process group may have been started since.

        Raises:
            UnsupportedError: They have changed since the trainer was given batches.
        """
        if self._given["rank"] is not None:
            return
        rank, world_size = detect_rank()
        if (rank, world_size) == (self.rank, self.world_size):
            return
        if self._gave_batches:
            raise UnsupportedError(
                f"this process was rank {self.rank} of {self.world_size} when "
                f"it was given batches, and is rank {rank} of {world_size} "
                "now: make another loader, and give it this one's state_dict()"
            )
        self._set(rank=rank, world_size=world_size)
        self._use_rank()

    def _use_rank(self) -> None:
        """Check and follow another rank and world size."""

    def _warn_of_unequal_steps(self, progress: Progress) -> None:
        """Say once, on the first rank, that the ranks have unequal steps."""
        if self.world_size == 1 or self.rank or self._warned:
            return
        if (reason := self._unequal_steps(progress)) is not None:
            self._warned = True
            warn(reason)

    def _unequal_steps(self, progress: Progress) -> str | None:
        """Return why the ranks may have unequal steps in an epoch, and what to do; None if they are equal."""
        return None

    def _next(self) -> Progress:
        """Return the progress at which the next `for` starts."""
        if self._started:
            return Progress.at(self._progress.epoch + 1)
        return self._progress

    def _go_to(self, progress: Progress) -> None:
        """Let the next `for` start at this progress."""
        self._progress, self._started = progress, False

    def _iterate(self, progress: Progress) -> Generator[Item]:
        finished = self._run(progress)
        if current_thread() is main_thread():
            _of_main_thread.add(finished)
        request_time, training = perf_counter(), 0.0
        try:
            for step in finished:
                if step.past_end:
                    break
                counts: dict[str, float] = {"stored_bytes": step.stored_bytes, "batches": 1}
                for consumed, batch, samples in self._parts(progress, step):
                    progress.samples = consumed
                    got = perf_counter()
                    counts |= {
                        "waiting": got - request_time,
                        "samples": samples,
                        "training": training,
                    }
                    self._clock.add(counts)
                    self._clock.sum_up()
                    counts = {}
                    if batch is not None:
                        progress.batches += 1
                        yield batch
                    del batch
                    request_time = perf_counter()
                    training = request_time - got
                del step
            self._clock.add({"training": training})
        finally:
            finished.close()
        if progress is self._progress:
            self._go_to(Progress.at(progress.epoch + 1))
        if progress.batches or progress.start:
            return
        if bad := self.errors:
            raise TooManyErrors(
                f"no sample of epoch {progress.epoch} could be used, "
                f"with on_error={self.on_error!r}; the first is "
                f"{bad[0]}. The loader's `errors` has all {len(bad)}"
            )
        if (reason := self._without_batches()) is not None:
            warn(f"epoch {progress.epoch} has no batch: {reason}")

    def _without_batches(self) -> str | None:
        """Return why an epoch of a dataset with samples has no batch, and what to do; None if it should have some."""
        return None

    def peek(self) -> Item:
        """Return the first batch of the next `for`, without counting it. A notebook shows it as a table.

        The batch is made in this thread. Epoch, state, `stats()` and `errors` stay as they are.

        Raises:
            ValueError: The next `for` has no batch.
            UnsupportedError: It is the state of a stream that can be read only once.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> loader.peek()["image"].shape, loader.state_dict()["samples"]
            ((4, 48, 64, 3), 0)
        """
        self._follow_rank()
        progress = self._next()
        finished = self._run(progress, ahead=False)
        for batch in self._batches_of(progress, finished):
            return batch
        raise ValueError(
            f"epoch {progress.epoch} has no batch to peek at after {progress.samples} samples"
        )

    def _batches_of(self, progress: Progress, finished: Generator[Finished]) -> Iterator[Item]:
        """Yield the batches or samples of a run that are not left out."""
        with closing(finished):
            for step in finished:
                if step.past_end:
                    return
                for _, batch, _ in self._parts(progress, step):
                    if batch is not None:
                        yield batch

    def _parts(self, progress: Progress, step: Finished) -> Iterator[tuple[int, Any, int]]:
        """Yield the items of a read for the trainer: positions consumed then, the batch or sample, and samples in it.

        A sample that was skipped, and a batch of such samples, is None.
        """
        if self._is_single:
            yield from self._single(progress, step)
        else:
            yield step.consumed, step.batch, step.samples

    def _single(self, progress: Progress, step: Finished) -> Iterator[tuple[int, Any, int]]:
        """Yield the samples of a read one by one."""
        raise NotImplementedError

    def _iteration(self, pipeline: Pipeline, *, ahead: bool) -> Iteration:
        """Return the arguments of the functions that make batches: see `_run`."""
        report, clock = self._report, self._clock
        threads, prefetch = self._threads, self.prefetch
        if not ahead:
            report, clock = ErrorReport(report.max_errors), Clock()
            threads, prefetch = 0, 1
        window = PrefetchWindow.of(prefetch, self.prefetch_bytes)
        return Iteration(pipeline, report, clock, self._output, self._pool, threads, window)

    @abstractmethod
    def _run(self, progress: Progress, *, ahead: bool = True) -> Generator[Finished]:
        """Yield the batches of an epoch from `progress` on.

        Args:
            progress: Where to start.
            ahead: Whether to make batches ahead, in threads or processes. If not, each is made when
                it is asked for, and neither times nor bad samples are recorded.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, str | int]:
        """Return the state of training."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state."""

    def stats(self) -> LoaderStats:
        """Return statistics of this process and its worker processes so far. Print them for advice.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> batches = list(loader)
            >>> loader.stats().samples
            12
        """
        threads = self._threads * max(1, self.processes)
        return LoaderStats.of(
            self._clock.read(), errors=len(self.errors), threads=threads, cpus=cpu_count()
        )


_of_main_thread: WeakSet[Generator[Finished]] = WeakSet()


@atexit.register
def _end_iterations() -> None:
    """End the iterations that the program leaves open, while modules still have the names that their ends need."""
    for finished in list(_of_main_thread):
        finished.close()


def _restored(
    loader: type[Any],
    options: Mapping[str, Any],
    state: Mapping[str, object],
    resuming: Mapping[str, bool],
) -> Any:
    """Return the loader that was pickled or copied."""
    restored = loader(**options)
    restored.load_state_dict(state, **resuming)
    return restored
