"""Convert one dataset from one container to another."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bushel.codecs import get_codec
from bushel.containers import Container, container_for, containers, get_container
from bushel.containers.base import Layout, LayoutColumn, WriteOptions
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
from bushel.ingest.images import Jpeg, fields_to_tile, tile_values
from bushel.spec import KEY, Field, Spec, format_spec, parse_spec
from bushel.storage import AnyPath

__all__ = [
    "ConvertOptions",
    "ConvertResult",
    "FieldPlan",
    "convert_one",
    "encode_value",
    "plan_fields",
    "target_fields",
]


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


# Planning the fields, without I/O

_GRANULAR_TYPES = {"cls": "int", "npy": "array", "float-text": "float", "jpeg": "jpg", "int(8)": "u64"}
"""Types that Granular does not know, and the types of the same values that it knows."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How one field is converted.

    Attributes:
        source: The field in the source.
        target: The field in the target.
        codec: Codec of the bytes that the target stores.
        copied: Whether the stored bytes are the same in both.
        known_as: Codec of the source's bytes if the user names it and the source does not, else None.
    """

    source: Field
    target: Field
    codec: str
    copied: bool
    known_as: str | None


def target_fields(
    source: Spec, container: str, *, fields: Iterable[str] | None, rename: Mapping[str, str], spec: Mapping[str, str]
) -> dict[str, Field]:
    """Return the fields of the target, by their names in the source.

    Args:
        source: The source's fields.
        container: Name of the target's container.
        fields: Names of the fields to keep; None for all.
        rename: Old to new names.
        spec: New types, by names in the source.

    Raises:
        KeyError: The source has no such field.
        SpecError: Two fields get the same name, or a type is malformed.
    """
    wanted = list(source) if fields is None else list(dict.fromkeys(fields))
    for name in (*wanted, *rename, *spec):
        if name not in source:
            raise KeyError(f"there is no field {name!r}: the fields are {', '.join(source) or 'none'}")
    types = {}
    taken: dict[str, str] = {}
    for name in wanted:
        field = source[name]
        codec = _GRANULAR_TYPES.get(field.codec, field.codec) if container == "bag" else field.codec
        types[name] = spec.get(name, Field(name, codec, field.sequence).type)
        new = rename.get(name, name)
        if taken.setdefault(new, name) != name:
            raise SpecError(f"fields {taken[new]!r} and {name!r} would both be called {new!r}: rename one of them")
    parsed = parse_spec({rename.get(name, name): kind for name, kind in types.items()})
    return {name: parsed[rename.get(name, name)] for name in wanted}


def plan_fields(
    source: Spec, codecs: Mapping[str, frozenset[str]], targets: Mapping[str, Field], columns: Iterable[LayoutColumn]
) -> list[FieldPlan]:
    """Plan the conversion of each field.

    Args:
        source: The source's fields.
        codecs: Field to the codecs of its stored bytes; a field may have different codecs in different shards.
        targets: The result of `target_fields`.
        columns: How the target stores its fields.
    """
    stored = {column.field.name: column.codec for column in columns}
    plans = []
    for name, target in targets.items():
        here = codecs[name]
        known_as = None
        if here == {"bytes"} and target.codec != "bytes":
            known_as, here = target.codec, frozenset({target.codec})
        codec = stored[target.name]
        plans.append(FieldPlan(source[name], target, codec, here == {codec}, known_as))
    return plans


def encode_value(plan: FieldPlan, key: str, stored: Any, decoded: Any) -> Any:
    """Return the bytes, or list of bytes, that the target stores for one sample's value of a field.

    Args:
        plan: The plan of the field.
        key: The sample's key, for messages.
        stored: The bytes, or list of bytes, from the source.
        decoded: Their value, or list of values; not used if bytes are copied.

    Raises:
        SpecError: A sequence that becomes a plain field does not have exactly one element.
        CodecError: The target's codec cannot hold a value.
    """
    elements = stored if plan.copied else decoded
    if not plan.source.sequence:
        elements = [elements]
    elif not plan.target.sequence and len(elements) != 1:
        raise SpecError(
            f"sample {key!r} has {len(elements)} elements in field {plan.source.name!r}, but a plain "
            f"{plan.target.codec} needs exactly one: keep the sequence, {plan.target.codec}[]"
        )
    if not plan.copied:
        encode = get_codec(plan.codec).encode
        try:
            elements = [encode(element) for element in elements]
        except CodecError as error:
            raise CodecError(f"sample {key!r}, field {plan.target.name!r}: {error}", **error.details) from error
    return elements if plan.target.sequence else elements[0]


def _sparse_containers(spec: Spec, *, keyed: bool) -> Iterator[str]:
    """Yield the containers that can hold this spec with samples that lack fields."""
    for candidate in containers():
        try:
            layout = candidate.layout(spec, WriteOptions(keyed=keyed))
        except SpecError:
            continue
        if layout.sparse:
            yield candidate.name
