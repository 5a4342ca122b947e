"""Prepare a dataset or a stream of archives for packing: its fields, class numbers and columns in the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from bushel._dataset.read.columns import names_in_any
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import reader_of, whole_positions, windows_of
from bushel._index.class_names import Labels, check_labels, labels_of_fields
from bushel._index.column_names import AUTO, known_column_of
from bushel._index.value_scan import scanned_in
from bushel._pack.class_numbers import ClassNumbers, names_in_source, names_in_target, plan_numbers
from bushel._pack.feeds import DatasetFeed, Feed, StreamFeed
from bushel._pack.field_plan import plan_fields, target_fields
from bushel._pack.pack_options import PackOptions
from bushel._pack.prepared import Prepared, encoder_for
from bushel._runtime.order import Order
from bushel._runtime.structs import Struct
from bushel._writer.class_names import known_labels
from bushel.codecs import get_codec
from bushel.codecs.extensions import tar_storage
from bushel.containers import Container, writable_containers
from bushel.containers.base import Layout, WriteOptions
from bushel.errors import SpecError
from bushel.sources.stored import Stored, StoredStream
from bushel.spec import Field, Spec, parse_spec
from bushel.storage import AnyPath

_LOOK = 1 << 16  # number of samples whose lengths or shards are looked up at once


class _Facts(Struct, frozen=True):
    """Properties of a dataset or stream."""

    fields: Spec
    # field to the codecs of its stored bytes in the shards of these samples
    codecs: Mapping[str, frozenset[str]]
    keyed: bool  # whether the samples have keys
    labels: Sequence[Labels] = ()  # names of classes in each shard
    seek: bool = False  # whether the index has seek tables
    columns: tuple[str, ...] = ()  # names of the columns in the index

    @classmethod
    def of(cls, source: Stored | StoredStream) -> _Facts:
        """Return the facts of a dataset or stream. No data are read, except for the first samples of a stream."""
        fields = parse_spec(source.spec)
        if isinstance(source, StoredStream):
            return cls(
                fields,
                {name: frozenset({tar_storage(field.codec)[1]}) for name, field in fields.items()},
                True,
            )
        dataset = source.dataset
        indexes = [shard.index for shard in _shards_of(dataset)]
        filled = [index for index in indexes if index.samples]
        windows = windows_of(dataset)
        synthetic: list[str] = []
        if windows is not None:
            synthetic = [
                name
                for name in windows.shape.offsets
                if name in fields and not fields[name].sequence
            ]
        return cls(
            fields=fields,
            codecs={
                name: frozenset(
                    index.fields[name].codec
                    for index in filled
                    if name in index.fields and name not in synthetic
                )
                for name in fields
            },
            keyed=dataset.info.keyed,
            labels=[labels_of_fields(shard.labels, fields) for shard in dataset.shards],
            seek=any("seek" in scanned_in(index) for index in indexes),
            columns=names_in_any(dataset.shards),
        )


def prepare_dataset(
    source: Stored | StoredStream,
    target: AnyPath,
    container: Container,
    options: PackOptions,
    order: Order,
    parts: int | None,
) -> Prepared:
    """Decide how samples of a dataset are written.

    Raises:
        KeyError: The field does not exist.
        SpecError: The container cannot hold the samples; the message names the reason, and the
            containers that can.
    """
    samples, writing = options.samples, options.writer
    facts = _Facts.of(source)
    targets = target_fields(
        facts.fields, container, fields=samples.fields, rename=samples.rename, spec=samples.spec
    )
    spec = {field.name: field for field in targets.values()}
    keyed = facts.keyed if samples.keys is None else bool(samples.keys)
    layout = _layout(container, spec, keyed=keyed, generation=writing.generation)
    plans = plan_fields(facts.fields, facts.codecs, targets, layout.columns)
    if isinstance(source, StoredStream):
        plans = [
            replace(plan, known_as=plan.known_as or min(facts.codecs[plan.source.name]))
            for plan in plans
        ]
    if not layout.sparse and options.errors.max_errors == 0:
        _refuse_missing(source, list(targets), _advice(container, spec, keyed=keyed))
    declared = check_labels(writing.labels or {})
    existing = (
        known_labels(target, container)
        if writing.mode in ("append", "resume") and parts is None
        else {}
    )
    numbers = plan_numbers(
        names_in_source({**declared, **existing}, targets), facts.labels, facts.fields
    )
    by_name = {plan.source.name: plan for plan in plans}
    feed: Feed
    if isinstance(source, Stored):
        feed = DatasetFeed(source.dataset, by_name, numbers)
    else:
        feed = StreamFeed(by_name, frozenset(facts.fields))
    folders = _folders(source, container, options, keyed=keyed, layout=layout)
    return Prepared(
        source=source,
        order=order,
        parts=parts,
        fields=spec,
        encoder=encoder_for(feed, options, plans, keyed=keyed),
        writing=replace(
            writing,
            container=container.name,
            labels={**declared, **names_in_target(numbers.labels, targets)},
            folders=folders,
            seek=facts.seek if samples.seek is None else samples.seek,
            columns=_columns(facts, targets) if writing.columns is None else writing.columns,
        ),
        key=samples.keys if callable(samples.keys) else None,
        limits=_limits(source, facts, numbers, targets, keyed=keyed, folders=folders),
    )


def _shards_of(dataset: Dataset) -> list[OpenShard]:
    """Return the shards that hold samples of a dataset or view. The tables of the others need not be loaded."""
    if len(dataset) == dataset.info.samples:
        return list(dataset.shards)
    reader = reader_of(dataset)
    used = np.ones(len(dataset.shards), np.bool_)
    used[: len(reader.counted)] = False
    for start in range(0, len(dataset), _LOOK):
        positions = whole_positions(
            dataset, np.arange(start, min(start + _LOOK, len(dataset)), dtype=np.int64)
        )
        used[np.unique(np.searchsorted(reader.starts, positions, "right") - 1)] = True
    return [dataset.shards[number] for number in np.flatnonzero(used).tolist()]


def _layout(container: Container, spec: Spec, *, keyed: bool, generation: str | None) -> Layout:
    for field in spec.values():
        get_codec(field.codec)
    return container.layout(
        spec, WriteOptions(keyed=keyed or container.needs_keys, generation=generation)
    )


def _folders(
    source: Stored | StoredStream,
    container: Container,
    options: PackOptions,
    *,
    keyed: bool,
    layout: Layout,
) -> tuple[str, ...] | None:
    """Return the empty folders that the target keeps; None if it keeps none."""
    if isinstance(source, StoredStream) or source.folders is None or not container.keeps_folders:
        return None
    if keyed and not callable(options.samples.keys) and not layout.sparse:
        return tuple(source.folders)
    return None


def _limits(
    source: Stored | StoredStream,
    facts: _Facts,
    numbers: ClassNumbers,
    targets: Mapping[str, Field],
    *,
    keyed: bool,
    folders: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """Describe what the target does not keep of the source, in words."""
    limits = ["keys are left out"] if facts.keyed and not keyed else []
    if folders is None and isinstance(source, Stored) and source.folders:
        limits.append(f"{len(source.folders)} empty folders are left out")
    filled = isinstance(source, StoredStream) or len(source)
    if unnamed := [name for name in numbers.unnamed if name in targets and filled]:
        limits.append(
            f"some samples have no class names for {', '.join(unnamed)}: their numbers"
            " are unchanged"
        )
    return tuple(limits)


def _columns(facts: _Facts, targets: Mapping[str, Field]) -> tuple[str, ...]:
    """Return the usual columns, and the source's columns that the target can have, by their new names."""
    fields = {field.name: field for field in targets.values()}
    columns = [AUTO]
    for name in facts.columns:
        old = known_column_of(name, facts.fields)
        if old is not None and old.field.name in targets:
            new = targets[old.field.name].name + name[len(old.field.name) :]
            columns += [new] if known_column_of(new, fields) is not None else []
    return tuple(columns)


