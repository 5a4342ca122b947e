"""Write a dataset in another container: as one dataset, or a part of a run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bushel.codecs import get_codec
from bushel.containers import Container, container_for, containers, get_container
from bushel.containers.base import Layout, WriteOptions
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.stream import StreamDataset
from bushel.core.index.column_names import AUTO, known_column_of
from bushel.core.parallel import cpu_count, parallel_map
from bushel.core.progress import OnProgress, Progress, ProgressReporter
from bushel.core.writer.class_names import known_labels
from bushel.core.writer.dataset_writer import DatasetWriter
from bushel.core.writer.options import WriterOptions
from bushel.errors import CodecError, SpecError, StateError
from bushel.ingest.batches import Batch, Batches, DatasetBatches, StreamBatches
from bushel.ingest.class_numbers import ClassNumbers, names_in_source, names_in_target, plan_numbers, renumber
from bushel.ingest.commit import OnPart, Written
from bushel.ingest.field_plan import FieldPlan, encode_value, plan_fields, target_fields
from bushel.ingest.images import Jpeg, fields_to_tile, tile_values
from bushel.ingest.part import ErrorLimit
from bushel.ingest.run_plan import RunPlan, describe, part_starts
from bushel.ingest.side_files import ErrorList
from bushel.spec import KEY, Field, Spec, format_spec
from bushel.storage import AnyPath

__all__ = ["ConvertJob", "ConvertOptions", "ConvertResult", "convert_one", "plan_conversion"]


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """The result of `convert`, `merge` and, for each dataset, `split`.

    Attributes:
        container: Name of the target's container.
        samples: Samples written.
        kept: Samples that the target had before: with `mode="resume"` of this source, with `mode="append"` others.
        bytes: Stored bytes of the fields written.
        seconds: Time taken.
        spec: Field to type of the target.
        limits: Properties of the samples that the target does not keep, in words.

    Examples:
        >>> done = bushel.convert("train/", "train.rec", container="recordio")
        >>> done.container, done.samples, done.limits[0]
        ('recordio', 12, "the types of the fields are stored in Bushel's index only: without it, pass spec= to open")
    """

    container: str
    samples: int
    kept: int
    bytes: int
    seconds: float
    spec: dict[str, str]
    limits: tuple[str, ...]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {kind}" for name, kind in self.spec.items())
        counts = f"{self.samples:,} samples" + (f" after {self.kept:,}" if self.kept else "")
        return f"<ConvertResult {counts} as {self.container} ({fields}), {self.bytes:,} bytes in {self.seconds:.1f} s>"


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The arguments of `convert` that decide what is written: see there.

    `writer` has the container, the mode, the size of shards, the generation and `sync`. Its other members follow from
    the source and from the members here.
    """

    writer: WriterOptions
    fields: tuple[str, ...] | None
    rename: Mapping[str, str]
    spec: Mapping[str, str]
    jpeg: Jpeg
    keys: bool | Callable[[str], str] | None
    seek: bool | None
    columns: tuple[str, ...] | None


