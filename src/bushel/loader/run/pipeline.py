"""The three steps that make a batch: fetch, decode and transform, assemble.

A `Pipeline` is a plain value without threads; `bushel.loader.run.threads` runs its steps in threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.reader import KNOWN_TYPES
from bushel._dataset.read.stored_reader import Room
from bushel._runtime.arrays import I64
from bushel._runtime.draws import Balanced, Weighted
from bushel._runtime.threads import Clock
from bushel.loader.decode.micro_batch import MicroBatch, micro_batches
from bushel.loader.decode.sample_transforms import SampleDraws, SampleTransforms, transformed
from bushel.loader.order.mixture import Sources
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.batch_arrays import ArrayFactory, BatchArrays, BufferPool, gathered_numbers
from bushel.loader.read.batch_reader import BatchReader, gathers
from bushel.loader.read.list_fields import list_fields
from bushel.loader.read.loadable import PlainReader
from bushel.loader.values.bad_samples import (
    DAMAGE,
    ErrorReport,
    Failure,
    OnError,
    describe,
    failure_of,
    one_by_one,
    raise_first,
)
from bushel.loader.values.collate import Batch, Collate, Sample, collate, count_bytes, without_key
from bushel.loader.values.outputs import Finished
from bushel.loader.values.rows import RowShape, collate_rows
from bushel.spec import KEY
from bushel.transforms.values import Call

if TYPE_CHECKING:
    from bushel.loader.device.device_step import DeviceStep
    from bushel.loader.plan.plan import AnyOrder
    from bushel.loader.read.random_window import RandomWindows

    from .ahead_plan import Planned
    from .read_ahead import HeldBatch

_LIGHT_BYTES = 1 << 16


class Fetched(Struct, frozen=True):
    """The stored samples of a batch.

    Attributes:
        plan: The batch.
        samples: The samples, in the order of the batch.
        stored_bytes: Their size in bytes.
        sizes: The size of each, without images with fused transforms, which are decoded straight
            into the batch.
        arrays: The arrays that they are decoded into; None if they are not collated field by field.
        decoded: Whether they are decoded, except for images with fused transforms: if there is
            nothing else to decode.
    """

    plan: BatchPlan
    samples: list[Sample | Failure]
    stored_bytes: int
    sizes: list[int]
    arrays: BatchArrays | None
    decoded: bool


class Pipeline(Struct, frozen=True):
    """The work that makes batches.

    Attributes:
        source: The dataset, and how it is read.
        order: The order of the epoch, for replacements.
        fields: The fields to read, as `dataset.read` takes them.
        names: Their names; empty if they are unknown.
        transforms: The transforms of samples.
        collate: How samples become a batch.
        batch_transform: Function that is applied to each batch, or None.
        on_error: Treatment of bad samples.
        excluded: Positions of samples known to be bad: they are not read, but replaced or skipped.
        batched: Whether samples become batches. If not, a "batch" is a list with None for every
            skipped sample.
        keys: Whether batches and samples have keys.
        shape: The form of batches whose rows are shared by documents; None if each sample has its
            own row.
        sources: The datasets of a mixture, whose samples say where they come from.
        windows: The random windows of fields, or None without such fields.
        device: Decodes images on a device; None if the CPU decodes all.
    """

    source: BatchReader | PlainReader
    order: AnyOrder
    fields: Any = None
    names: Sequence[str] = ()
    transforms: SampleTransforms = SampleTransforms()
    collate: Collate | None = None
    batch_transform: Call | None = None
    on_error: OnError = "raise"
    excluded: frozenset[int] = frozenset()
    batched: bool = True
    keys: bool = True
    shape: RowShape | None = None
    sources: Sources | None = None
    windows: RandomWindows | None = None
    device: DeviceStep | None = None

    def parts(self, fetched: Fetched, threads: int) -> int:
        """Return how many threads decode a batch; 0 if its samples stay as they are stored."""
        if self.transforms.fields or self.transforms.sample is not None:
            return threads
        if not self.source.decode and self.sources is None:
            return 0
        # decoded faster in one thread than it is shared among several
        return 1 if fetched.stored_bytes <= _LIGHT_BYTES else threads

    def factory(self, pool: BufferPool) -> ArrayFactory:
        """Return the array factory of an iteration."""
        dataset, decode, rules = self.source.dataset, self.source.decode, self.collate
        names = self.names
        if not self.batched or callable(rules) or self.transforms.sample is not None:
            return ArrayFactory(rules, pool, names)
        plain, joined = gathers(dataset, self.fields, self.transforms.names), self.shape is not None
        numbers = gathered_numbers(dataset, plain, rules or {}, decode=decode, joined=joined)
        listed = None
        if not joined and self.windows is None and len(plain) == len(names):
            listed = list_fields(dataset, plain, rules or {}, pool, decode=decode)
        return ArrayFactory(rules, pool, names, numbers, listed)

    def prefetch(self, plan: BatchPlan) -> None:
        """Announce the samples of a batch to the storage."""
        with suppress(*DAMAGE):  # found when the batch is read
            self.source.prefetch(*self._wanted(plan, self.fields))

    def extents(self, plan: BatchPlan) -> Planned:
        """Return the extents that `fetch` will read for a batch, as far as that is known."""
        with suppress(*DAMAGE):  # found when the batch is read
            return self.source.extents(*self._wanted(plan, self.fields))
        return []

    def fetch(
        self,
        plan: BatchPlan,
        clock: Clock,
        factory: ArrayFactory | None = None,
        held: HeldBatch | None = None,
    ) -> Fetched:
        """Read the stored samples of a batch in one read. If that fails, read them one by one to find the bad ones.

        With a factory, the batch gets arrays, and fields of numbers are gathered into them, unless the
        batch has excluded samples, which are replaced later. Bytes that are `held` are not read again,
        and are released.
        """
        start, fields = perf_counter(), self.fields
        arrays, room, gathered_bytes = None, None, 0
        stacks = self.batched and self.shape is None and not callable(self.collate)
        if stacks and factory is not None:
            arrays = BatchArrays(len(plan.samples), factory)
            # of images that only the decoder sees
            if self.transforms.fused and self.device is None:
                room = Room(self.transforms.fused, factory.pool.room)
        if arrays is not None and self.excluded.isdisjoint(plan.samples.tolist()):
            gathered_bytes = arrays.gather(plan.samples)
            if arrays.order:
                fields = arrays.others(fields)
        with held or nullcontext():
            stored = self._fetch(plan, fields, held, room)
        size, sizes = _stored_sizes(stored, self.transforms.fused)
        clock.add({"storage": perf_counter() - start})
        decoded = not any(sizes) and (self.sources is None or not self.sources.transforms)
        if decoded:
            stored = self._decode(plan, stored, self.transforms.encoded, clock)
        return Fetched(plan, stored, size + gathered_bytes, sizes, arrays, decoded)

    def _wanted(self, plan: BatchPlan, fields: Any) -> tuple[I64, Any]:
        """Return the samples of a batch that are not excluded, and which of some fields to read of them."""
        good: Any = slice(None)
        if self.excluded:
            good = [number not in self.excluded for number in plan.samples.tolist()]
        samples = plan.samples[good]
        if self.windows is not None:
            draws = self._draws(plan)[good]
            fields = self.windows.mask(fields, plan.epoch, samples, draws)
        return samples, fields

    def _draws(self, plan: BatchPlan) -> I64:
        """Return the numbers that seed transforms: samples, or positions of the order if samples repeat in an epoch."""
        base = getattr(self.order, "base", self.order)
        return plan.positions if isinstance(base, Weighted | Balanced) else plan.samples

    def _fetch(
        self, plan: BatchPlan, fields: Any, held: HeldBatch | None = None, room: Room | None = None
    ) -> list[Sample | Failure]:
        samples: list[Any] = plan.samples.tolist()
        if self.excluded:
            samples = [Failure(None) if number in self.excluded else number for number in samples]
        with suppress(Exception):  # the bad sample raises it again below
            present, mask = self._wanted(plan, fields)
            read = self.source.read_encoded(present, mask, held=held, room=room)
            rest = iter(read)
            return [next(rest) if isinstance(sample, int) else sample for sample in samples]

        def read_one(place: int) -> Sample:
            return self.source.read_encoded(*self._wanted(plan.part([place]), fields))[0]

        return one_by_one(
            samples,
            read_one,
            lambda error, place: failure_of(self.source.dataset, error, samples[place]),
            stop=self.on_error == "raise",
        )

    def decode_and_transform(
        self,
        fetched: Fetched,
        clock: Clock,
        part: tuple[int, int] | None = None,
        row: int | None = None,
    ) -> list[Sample | Failure]:
        """Decode and transform stored samples. A `Failure` takes the place of each bad one, for every `on_error`.

        Args:
            fetched: The batch.
            clock: Adds up times.
            part: Start and end of the samples to work on; None for all.
            row: Row of the first of them in the arrays; None for its place among the samples.
        """
        plan, draws = fetched.plan, self._draws(fetched.plan)
        begin, stop = part or (0, len(fetched.samples))
        shift = 0 if row is None else row - begin
        runs = [(self.transforms, begin, stop)]
        if self.sources is not None and self.sources.transforms:
            runs = self.sources.runs(plan.samples, begin, stop)
        decoded: list[Sample | Failure] = []
        for transforms, first, last in runs:
            pieces: Iterable[tuple[int, int]] = [(0, last - first)]
            if not fetched.decoded and fetched.stored_bytes > _LIGHT_BYTES:
                sizes = fetched.sizes[first:last]
                if transforms is not self.transforms:
                    _, sizes = _stored_sizes(fetched.samples[first:last], transforms.fused)
                pieces = micro_batches(sizes)
            for start, end in pieces:
                places = slice(first + start, first + end)
                samples = fetched.samples[places]
                if not fetched.decoded:
                    samples = self._decode(plan.part(places), samples, transforms.encoded, clock)
                started, seed = perf_counter(), self.order.seed
                micro = MicroBatch(
                    samples,
                    plan.samples[places].tolist(),
                    SampleDraws(seed, plan.epoch, draws[places], random=transforms.random),
                    places.start + shift,
                    transforms,
                    fetched.arrays,
                    self.source.dataset,
                    self.device,
                )
                decoding = micro.apply()
                counts = {"decode": decoding, "transform": perf_counter() - started - decoding}
                clock.add(counts | {"refused_seek_tables": len(micro.refused)})
                decoded += micro.samples
        return decoded

    def _decode(
        self,
        plan: BatchPlan,
        stored: Sequence[Sample | Failure],
        encoded: frozenset[str],
        clock: Clock,
    ) -> list[Sample | Failure]:
        """Decode samples together. If that fails, decode them one by one to find the bad ones."""
        started, decoded = perf_counter(), list(stored)
        fields = self.fields if isinstance(self.fields, Mapping) else None

        def decode(places: list[int]) -> list[Sample]:
            chosen = plan
            if len(places) < len(plan.samples):
                chosen = plan.part(places)
            numbers, mask = self._wanted(chosen, fields)
            present: list[Any] = [stored[place] for place in places]
            samples = self.source.decode_samples(present, numbers, encoded=encoded, fields=mask)
            if self.windows is not None:
                self.windows.add_pads(samples, plan.epoch, numbers, self._draws(chosen))
            return samples

        def fail(error: Exception, place: int) -> Failure:
            sample: Any = stored[place]
            return failure_of(self.source.dataset, error, int(plan.samples[place]), sample[KEY])

        if self.source.decode:
            good = [n for n, sample in enumerate(stored) if not isinstance(sample, Failure)]
            try:
                for place, sample in zip(good, decode(good), strict=True):
                    decoded[place] = sample
            except Exception:  # the bad sample raises it again
                decoded = one_by_one(stored, lambda place: decode([place])[0], fail)
        if self.sources is not None:
            self.sources.name(decoded, plan.samples)
        if whole := self.source.drain_whole_clips():
            clock.add({"whole_clips": whole})
        clock.add({"decode": perf_counter() - started})
        return decoded

    def assemble(
        self,
        fetched: Fetched,
        decoded: Sequence[Sample | Failure],
        report: ErrorReport,
        clock: Clock,
    ) -> Finished:
        """Make the batch from its decoded and transformed samples.

        Raises:
            TooManyErrors: There are more bad samples than allowed.
            Exception: With `on_error="raise"`, the error of the first bad sample of the batch.
        """
        plan, arrays = fetched.plan, fetched.arrays
        if self.device is not None:
            decoded, counts = self.device.finish(decoded, plan.samples, self.source.dataset)
            clock.add(counts)
        is_bad = any(isinstance(sample, Failure) for sample in decoded)
        if is_bad and self.on_error == "raise":
            raise_first(decoded)
        if is_bad and arrays is not None:
            decoded = arrays.scatter(decoded)
        filled: list[Sample | None] = []
        begins: dict[int, int] = {}
        for place, sample in enumerate(decoded):
            if not isinstance(sample, Failure):
                filled.append(sample)
                continue
            self._report(int(plan.samples[place]), sample, report)
            if self.on_error != "replace":
                filled.append(None)
                continue
            replacement, begins[place] = self._replacement(plan, place, arrays, report, clock)
            filled.append(replacement)
        if plan.rows is not None:
            plan = replace(plan, rows=plan.rows.with_begins(begins))
        if not self.keys and (callable(self.collate) or not self.batched):
            filled = [sample and without_key(sample) for sample in filled]
        good = [sample for sample in filled if sample is not None]
        batch: Any = None
        if not self.batched:
            batch = filled
        elif good:
            started = perf_counter()
            batch = self._collate(plan, filled, good, arrays)
            clock.add({"collate": perf_counter() - started})
        return Finished(plan.consumed, batch, len(good), fetched.stored_bytes, past_end=not decoded)

    def _collate(
        self,
        plan: BatchPlan,
        filled: Sequence[Sample | None],
        samples: list[Sample],
        arrays: BatchArrays | None,
    ) -> Any:
        stacked: Batch = {}
        if arrays is not None and len(samples) == len(filled):
            stacked = arrays.whole()
        if callable(self.collate):
            batch = self.collate(samples)
        elif plan.rows is not None and self.shape is not None:
            batch = collate_rows(filled, plan.rows, self.shape, self.collate)
        elif self.device is not None:
            batch = self.device.collated(samples, self.collate, stacked)
        else:
            batch = collate(samples, self.collate, stacked)
        # fields that were gathered, which samples lack, get their place among the fields of the
        # first sample
        if arrays is not None and (names := arrays.order):
            first = [name for name in (KEY, *names) if name in samples[0] or name in stacked]
            fields = {**batch, **stacked}
            batch = {name: fields[name] for name in dict.fromkeys([*first, *batch])}
        if not self.keys and not callable(self.collate):
            del batch[KEY]
        if self.batch_transform is not None:
            with nullcontext() if self.device is None else self.device.stream.complete():
                batch = transformed(self.batch_transform, batch, self.order.seed, plan)
        return batch

    def _replacement(
        self,
        plan: BatchPlan,
        place: int,
        arrays: BatchArrays | None,
        report: ErrorReport,
        clock: Clock,
    ) -> tuple[Sample | None, int]:
        """Return the next good sample of the epoch after a place of the batch, and its first token in a pack.

        The start of the epoch follows its end. In a pack, the sample is None if no document fits.
        """
        from bushel.loader.plan.row_units import following, nothing_left

        on_host = self
        if self.device is not None:
            on_host = replace(self, device=replace(self.device, host_only=True))
        for candidate in following(self.order, plan.epoch, int(plan.positions[place])):
            if arrays is not None:
                arrays.clear(place)
            fetched = replace(self.fetch(candidate, clock), arrays=arrays)
            [sample] = on_host.decode_and_transform(fetched, clock, row=place)
            if not isinstance(sample, Failure):
                return sample, 0 if candidate.rows is None else int(candidate.rows.begins[0])
            self._report(int(candidate.samples[0]), sample, report)
        if plan.rows is not None:
            return None, 0
        raise nothing_left(self.order, plan.epoch, report)

    def _report(self, sample: int, failure: Failure, report: ErrorReport) -> None:
        """Report a bad sample, unless `exclude=` names it."""
        dataset, error = self.source.dataset, failure.error
        if error is not None:
            first = next(iter(self.names or dataset.spec), "")
            report.add(describe(dataset, sample, failure, error, first), error)


def _stored_sizes(
    samples: Iterable[Sample | Failure], fused: frozenset[str]
) -> tuple[int, list[int]]:
    """Return the size of all stored values of samples, in bytes, and for each sample that of values not `fused`.

    Values that the index had, and keys, count as nothing.
    """
    total, unfused = 0, []
    for sample in samples:
        beside = 0
        if not isinstance(sample, Failure):
            for name, value in sample.items():
                if type(value) in KNOWN_TYPES:
                    continue
                nbytes = len(value) if type(value) is bytes else count_bytes(value)
                total += nbytes
                if name not in fused:
                    beside += nbytes
        unfused.append(beside)
    return total, unfused
