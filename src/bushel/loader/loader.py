"""The loader: batches for training, in a seeded order, from any dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any, get_args

from bushel.codecs.image import ImageReading
from bushel.core.dataset.stream import StreamDataset
from bushel.core.order import Shuffle, check_mixed, make_order
from bushel.core.parallel import cpu_count
from bushel.errors import SpecError, UnsupportedError
from bushel.loader.collate import Collate
from bushel.loader.mixture import Mixture
from bushel.loader.outputs import Output, To
from bushel.loader.pipeline import Finished, Pipeline, Readable
from bushel.loader.plan import Pad, Plan
from bushel.loader.prefetch import PrefetchWindow
from bushel.loader.processes import run_processes
from bushel.loader.ranks import detect_rank
from bushel.loader.report import BadSample, ErrorReport, OnError, error_limit, read_errors, write_errors
from bushel.loader.run import run_inline, run_threads
from bushel.loader.state import LoaderState, Progress
from bushel.loader.stats import Clock, LoaderStats
from bushel.loader.transforms import SampleTransforms
from bushel.transforms.by_field import Transforms

__all__ = ["Loader"]

_TOGETHER = 64  # samples that are read at once when they are handed out one by one


class Loader:
    """Iterates over a dataset in batches. One `for` is one epoch; the next `for` is the next epoch.

    Which samples a batch holds, in which order, and the random numbers of its transforms depend on the seed, the
    epoch and the samples consumed so far, and on nothing else: not on the number of workers, nor on timing.

    Args:
        dataset: What to load from: a dataset, a view of one, or a `Mixture`.
        batch_size: Samples in a batch of this rank. None yields sample after sample, as dicts, uncollated.
        shuffle: `True` or `"exact"`: a permutation of the whole dataset, another in every epoch. `False` (or None):
            as stored. `"blocks"`: in blocks of neighbours, kinder to disks and object stores. Or an order made by
            hand, such as `Blocks(len(dataset), seed, size=1024, window=8)`. A mixture has an order of its own.
        seed: 0 to 2**64 - 1. Keys the order and the randomness of transforms. A mixture and an order made by hand
            bring their own.
        transforms: One transform or a list of them for the only image field, or a mapping of field names to either.
            They are applied one after another to the field's decoded value (a list for a sequence field). A function
            with a parameter named `rng` is given a `numpy.random.Generator` that depends only on (seed, epoch,
            sample). Transforms run in several threads at once.
        fields: The fields to read, as `dataset.read` takes them; None for all.
        rank: Which of the training processes this is; None to find out (torch.distributed, JAX, `RANK`).
        world_size: Number of training processes, given together with `rank`.
        workers: Threads that decode and transform; None for one per CPU that this process may use, shared among
            `processes`; 0 to do everything in the consumer's thread.
        processes: Worker processes that the same work moves to, `workers` threads in each; 0 for none. For transforms
            in pure Python, or when the trainer needs its interpreter for itself. What they run is pickled, so
            functions come from modules that can be imported. Batches lie in shared memory.
        drop_last: Leave out what does not fill a batch for every rank at the end of an epoch.
        pad: `"wrap"` fills the last batches with samples from the epoch's start, so all batches are full and all
            ranks have equally many; None leaves them short, and a rank may have one batch fewer than another.
        on_error: What to do about a sample that cannot be read, decoded or transformed. `"raise"` it; `"skip"` it,
            for a smaller batch; `"replace"` it by the next good sample of the epoch's order, for full batches.
        max_errors: Number of bad samples that `"skip"` and `"replace"` tolerate in this process, in all epochs
            together (int), or a share of the dataset between 0 and 1 (float); None for any number.
        collate: How samples become a batch: a function of the list of samples, or field to rule (see `collate`).
        batch_transform: A function of the finished batch. It runs in worker threads.
        prefetch: Batches that are worked on ahead of the trainer, in each process; None for 2 to 16, more when the
            trainer had to wait and fewer when it long has not.
        prefetch_bytes: Bytes that they may have together, which goes before `prefetch`.
        decode: Whether to decode fields; False gives stored bytes.
        reducing_gap: Where images are resized while they are decoded, let a JPEG's inverse DCT shrink them as long as
            they stay so many times larger than the result, as Pillow does. None for never: then pixels are those of
            the transforms called one by one, within one level.
        orient: Turn and mirror images as their Exif orientation says, before everything else. A codec such as
            `jpg(orient)` does so for its field.
        tolerant: Let damaged JPEGs pass as far as they go, rather than count as bad samples. So does `jpg(tolerant)`.
        exclude: Samples not to read because they are known to be bad: keys, entries of `errors`, or the path of a
            list that `write_errors` wrote. With `on_error="replace"` they are replaced, else skipped.
        to: What arrays of numbers become: `"numpy"`; `"torch"`: tensors that share the arrays' memory; `"jax"`.
        pin_memory: With `"torch"`: page-locked, for fast copies to a GPU.
        device: With `"torch"`: the device that tensors are copied to, before they are asked for; with `"jax"`: a
            device, or a sharding of which this process fills its own part.

    Attributes:
        dataset: As given.
        rank: Of this process.
        world_size: Number of processes.

    Raises:
        SpecError: A transform or rule is for a field that the dataset does not have.
        ValueError: An argument is out of its range.
    """

    def __init__(
        self,
        dataset: Readable | Mixture,
        batch_size: int | None,
        *,
        shuffle: Shuffle | None = None,
        seed: int = 0,
        transforms: Transforms | None = None,
        fields: Any = None,
        rank: int | None = None,
        world_size: int | None = None,
        workers: int | None = None,
        processes: int = 0,
        drop_last: bool = False,
        pad: Pad = None,
        on_error: OnError = "raise",
        max_errors: float | None = 100,
        collate: Collate | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        prefetch: int | None = None,
        prefetch_bytes: int = 1 << 30,
        decode: bool = True,
        reducing_gap: float | None = 2.0,
        orient: bool = False,
        tolerant: bool = False,
        exclude: str | os.PathLike[str] | Iterable[str | BadSample] = (),
        to: To = "numpy",
        pin_memory: bool = False,
        device: Any = None,
    ) -> None:
        if on_error not in get_args(OnError):
            raise ValueError(f"on_error is one of {', '.join(get_args(OnError))}, not {on_error!r}")
        if isinstance(dataset, StreamDataset):
            raise UnsupportedError("a stream is read forward only: bushel.loader.StreamLoader loads from it")
        source = dataset.dataset if isinstance(dataset, Mixture) else dataset
        own = dataset.order if isinstance(dataset, Mixture) else None
        order = make_order(shuffle, len(source), seed) if own is None else check_mixed(own, shuffle, seed)
        if isinstance(collate, Mapping) and (unknown := set(collate) - set(source.spec)):
            raise SpecError(f"collate for {sorted(unknown)}, not in the dataset: it has {', '.join(source.spec)}")
        if batch_size is None and (collate is not None or batch_transform is not None or drop_last or pad):
            raise ValueError("batch_size=None makes no batches: collate, batch_transform, drop_last and pad need them")
        self.dataset = source
        self.rank, self.world_size = detect_rank(rank, world_size)
        self._processes = processes
        self._workers = max(1, cpu_count() // max(1, processes)) if workers is None else workers
        self._window = PrefetchWindow.of(prefetch, prefetch_bytes)
        if processes < 0 or self._workers < (1 if processes else 0) or self._window.least < 1:
            raise ValueError(
                f"processes and workers are at least 0, workers and prefetch at least 1 where there are processes: "
                f"processes={processes}, workers={self._workers}, prefetch={prefetch}"
            )
        size, together = (1, _TOGETHER) if batch_size is None else (batch_size, 1)
        self._plan = Plan(order, size, self.rank, self.world_size, drop_last, pad, together)
        self._output = Output(to, pin_memory, device)
        self._pipeline = Pipeline(
            source,
            order,
            fields,
            decode,
            SampleTransforms.of(
                transforms,
                source.spec,
                decode=decode,
                reducing_gap=reducing_gap,
                reading=ImageReading(orient, tolerant),
            ),
            collate,
            batch_transform,
            on_error,
            _positions(source, exclude),
            batched=batch_size is not None,
        )
        self._report, self._clock = ErrorReport(error_limit(max_errors, len(source))), Clock()
        self._progress = Progress(0)
        self._begun = False  # whether the epoch of `_progress` has been given out by a `for`

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        return self._plan.steps()

    @property
    def epoch(self) -> int:
        """The epoch being iterated, or about to be."""
        return self._progress.epoch

    @property
    def seed(self) -> int:
        """What keys the order and the transforms."""
        return self._plan.order.seed

    @property
    def errors(self) -> list[BadSample]:
        """The bad samples met by this process so far, each once, by position in the dataset."""
        return self._report.bad_samples()

    def __iter__(self) -> Generator[Any]:
        """Begin an epoch: the next one, or the rest of the one that `load_state_dict` or `skip` led to."""
        if self._begun:
            self._progress = Progress(self._progress.epoch + 1)
        self._begun = True
        return self._iterate(self._progress)

    def _iterate(self, progress: Progress) -> Generator[Any]:
        finished = self._run(progress)
        asked = perf_counter()
        try:
            for step in finished:
                self._clock.add({"bytes": step.stored_bytes, "batches": 1})
                for consumed, batch, samples in self._parts(progress.samples, step):
                    progress.samples = consumed
                    got = perf_counter()
                    self._clock.add({"waiting": got - asked, "samples": samples})
                    if batch is not None:
                        yield batch
                    del batch
                    asked = perf_counter()
                    self._clock.add({"training": asked - got})
                del step
        finally:
            finished.close()
        if progress is self._progress:
            self._progress, self._begun = Progress(progress.epoch + 1), False

    def _parts(self, consumed: int, step: Finished) -> Iterator[tuple[int, Any, int]]:
        """What is consumed by then, what is handed to the trainer at once, and the samples in it."""
        if self._pipeline.batched:
            yield step.consumed, step.batch, step.samples
        else:
            for number, sample in enumerate(step.batch, 1):
                yield self._plan.consumed(consumed, number), sample, sample is not None

    def _run(self, progress: Progress) -> Generator[Finished]:
        if self._processes:
            return run_processes(
                self._pipeline,
                self._plan,
                progress.epoch,
                progress.samples,
                self._report,
                self._clock,
                self._output,
                processes=self._processes,
                workers=self._workers,
                window=self._window,
            )
        plans = self._plan.batches(progress.epoch, progress.samples)
        if not self._workers:
            return run_inline(self._pipeline, plans, self._report, self._clock, self._output)
        return run_threads(
            self._pipeline,
            plans,
            self._report,
            self._clock,
            self._output,
            workers=self._workers,
            window=self._window,
        )

    def write_errors(self, path: str | os.PathLike[str]) -> None:
        """Write `errors` to a file, one JSON object a line, to be given to `exclude=` later."""
        write_errors(path, self.errors)

    def stats(self) -> LoaderStats:
        """Where the time went so far, in this process and its worker processes, and what to change; print it."""
        threads = self._workers * max(1, self._processes)
        return LoaderStats.of(self._clock.read(), errors=len(self.errors), threads=threads, cpus=cpu_count())

    def state_dict(self) -> dict[str, str | int]:
        """Where the trainer is: what it has been given, not what is prefetched. The same on all ranks."""
        place = self._place()
        order = self._plan.order
        return LoaderState(order.version, self._fingerprint, order.seed, place.epoch, place.samples).to_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state: the next `for` yields what is left of its epoch.

        The number of ranks and workers and the batch size may be others than when it was saved. The seed is taken
        from the state.

        Raises:
            StateError: The state is of another dataset or another order, or is no state.
        """
        loaded = LoaderState.from_dict(state)
        order = self._plan.order
        loaded.check(version=order.version, fingerprint=self._fingerprint, samples=order.samples)
        order = replace(order, seed=loaded.seed)
        self._plan, self._pipeline = replace(self._plan, order=order), replace(self._pipeline, order=order)
        self._progress, self._begun = Progress(loaded.epoch, loaded.samples), False

    def skip(self, steps: int) -> None:
        """Go on by that many batches of every rank without reading them, into following epochs if need be.

        The next `for` begins there.
        """
        if steps < 0:
            raise ValueError(f"a loader goes forward only: skip({steps})")
        place = self._place()
        left, whole = self._plan.all_steps(place.samples), self._plan.all_steps(0)
        if steps and not whole:
            raise ValueError("the epochs of this loader have no batches to skip")
        if steps >= left:
            epochs, steps = divmod(steps - left, whole) if whole else (0, 0)
            place = Progress(place.epoch + 1 + epochs)
        self._progress, self._begun = Progress(place.epoch, self._plan.consumed(place.samples, steps)), False

    @cached_property
    def _fingerprint(self) -> str:
        return self.dataset.fingerprint  # of a view, it takes a while

    def _place(self) -> Progress:
        """The progress, where the end of an epoch is the start of the next."""
        progress = self._progress
        over = self._begun and progress.samples and self._plan.is_over(progress.samples)
        return Progress(progress.epoch + 1) if over else progress


def _positions(dataset: Readable, exclude: str | os.PathLike[str] | Iterable[str | BadSample]) -> frozenset[int]:
    if isinstance(exclude, str | os.PathLike):
        exclude = read_errors(exclude)
    try:
        return frozenset(dataset.position(one.key if isinstance(one, BadSample) else one) for one in exclude)
    except KeyError as error:
        raise ValueError(f"exclude names a sample that is not in the dataset: {error.args[0]}") from error
