"""`Loader`: batches for training, in a seeded order, from any dataset."""

from __future__ import annotations

import html
import os
from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from msgspec.structs import replace

from bushel._runtime.arrays import check_count
from bushel._runtime.public import public
from bushel.loader.order.mixture import Mixture
from bushel.loader.plan.planning import plan_of
from bushel.loader.plan.who import PlanAnswers, steps_without
from bushel.loader.read.costs import warn_if_costly
from bushel.loader.read.loadable import Loadable
from bushel.loader.run.groups import run_batches
from bushel.loader.run.make_pipeline import pipeline_of
from bushel.loader.run.processes import run_processes
from bushel.loader.values.bad_samples import write_errors
from bushel.loader.values.outputs import Finished

from .base import INSTEAD, Item, Progress
from .options import LoaderOptions, check_dataset, check_whole_batches
from .state import LoaderState, place_after, resume


@public(instead=INSTEAD)
class Loader(LoaderOptions, PlanAnswers[Item]):
    """Iterates over a dataset in batches. One `for` is one epoch; the next `for` is the next epoch.

    The samples of a batch, their order and the random numbers of transforms depend only on the
    seed, the epoch and the number of samples consumed: not on the number of threads or processes,
    nor on timing.

    However early a loop is left, the next `for` is the next epoch. `peek` returns a batch that is
    not counted.

    The options are attributes of the loader, which cannot be changed. `copy.copy` and pickle keep
    options and state, so a copy continues independently from the same place.

    Args:
        dataset: The source of samples: a dataset, a view of one, or a `Mixture`.
        batch_size: Number of samples in a batch of this rank. None yields single samples, as dicts.
            With `bucket_by` it is the largest number; None for no limit but `batch_tokens`; or a
            mapping of the largest length in each bucket to its batch size, such as
            `{128: 64, 512: 16}`.
        shuffle: True or `"exact"` for a permutation of the whole dataset, another in every epoch;
            False or None (the default) for the stored order; `"blocks"` for blocks of neighbouring
            samples, which suits disks, object stores and compressed files, whose own blocks then
            give size and window; or an order such as
            `Blocks(len(dataset), seed, size=1024, window=8)`. A mixture has its own order.
        weights: Draw samples at random, with replacement, each with a probability in proportion to
            its weight: an array with a number for each sample, or the name of a column of the
            index. An epoch has as many draws as there are samples.
        balance: Draw the classes in this column of the index, such as `label`, equally often. A
            class starts again, in another order, after all of its samples were drawn; samples
            without a class are not drawn. An epoch has as many draws as there are samples.
        bucket_by: Make batches of samples of similar length, in random order: a column of the index
            with the lengths, such as `tokens.length`, or an array with a number for each sample.
            All ranks have equally many batches.
        batch_tokens: With `bucket_by`: the number of samples in a batch, multiplied by the longest
            of them, is at most this number.
        pack_by: Let documents share rows of a fixed length: the column of the index with their
            lengths, such as `tokens.length`, or a mapping of columns to the tokens that each of
            their units takes, such as `{"tokens.length": 1, "images": 576}`. `batch_size` is the
            number of rows. The first column names the field that is packed. See docs/loading.md for
            what a batch has.
        pack_tokens: With `pack_by`: the number of tokens in a row.
        pack_longer: With `pack_by`: what to do with documents that are longer than a row:
            `"error"`; `"cut"` to use their first tokens; or `"split"` to use their parts, each like
            a document.
        chunk_by: Join documents, one after another, and cut them into rows: the column of the index
            with their lengths, such as `tokens.length`. `batch_size` is the number of rows.
            `shuffle` is the order of the documents; `bushel.loader.Megatron()` is the order of
            Megatron-LM.
        chunk_tokens: With `chunk_by`: the number of tokens in a row.
        overlap: With `chunk_by`: the number of tokens that a row has in common with the one before
            it.
        fields: The fields to read, as for `Dataset.read`; None for all.
            `{"frames": RandomWindow(16, step=4)}` reads one window of each sample, another one in
            every epoch.
        drop_last: Whether to leave out the samples at the end of an epoch that do not fill a batch
            on every rank. With `bucket_by`: those at the end of each bucket.
        pad: `"wrap"` fills the last batches with samples from the start of the epoch, so that all
            batches are full and all ranks have equally many. None leaves them short; then ranks may
            differ by one batch. With packs, rows take the place of samples. With `bucket_by`, all
            ranks get whole batches at the last step; without `pad`, the remaining batches are
            divided among them.
        decode: Whether to decode fields. False gives stored bytes. `"device"` lets `decoder` decode
            images, with the crops, sizes and flips that the CPU would give them: baseline JPEGs
            with transforms that all happen while decoding. Other images, and those that it refuses,
            are decoded on the CPU.
        decoder: With `decode="device"`: a `bushel.loader.DeviceDecoder`; None for `NvidiaDecoder`
            on `device="cuda"`.
        share: With `decode="device"`: the share of these images that the device decodes; `"tuned"`
            to keep device and CPU equally busy. A number sends the same samples to the device in
            every run.
        keys: Whether batches and samples have their keys under `__key__`. Small records load faster
            without keys.
        exif_rotate: Whether to rotate and mirror images by their Exif orientation, before any
            transform. A codec such as `jpg(exif_rotate)` does the same for its field.
        allow_truncated: Whether to decode damaged JPEGs as far as possible instead of counting them
            as bad samples. A codec such as `jpg(allow_truncated)` does the same for its field.
        exclude: Samples to leave out because they are known to be bad: keys, positions, entries of
            `errors`, or the path of a list that `write_errors` wrote. `on_error="replace"` replaces
            them; otherwise they are skipped.
        seed: Seed of the order and of random transforms, 0 to 2**64 - 1. A mixture and an order
            object have their own.
        transforms: One transform or a list of them for the only image field, or a mapping of field
            names to either. They are applied one after another to the field's decoded value (a list
            for a sequence field). A function with a parameter named `rng` gets a
            `numpy.random.Generator` that depends only on (seed, epoch, sample). Transforms run in
            several threads at once. A tuple as a key names fields that move together, an image
            first, such as `("image", Mask("mask"), Boxes("boxes"))`: crops, resizing and flips are
            drawn once per sample, and the transforms after these are for the images only.
        sample_transform: Function of a whole sample, called after the transforms of fields, with
            `rng` if it has such a parameter. It returns the sample, as it is or another dict.
        rank: Rank of this process among the training processes; None to detect it
            (torch.distributed, JAX, `RANK`).
        world_size: Number of training processes; give it together with `rank`.
        threads: Number of threads that decode and transform. None for one per CPU that this process
            may use, divided by `processes`; 0 to do all work in the consumer's thread.
        processes: Number of worker processes, each with `threads` threads; 0 for none. Use them for
            transforms in pure Python, or if the trainer needs its interpreter for itself. The
            dataset, transforms and collate functions are pickled; cloudpickle does that for
            functions of the main script and lambdas. Batches are in shared memory.
        on_error: What to do with a sample that cannot be read, decoded or transformed: `"raise"`
            the error, `"skip"` the sample, so that the batch is smaller, or `"replace"` it with the
            next good sample of the epoch.
        max_errors: Number of bad samples that `"skip"` and `"replace"` tolerate in this process, in
            all epochs together (int), or a share of the dataset between 0 and 1 (float); None for
            no limit.
        collate: How samples become a batch: a function of the list of samples, or a mapping of
            fields to rules (see `collate`).
        batch_transform: Function that is applied to each finished batch, in a worker thread, and
            returns it. Its `rng`, if it has such a parameter, depends only on (seed, epoch, first
            position of the batch).
        reducing_gap: Let a JPEG's inverse DCT shrink an image that is resized, while it stays this
            many times larger than the result, as Pillow does. None turns this off; pixels then
            equal the result of the single transforms within one level.
        prefetch: Number of batches that are worked on before the trainer asks for them, in each
            process. None for 2 to 16: more after the trainer had to wait, fewer after it has not
                waited for long.
        prefetch_bytes: Limit of the total size of these batches in bytes. It takes precedence over
            `prefetch`. From an object store, stored bytes of later batches are read ahead, too, of
            at most half of this size.
        to: Type of the arrays of numbers in a batch: `"numpy"`; `"torch"` for tensors that share
            the arrays' memory; `"jax"`.
        pin_memory: With `"torch"`: whether to use page-locked memory, for fast copies to a GPU.
        device: With `"torch"`: the device to copy tensors to, one batch ahead. With `"jax"`: a
            device, or a sharding; this process fills its part of it.

    Attributes:
        dataset: The dataset; of a mixture, all of its datasets together.
        rank: Rank of this process.
        world_size: Number of training processes.

    Raises:
        SpecError: A transform or a collate rule is for a field that the dataset does not have.
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of its range, or a sample is longer than `bucket_by` or
            `pack_by` allows.
        KeyError: A column in `weights`, `balance`, `bucket_by`, `pack_by` or `chunk_by` does not
            exist.

    Examples:
        >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True, seed=0)
        >>> for batch in loader:
        ...     print(batch["image"].shape, batch["label"].dtype)
        (4, 48, 64, 3) int64
        (4, 48, 64, 3) int64
        (4, 48, 64, 3) int64
    """

    dataset: Loadable
    rank: int
    world_size: int
    _resuming: ClassVar[Mapping[str, bool]] = {"allow_appended": True}

    def __post_init__(self) -> None:
        super().__post_init__()
        source: Loadable = (
            self.dataset.dataset if isinstance(self.dataset, Mixture) else self.dataset
        )
        check_dataset(source)
        if not isinstance(self.decode, bool) or self.decoder is not None or self.share != 1:
            from bushel.loader.device.device import check_decode

            check_decode(self)
        self._prepare(len(source), least_threads=1 if self.processes else 0)
        self._before: Loader[Any] | None = None
        self._is_single = self.batch_size is None and self.bucket_by is None
        self._plan = plan_of(self, source)
        if self._is_single and any((self.collate, self.batch_transform, self.drop_last, self.pad)):
            raise ValueError(
                "collate, batch_transform, drop_last and pad need batches, but batch_size=None"
            )
        self._pipeline = pipeline_of(self, source, self._plan.order)
        warn_if_costly(self._plan.order, source, self.fields)
        self._set(dataset=source, seed=self._plan.order.seed)

    def __len__(self) -> int:
        """Number of batches of this rank in a whole epoch, also after a part of one was resumed (see `steps_left`)."""
        self._follow_rank()
        return self._steps(Progress.at(self._place().epoch))

    @property
    def steps_left(self) -> int:
        """Number of batches of this rank that are left of the epoch of `state_dict`.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> loader.skip(2)
            >>> len(loader), loader.steps_left
            (3, 1)
        """
        self._follow_rank()
        return self._steps(self._place())

    def _use_rank(self) -> None:
        check_whole_batches(self, self._pipeline.excluded)
        for loader in (self, self._before):
            if loader is not None:
                loader._plan = replace(loader._plan, rank=self.rank, world_size=self.world_size)

    def _steps(self, place: Progress) -> int:
        loader = self._of(place.epoch)
        plan, left_out = loader._plan, loader._pipeline.excluded
        if self.on_error == "replace" or not left_out:
            return plan.at(place.epoch).steps(place.samples)
        return steps_without(plan, place.epoch, place.samples, left_out)

    def __repr__(self) -> str:
        plan, units = self._plan, self._plan.at(self.epoch).units
        processes = ""
        if self.processes:
            processes = f" in each of {self.processes} processes"
        return (
            f"<bushel.Loader: {self._batches} from {self.dataset!r}, order "
            f"{plan.order.version}, seed {self.seed}, rank {self.rank} of "
            f"{self.world_size}, {self._threads} threads{processes}; epoch {self.epoch}, "
            f"{self._progress.samples} of {units.positions} {units.unit} consumed>"
        )

    @property
    def _batches(self) -> str:
        """What it gives, in words."""
        if self._is_single:
            return "single samples"
        return self._plan.at(self.epoch).units.sizes(self._plan.batch_size)

    def _repr_html_(self) -> str:
        from bushel._pictures.notebook import batch_html, facts_html

        plan, samples = self._plan, self._progress.samples
        units = plan.at(self.epoch).units
        consumed = f"{samples:,} of {units.positions:,} {units.unit} consumed"
        facts = [
            ("gives", self._batches),
            ("order", plan.order.version),
            ("seed", str(self.seed)),
            ("rank", f"{self.rank} of {self.world_size}"),
            ("processes", str(self.processes)),
            ("epoch", f"{self.epoch}, {consumed}"),
        ]
        shown = ""
        try:
            batch: Any = self.peek()
            if isinstance(batch, dict):
                shown = batch_html(batch, getattr(self.dataset, "labels", None))
        except Exception as error:  # of a transform, a collate function or the data: the loop over the loader raises it
            problem = html.escape(f"{type(error).__name__}: {error}")
            shown = f"<div>The next batch cannot be made: {problem}</div>"
        return facts_html(f"bushel.Loader of {len(self.dataset):,} samples", facts, (), shown)

    def _single(self, progress: Progress, step: Finished) -> Iterator[tuple[int, Any, int]]:
        plan, before = self._of(progress.epoch)._plan, progress.samples
        for number, sample in enumerate(step.batch, 1):
            consumed = min(plan.order.samples, before + number * plan.stride)
            yield consumed, sample, sample is not None

    def _run(self, progress: Progress, *, ahead: bool = True) -> Generator[Finished]:
        loader, consumed = self._of(progress.epoch), progress.samples
        iteration = self._iteration(loader._pipeline, ahead=ahead)
        steps = loader._plan.at(progress.epoch)
        if self.processes and ahead:
            return run_processes(iteration, steps, consumed, self.processes)
        return run_batches(iteration, steps.batches(consumed))

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

        It is the same on all ranks. After a `break` it counts the batches that were given; `peek`
        does not change it.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> batches = iter(loader)
            >>> batch = next(batches)
            >>> state = loader.state_dict()
            >>> state["epoch"], state["samples"]
            (0, 4)
        """
        place = self._place()
        loader = self._of(place.epoch)
        order = loader._plan.order
        return LoaderState(
            order.version, loader._fingerprint, order.seed, place.epoch, place.samples
        ).to_dict()

    def load_state_dict(
        self,
        state: Mapping[str, object],
        *,
        allow_appended: bool = False,
        allow_removed: bool = False,
    ) -> None:
        """Continue from a state: the next `for` yields the rest of its epoch.

        The number of ranks, processes and threads and the batch size may differ from the loader
        that saved the state. The seed is taken from the state, and with `shuffle="blocks"` size and
        window. A state that is refused changes nothing.

        Args:
            state: The state.
            allow_appended: Whether to go on if shards were appended to the dataset since
                (docs/growth.md). The epoch of the state ends with the samples that it began with;
                the next one has all of them.
            allow_removed: Whether to go on in the order of the state if samples were removed from
                the dataset since (docs/removal.md). They are left out like the samples of
                `exclude=`; with `on_error="replace"` others take their places.

        Raises:
            StateError: The state belongs to another dataset or another order, or is not a state; or
                samples were appended or removed since.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> batches = iter(loader)
            >>> seen = next(batches)["__key__"]
            >>> resumed = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> resumed.load_state_dict(loader.state_dict())
            >>> sum(len(batch["__key__"]) for batch in resumed)
            8
        """
        resume(self, state, allow_appended=allow_appended, allow_removed=allow_removed)

    def _of(self, epoch: int) -> Loader[Any]:
        """Return the loader of the samples of an epoch: of fewer ones if it began before some were appended."""
        before = self._before
        if before is not None and before.epoch == epoch:
            return before
        return self

    def peek(
        self, step: int | None = None, rank: int | None = None, epoch: int | None = None
    ) -> Item:
        """Return a batch without counting it: the batch of a step, or the first one of the next `for`.

        It is made in this thread, with the same random numbers. Epoch, state, `stats()` and
        `errors` stay as they are. A notebook shows it as a table. The arguments are as in `who`;
        without a step, it is the first one of the epoch.

        Raises:
            ValueError: Without arguments: the next `for` has no batch.
            IndexError: The step or rank does not exist.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4, shuffle=True)
            >>> batch = loader.peek(step=1, epoch=7)
            >>> batch["__key__"] == loader.who(step=1, epoch=7)
            True
        """
        if step is None and rank is None and epoch is None:
            return super().peek()
        planned = self._batch_of(step or 0, rank, epoch)
        loader = self._of(planned.epoch)
        iteration = self._iteration(loader._pipeline, ahead=False)
        run = run_batches(iteration, iter([planned]))
        for batch in self._batches_of(Progress.at(planned.epoch), run):
            return batch
        raise IndexError(f"step={step or 0}: all samples of this step are left out")

    def skip(self, steps: int) -> None:
        """Skip `steps` batches of every rank without reading them, into the following epochs if needed.

        Counted from the place that `state_dict` returns. The next `for` starts after them.

        Examples:
            >>> loader = bushel.Loader(ds, batch_size=4)
            >>> loader.skip(2)
            >>> len(list(loader))
            1
        """
        steps = check_count("steps", steps)
        self._follow_rank()
        self._go_to(place_after(self, steps))

    @cached_property
    def _fingerprint(self) -> str:
        return self.dataset.fingerprint  # slow for a view

    def _place(self) -> Progress:
        """Return the progress; the end of an epoch counts as the start of the next one."""
        progress = self._progress
        if self._started and progress.samples:
            steps = self._of(progress.epoch)._plan.at(progress.epoch)
            if steps.is_over(progress.samples):
                return Progress.at(progress.epoch + 1)
        return progress