def convert_one(
    opened: Dataset | StreamDataset,
    target: AnyPath,
    options: ConvertOptions,
    *,
    workers: int | None = None,
    folders: Sequence[str] | None = None,
    progress: OnProgress | None = None,
) -> ConvertResult:
    """Write a dataset, a view or a stream in another container.

    Args:
        opened: What to write.
        target: Path of the new dataset.
        options: How to write it.
        workers: Number of threads.
        folders: Empty folders, if `opened` is a part of a dataset of packed folders; by default those of `opened`.
        progress: The progress callback.
    """
    started = time.monotonic()
    writing, mode = options.writer, options.writer.mode
    kind = get_container(writing.container) if writing.container is not None else container_for(target.name)
    reading: Batches
    if isinstance(opened, StreamDataset):
        reading = StreamBatches(opened)
    else:
        reading = DatasetBatches(opened, workers or cpu_count())
    targets = target_fields(reading.fields, kind.name, fields=options.fields, rename=options.rename, spec=options.spec)
    keyed = reading.keyed if options.keys is None else bool(options.keys)
    change = options.keys if callable(options.keys) else str
    layout = _layout(kind, targets, keyed=keyed, generation=writing.generation)
    plans = plan_fields(reading.fields, reading.codecs, targets, layout.columns)
    tiled = fields_to_tile(options.jpeg, {plan.target.name: plan.codec for plan in plans})
    if not layout.sparse:
        reading.refuse_missing(list(targets), _advice(kind, targets, keyed=keyed))
    known = {} if mode in ("create", "overwrite") else known_labels(target, kind)
    numbers = plan_numbers(names_in_source(known, targets), reading.labels, reading.fields)
    empty = reading.folders if folders is None else folders
    kept_folders = empty if kind.keeps_folders and keyed and change is str and not layout.sparse else None
    reporter = ProgressReporter(progress)
    written = size = 0
    writing = replace(
        writing,
        container=kind.name,
        expected=reading.samples,
        folders=None if kept_folders is None else tuple(kept_folders),
        labels=names_in_target(numbers.labels, targets),
        seek=reading.has_seek_tables if options.seek is None else options.seek,
        columns=_columns(reading, targets) if options.columns is None else options.columns,
    )
    with DatasetWriter(target, format_spec({field.name: field for field in targets.values()}), writing) as writer:
        kept = len(writer)
        skipped = kept if mode == "resume" else 0
        if reading.samples is not None and skipped > reading.samples:
            raise StateError(f"cannot resume: {target} has {skipped} samples, but the source only {reading.samples}")

        if callable(options.keys) and isinstance(opened, Dataset):
            for key in itertools.islice(opened.keys, skipped):
                options.keys(key)

        def load_and_transcode(batch: range) -> list[tuple[str, dict[str, Any]]]:
            return _transcode(reading, plans, numbers, tiled, reading.load(batch, list(targets)))

        results = parallel_map(load_and_transcode, reading.batches(list(targets), skipped), workers=reading.workers)
        for batch in results:
            for key, values in batch:
                writer.append(values, key=change(key) if keyed else None)
                size += _size(values)
            written += len(batch)
            reporter.report(Progress(skipped + written, reading.samples, "samples", skipped + written, size))
            if not batch:
                results.close()
        limits = layout.limits
    reporter.finish()
    if reading.keyed and not keyed:
        limits += ("keys are left out",)
    if empty and kept_folders is None:
        limits += (f"{len(empty)} empty folders are left out",)
    if unnamed := [name for name in numbers.unnamed if name in targets and reading.samples]:
        limits += (f"some samples have no class names for {', '.join(unnamed)}: their numbers are unchanged",)
    return ConvertResult(kind.name, written, kept, size, time.monotonic() - started, writer.spec, limits)


def _columns(reading: Batches, targets: Mapping[str, Field]) -> tuple[str, ...]:
    """Return the usual columns, and those of the source that the target's fields can have, by their new names."""
    fields = {field.name: field for field in targets.values()}
    found = [AUTO]
    for name in reading.columns:
        old = known_column_of(name, reading.fields)
        if old is not None and old.field.name in targets:
            new = targets[old.field.name].name + name[len(old.field.name) :]
            found += [new] if known_column_of(new, fields) is not None else []
    return tuple(found)


def _layout(kind: Container, targets: Mapping[str, Field], *, keyed: bool, generation: str | None) -> Layout:
    spec = {field.name: field for field in targets.values()}
    for field in spec.values():
        get_codec(field.codec)
    return kind.layout(spec, WriteOptions(keyed=keyed or kind.needs_keys, generation=generation))


def _advice(kind: Container, targets: Mapping[str, Field], *, keyed: bool) -> str:
    able = ", ".join(_sparse_containers({field.name: field for field in targets.values()}, keyed=keyed))
    other = f", or write to one of {able}, which allow missing fields" if able else ""
    return f"a {kind.name} needs every field in every sample. Leave this field out{other}"


