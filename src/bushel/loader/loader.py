"""`Loader`: batches for training, in a seeded order, from any dataset."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Unpack

import numpy.typing as npt

from bushel.codecs.image import ImageReading
from bushel.core.dataset.stream import StreamDataset
from bushel.core.order import Order, Shuffle, check_mixed, make_order
from bushel.errors import SpecError, UnsupportedError
from bushel.loader.bad_samples import BadSample, read_errors, write_errors
from bushel.loader.base import LoaderBase, LoaderState, Options, Progress, SharedArguments
from bushel.loader.bucket_plan import BucketPlan
from bushel.loader.bucketed import BatchSizes
from bushel.loader.grouped import run_batches
from bushel.loader.loadable import Loadable
from bushel.loader.micro_batch import SampleTransforms
from bushel.loader.mixture import Mixture
from bushel.loader.pipeline import Finished, Pipeline
from bushel.loader.plan import Pad, Plan
from bushel.loader.processes import run_processes
from bushel.loader.sampling import order_of_buckets, sampled_order

__all__ = ["Loader"]

_SAMPLES_PER_READ = 64  # without a batch size


class Loader(LoaderBase):
    """Iterates over a dataset in batches. One `for` is one epoch; the next `for` is the next epoch.

    The samples of a batch, their order and the random numbers of transforms depend only on the seed, the epoch and the
    number of samples consumed: not on the number of workers, nor on timing.

    To look at one batch does not use up an epoch: if a loop ends after at most one batch, as with
    `next(iter(loader))`, the next `for` starts the same epoch.

    Args:
        dataset: The source of samples: a dataset, a view of one, or a `Mixture`.
        batch_size: Number of samples in a batch of this rank. None yields single samples, as dicts. With `bucket_by` it
            is the largest number; None for no limit but `batch_tokens`; or a mapping of the largest length in each
            bucket to its batch size, such as `{128: 64, 512: 16}`.
        shuffle: True or `"exact"` for a permutation of the whole dataset, another in every epoch; False or None (the
            default) for the stored order; `"blocks"` for blocks of neighbouring samples, which suits disks and object
            stores; or an order such as `Blocks(len(dataset), seed, size=1024, window=8)`. A mixture has its own order.
        weights: Draw samples at random, with replacement, each with a probability in proportion to its weight: an array
            with a number for each sample, or the name of a column of the index. An epoch has as many draws as there
            are samples.
        balance: Draw the classes in this column of the index, such as `label`, equally often. A class starts again,
            in another order, after all of its samples were drawn; samples without a class are not drawn. An epoch has
            as many draws as there are samples.
        bucket_by: Make batches of samples of similar length, in random order: a column of the index with the lengths,
            such as `tokens.length`, or an array with a number for each sample. All ranks have equally many batches.
        batch_tokens: With `bucket_by`: the number of samples in a batch, multiplied by the longest of them, is at most
            this number.
        fields: The fields to read, as for `Dataset.read`; None for all.
        drop_last: Whether to leave out the samples at the end of an epoch that do not fill a batch on every rank. With
            `bucket_by`: those at the end of each bucket.
        pad: `"wrap"` fills the last batches with samples from the start of the epoch, so that all batches are full
            and all ranks have equally many. None leaves them short; then ranks may differ by one batch. With
            `bucket_by`, it gives whole batches to all ranks at the last step, which are divided otherwise.
        decode: Whether to decode fields. False gives stored bytes.
        keys: Whether batches and samples have their keys under `__key__`. Small records load faster without.
        orient: Whether to rotate and mirror images as their Exif orientation says, before any transform. A codec such
            as `jpg(orient)` does the same for its field.
        tolerant: Whether to decode damaged JPEGs as far as possible instead of counting them as bad samples. A codec
            such as `jpg(tolerant)` does the same for its field.
        exclude: Samples to leave out because they are known to be bad: keys, entries of `errors`, or the path of a
            list that `write_errors` wrote. `on_error="replace"` replaces them; otherwise they are skipped.
        seed: Seed of the order and of random transforms, 0 to 2**64 - 1. A mixture and an order object have their own.
        transforms: One transform or a list of them for the only image field, or a mapping of field names to either.
            They are applied one after another to the field's decoded value (a list for a sequence field). A function
            with a parameter named `rng` gets a `numpy.random.Generator` that depends only on (seed, epoch, sample).
            Transforms run in several threads at once.
        rank: Rank of this process among the training processes; None to detect it (torch.distributed, JAX, `RANK`).
        world_size: Number of training processes; give it together with `rank`.
        workers: Number of threads that decode and transform. None for one per CPU that this process may use, divided
            by `processes`; 0 to do all work in the consumer's thread.
        processes: Number of worker processes, each with `workers` threads; 0 for none. Use them for transforms in pure
            Python, or if the trainer needs its interpreter for itself. The dataset, transforms and collate functions
            are pickled, so functions must come from modules that can be imported. Batches lie in shared memory.
        on_error: What to do with a sample that cannot be read, decoded or transformed: `"raise"` the error, `"skip"`
            the sample, so that the batch is smaller, or `"replace"` it with the next good sample of the epoch.
        max_errors: Number of bad samples that `"skip"` and `"replace"` tolerate in this process, in all epochs
            together (int), or a share of the dataset between 0 and 1 (float); None for no limit.
        collate: How samples become a batch: a function of the list of samples, or a mapping of fields to rules (see
            `collate`).
        batch_transform: Function that is applied to each finished batch, in a worker thread.
        reducing_gap: Let a JPEG's inverse DCT shrink an image that is resized, while it stays this many times larger
            than the result, as Pillow does. None turns this off; pixels then equal those of the single transforms
            within one level.
        prefetch: Number of batches that are worked on before the trainer asks for them, in each process. None for 2 to
            16: more after the trainer had to wait, fewer after it has not waited for long.
        prefetch_bytes: Limit of their size together, in bytes. It takes precedence over `prefetch`. From an object
            store, stored bytes of later batches are read ahead, too, of at most half of this size.
        to: Type of the arrays of numbers in a batch: `"numpy"`; `"torch"` for tensors that share the arrays' memory;
            `"jax"`.
        pin_memory: With `"torch"`: whether to use page-locked memory, for fast copies to a GPU.
        device: With `"torch"`: the device to copy tensors to, one batch ahead. With `"jax"`: a device, or a sharding
            of which this process fills its part.

    Attributes:
        dataset: The dataset; of a mixture, all of its datasets together.
        rank: Rank of this process.
        world_size: Number of training processes.

    Raises:
        SpecError: A transform or a collate rule is for a field that the dataset does not have.
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of its range, or a sample is longer than `bucket_by` allows.
        KeyError: There is no column of the name in `weights`, `balance` or `bucket_by`.

    Examples:
        >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True, seed=0)
        >>> for batch in loader:
        ...     print(batch["image"].shape, batch["label"].dtype)
        (4, 48, 64, 3) int64
        (4, 48, 64, 3) int64
        (4, 48, 64, 3) int64
    """

    def __init__(
        self,
        dataset: Loadable | Mixture,
        batch_size: BatchSizes = None,
        *,
        shuffle: Shuffle = None,
        weights: str | npt.ArrayLike | None = None,
        balance: str | None = None,
        bucket_by: str | npt.ArrayLike | None = None,
        batch_tokens: float | None = None,
        fields: Any = None,
        drop_last: bool = False,
        pad: Pad = None,
        decode: bool = True,
        keys: bool = True,
        orient: bool = False,
        tolerant: bool = False,
        exclude: str | os.PathLike[str] | Iterable[str | BadSample] = (),
        **shared: Unpack[SharedArguments],
    ) -> None:
        if isinstance(dataset, StreamDataset):
            raise UnsupportedError("a stream can only be read forward: load it with bushel.StreamLoader")
        options = Options(**shared)
        source = dataset.dataset if isinstance(dataset, Mixture) else dataset
        super().__init__(options, len(source), least_workers=1 if options.processes else 0)
        self._is_single = batch_size is None and bucket_by is None
        if bucket_by is not None:
            if isinstance(dataset, Mixture) or weights is not None or balance is not None:
                raise ValueError("bucket_by= has an order of its own: leave out weights= and balance=, and do not mix")
            buckets = order_of_buckets(
                source, bucket_by, batch_size, batch_tokens, shuffle, drop_last=drop_last, seed=options.seed
            )
            self._plan: Plan | BucketPlan = BucketPlan(buckets, self.rank, self.world_size, drop_last, pad)
        else:
            if batch_tokens is not None or isinstance(batch_size, Mapping):
                raise ValueError("batch_tokens= and a batch size per bucket need bucket_by=, such as 'tokens.length'")
            order = _order(dataset, source, shuffle, weights, balance, options.seed)
            size, steps_per_read = (1, _SAMPLES_PER_READ) if batch_size is None else (batch_size, 1)
            self._plan = Plan(order, size, self.rank, self.world_size, drop_last, pad, steps_per_read)
        collate, batch_transform = options.collate, options.batch_transform
        if isinstance(collate, Mapping) and (unknown := set(collate) - set(source.spec)):
            raise SpecError(f"collate= names the fields {sorted(unknown)}, but the fields are {', '.join(source.spec)}")
        if self._is_single and (collate is not None or batch_transform is not None or drop_last or pad):
            raise ValueError("collate, batch_transform, drop_last and pad need batches, but batch_size=None")
        self.dataset = source
        self._pipeline = Pipeline(
            source,
            self._plan.order,
            fields,
            decode,
            SampleTransforms.of(
                options.transforms,
                source.spec,
                decode=decode,
                reducing_gap=options.reducing_gap,
                reading=ImageReading(orient, tolerant),
            ),
            collate,
            batch_transform,
            options.on_error,
            _positions(source, exclude),
            batched=not self._is_single,
            keys=keys,
        )

    def __len__(self) -> int:
        """Number of batches of this rank in a whole epoch."""
        return self._plan.at(0).steps()

    def __repr__(self) -> str:
        plan = self._plan
        batches = "single samples" if self._is_single else plan.sizes
        processes = f" in each of {self._processes} processes" if self._processes else ""
        return (
            f"<bushel.Loader: {batches} from {self.dataset!r}, order {plan.order.version}, seed {self.seed}, "
            f"rank {self.rank} of {self.world_size}, {self._workers} workers{processes}; "
            f"epoch {self.epoch}, {self._progress.samples} of {plan.order.samples} samples consumed>"
        )

    @property
    def seed(self) -> int:
        """Seed of the order and the transforms."""
        return self._plan.order.seed

    def _single(self, consumed: int, step: Finished) -> Iterator[tuple[int, Any, int]]:
        for number, sample in enumerate(step.batch, 1):
            yield self._plan.at(self.epoch).consumed(consumed, number), sample, sample is not None

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
        return run_batches(
            self._pipeline,
            plans,
            self._report,
            self._clock,
            self._output,
            workers=self._workers,
            window=self._window,
            pool=self._pool,
        )

    def write_errors(self, path: str | os.PathLike[str]) -> None:
        """Write `errors` to a file, one JSON object per line, which `exclude=` takes.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, on_error="skip")
            >>> batches = list(loader)
            >>> loader.write_errors("bad.jsonl")
            >>> loader = bushel.Loader(ds, batch_size=4, exclude="bad.jsonl")
        """
        write_errors(path, self.errors)

    def state_dict(self) -> dict[str, str | int]:
        """Return the state of training: the batches that the trainer was given, not those that are prefetched.

        It is the same on all ranks. After a look or a `break` it counts the batches that were given, too.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> batches = iter(loader)
            >>> batch = next(batches)
            >>> state = loader.state_dict()
            >>> state["epoch"], state["samples"]
            (0, 4)
        """
        place, order = self._place(), self._plan.order
        return LoaderState(order.version, self._fingerprint, order.seed, place.epoch, place.samples).to_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state: the next `for` yields the rest of its epoch.

        The number of ranks and workers and the batch size may differ from those of the loader that saved the state.
        The seed is taken from the state.

        Raises:
            StateError: The state belongs to another dataset or another order, or is not a state.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> batches = iter(loader)
            >>> seen = next(batches)["__key__"]
            >>> resumed = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> resumed.load_state_dict(loader.state_dict())
            >>> sum(len(batch["__key__"]) for batch in resumed)
            8
        """
        loaded = LoaderState.from_dict(state)
        own = self._plan.order
        loaded.check(version=own.version, fingerprint=self._fingerprint, samples=own.samples)
        order: Any = replace(own, seed=loaded.seed)
        self._plan, self._pipeline = replace(self._plan, order=order), replace(self._pipeline, order=order)
        self._progress, self._started = Progress.at(loaded.epoch, loaded.samples), False

    def skip(self, steps: int) -> None:
        """Skip `steps` batches of every rank without reading them, into the following epochs if needed.

        Counted from the place that `state_dict` returns. The next `for` starts after them.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> loader.skip(2)
            >>> len(list(loader))
            1
        """
        if steps < 0:
            raise ValueError(f"skip({steps}): a loader only goes forward")
        place = self._place()
        left, whole = self._plan.at(place.epoch).all_steps(place.samples), self._plan.at(0).all_steps()
        if steps and not whole:
            raise ValueError(f"skip({steps}): the epochs of this loader have no batches")
        if steps >= left:
            epochs, steps = divmod(steps - left, whole) if whole else (0, 0)
            place = Progress.at(place.epoch + 1 + epochs)
        consumed = self._plan.at(place.epoch).consumed(place.samples, steps)
        self._progress, self._started = Progress.at(place.epoch, consumed), False

    @cached_property
    def _fingerprint(self) -> str:
        return self.dataset.fingerprint  # slow for a view

    def _place(self) -> Progress:
        """Return the progress; the end of an epoch counts as the start of the next one."""
        progress = self._progress
        is_over = self._started and progress.samples and self._plan.at(progress.epoch).is_over(progress.samples)
        return Progress.at(progress.epoch + 1) if is_over else progress


def _order(
    dataset: Loadable | Mixture,
    source: Loadable,
    shuffle: Shuffle,
    weights: str | npt.ArrayLike | None,
    balance: str | None,
    seed: int,
) -> Order:
    own = dataset.order if isinstance(dataset, Mixture) else None
    if weights is None and balance is None:
        return make_order(shuffle, len(source), seed) if own is None else check_mixed(own, shuffle, seed)
    if own is not None:
        raise ValueError("a mixture has its own order: leave out weights= and balance=")
    return sampled_order(source, weights, balance, shuffle, seed)


def _positions(dataset: Loadable, exclude: str | os.PathLike[str] | Iterable[str | BadSample]) -> frozenset[int]:
    if isinstance(exclude, str | os.PathLike):
        exclude = read_errors(exclude)
    try:
        return frozenset(dataset.position(one.key if isinstance(one, BadSample) else one) for one in exclude)
    except KeyError as error:
        raise ValueError(f"exclude= names a sample that the dataset does not have: {error.args[0]}") from error