def _refuse_missing(source: Stored | StoredStream, names: Sequence[str], advice: str) -> None:
    """Raise `SpecError` for the first sample that lacks one of these fields; of a stream, among the first ones."""
    for key, name in (
        source.lacking(names)
        if isinstance(source, StoredStream)
        else _lacking(source.dataset, names)
    ):
        raise SpecError(f"sample {key!r} lacks the field {name!r}: {advice}")


def _lacking(dataset: Dataset, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the key of the first sample that lacks a field, with the name of the field."""
    for first in range(0, len(dataset), _LOOK):
        positions = range(first, min(first + _LOOK, len(dataset)))
        lacking = {name: dataset.lengths(positions, name) < 0 for name in names}
        worst = min(
            names,
            key=lambda name: (not lacking[name].any(), int(lacking[name].argmax())),
            default=None,
        )
        if worst is not None and lacking[worst].any():
            yield dataset.keys[first + int(lacking[worst].argmax())], worst
            return


def _advice(container: Container, spec: Spec, *, keyed: bool) -> str:
    able = ", ".join(_sparse_containers(spec, keyed=keyed))
    other = f", or write to a container that allows missing fields: {able}" if able else ""
    return (
        f"the container {container.name} needs every field in every sample. Leave this field"
        f" out{other}"
    )


def _sparse_containers(spec: Spec, *, keyed: bool) -> Iterator[str]:
    """Yield the containers that can hold this spec with samples that lack fields."""
    for candidate in writable_containers():
        try:
            layout = candidate.layout(spec, WriteOptions(keyed=keyed))
        except SpecError:
            continue
        if layout.sparse:
            yield candidate.name