def _transcode(
    source: Batches, plans: list[FieldPlan], numbers: ClassNumbers, tiled: frozenset[str], batch: Batch
) -> list[tuple[str, dict[str, Any]]]:
    """Return the keys of a batch and the values that the target stores for each sample."""
    transcoded = []
    renumbers = any(numbers.changes)
    for position, sample in batch:
        key = sample[KEY]
        values = {}
        changes = numbers.changes[source.shard_of(position)] if renumbers else {}
        for plan in plans:
            name = plan.source.name
            if name in sample:
                stored = sample[name]
                if name in changes:
                    plan = replace(plan, copied=False)
                decoded = None if plan.copied else _decode(source, plan, position, key, stored)
                if name in changes:
                    decoded = renumber(decoded, changes[name], f"sample {key!r}, field {name!r}")
                values[plan.target.name] = encode_value(plan, key, stored, decoded)
        transcoded.append((key, _with_tiles(key, values, tiled) if tiled else values))
    return transcoded


def _with_tiles(key: str, values: dict[str, Any], tiled: frozenset[str]) -> dict[str, Any]:
    try:
        return tile_values(values, tiled)
    except CodecError as error:
        advice = "bushel.pack(source, target, jpeg='tile', max_errors=...) skips such samples"
        raise CodecError(f"sample {key!r}, {error}. {advice}", **error.details) from error


def _decode(source: Batches, plan: FieldPlan, position: int, key: str, stored: Any) -> Any:
    name = plan.source.name
    if plan.known_as is None:
        return source.decode(position, key, name, stored)
    decode = get_codec(plan.known_as).decode
    try:
        return [decode(element) for element in stored] if isinstance(stored, list) else decode(stored)
    except CodecError as error:
        raise CodecError(f"sample {key!r}, field {name!r}: {error}", **{**error.details, "field": name}) from error


def _size(values: Mapping[str, Any]) -> int:
    return sum(sum(map(len, value)) if isinstance(value, list) else len(value) for value in values.values())


def _sparse_containers(spec: Spec, *, keyed: bool) -> Iterator[str]:
    """Yield the containers that can hold this spec with samples that lack fields."""
    for candidate in containers():
        try:
            layout = candidate.layout(spec, WriteOptions(keyed=keyed))
        except SpecError:
            continue
        if layout.sparse:
            yield candidate.name


def plan_conversion(dataset: Dataset, parts: int, options: ConvertOptions) -> RunPlan:
    """Return the plan of a run. Its arguments are those that decide which bytes are written."""
    writing = options.writer
    arguments = {
        "source": dataset.fingerprint,
        "fields": options.fields,
        "rename": options.rename,
        "spec": options.spec,
        "jpeg": options.jpeg,
        "keys": options.keys,
        "shard_samples": writing.shard_samples,
        "shard_bytes": writing.shard_bytes,
        "generation": writing.generation,
        "seek": options.seek,
        "columns": options.columns,
    }
    starts = part_starts(len(dataset), parts)
    return RunPlan("convert", str(writing.container), len(dataset), starts, describe(arguments))


@dataclass(frozen=True, slots=True)
class ConvertJob:
    """The common settings of all parts of a conversion.

    Attributes:
        dataset: The source.
        starts: Position of the first sample of each part, followed by the number of samples.
        options: How to write it.
        folders: Empty folders of the source, which the first part gets; None if it has none.
        workers: Number of threads; None for the number of CPUs.
    """

    dataset: Dataset
    starts: tuple[int, ...]
    options: ConvertOptions
    folders: tuple[str, ...] | None
    workers: int | None

    def write(
        self,
        number: int,
        target: AnyPath,
        limit: ErrorLimit,
        log: ErrorList,
        progress: OnPart | None,
        taken: frozenset[str],
    ) -> Written:
        """Convert a part: see `PartWriter`. Keys that are taken end a conversion, so there are none."""
        folders = None if self.folders is None else (self.folders if number == 0 else ())
        result = convert_one(
            self.dataset[self.starts[number] : self.starts[number + 1]],
            target,
            self.options,
            workers=self.workers,
            folders=folders,
            progress=None if progress is None else lambda at: progress(at.done, at.samples, 0, at.bytes),
        )
        return Written(result.bytes, result.limits)
