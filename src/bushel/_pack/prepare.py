"""Prepare a source for packing: its order, class numbers, fields and columns in the target, and the encoder.

`_Facts` describes the samples of any source; the rest follows from facts and options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.reader import Reader
from bushel._dataset.read.shard_fields import with_declared
from bushel._dataset.read.shards import OpenShard, labels_of, union_of_fields
from bushel._dataset.views.dataset import Dataset
from bushel._index.contents import scanned_in
from bushel._index.names import (
    AUTO,
    Labels,
    check_labels,
    known_column_of,
    labels_of_fields,
    numbered,
)
from bushel._recognise.types import is_converted
from bushel._runtime.arrays import check_count, chunks
from bushel._runtime.draws import Order
from bushel._runtime.messages import few
from bushel._runtime.order import Sequential, make_order
from bushel._writer.publishing import continued_shards
from bushel._writer.target import Target
from bushel.codecs import get_codec, holds_image, tar_storage
from bushel.containers import Container, Layout, WriteOptions, get_container, writable_containers
from bushel.errors import FormatError, SpecError
from bushel.sources import Source, Stream, open_source
from bushel.sources.foreign import StoredStream
from bushel.spec import Field, Spec, format_spec, parse_spec
from bushel.storage import AnyPath, absolute

from .encoder import Encoder
from .feeds import DatasetFeed, Feed, SourceFeed, StreamFeed
from .field_plan import (
    ClassNumbers,
    FieldPlan,
    names_in_source,
    names_in_target,
    plan_fields,
    plan_numbers,
    plan_values,
    target_fields,
)
from .prepared import PackOptions, Prepared, refuse_own_source
from .run_folder import planned_listing

_ITEMS_IN_PART = 1000  # items of a part, if an engine is given and no number of parts
_LOOK = 1 << 16  # number of samples whose lengths or shards are looked up at once


class _Facts(Struct, frozen=True):
    """Properties of a source, as far as they are known without reading samples."""

    fields: Spec
    # field to the codecs of its stored bytes in the shards of these samples
    codecs: Mapping[str, frozenset[str]]
    # whether samples have stored bytes of these codecs, and are not made in Python
    stored: bool = True
    keyed: bool = True  # whether the samples have keys, or may have some
    labels: Sequence[Labels] = ()  # names of classes in each shard
    # empty folders, which a container may keep; None if samples are not the files of a folder
    folders: tuple[str, ...] | None = None
    seek: bool = False  # whether the index has seek tables
    columns: tuple[str, ...] = ()  # names of the columns in the index


def _facts_of(source: Dataset | Source | Stream) -> _Facts:
    """Return the facts of a source. No data are read, except for the first samples of a stream."""
    fields = parse_spec(source.spec)
    if isinstance(source, Dataset):
        return _facts_of_dataset(source, fields)
    if isinstance(source, StoredStream):
        stored = {name: frozenset({tar_storage(field.codec)[1]}) for name, field in fields.items()}
        return _Facts(fields, stored)
    folders = getattr(source, "folders", None)
    labels = check_labels(getattr(source, "labels", {}))
    return _Facts(
        fields,
        {},
        stored=False,
        labels=[labels] if labels else [],
        folders=folders and tuple(folders),
    )


def _facts_of_dataset(dataset: Dataset, fields: Spec) -> _Facts:
    # a view may have fewer samples than its shards
    is_whole = len(dataset) == len(dataset.reader.base.whole)
    shards = dataset.shards if is_whole else _shards_with_samples(dataset)
    indexes = [shard.index for shard in shards]
    filled = [index for index in indexes if index.samples]
    folders = tuple(_empty_folders_in(shards)) if is_whole else ()
    windows = dataset.reader.windows
    made = () if windows is None else windows.shape.offsets
    synthetic = [name for name in made if name in fields and not fields[name].sequence]
    return _Facts(
        fields=fields,
        codecs={
            name: frozenset(
                index.fields[name].codec
                for index in filled
                if name in index.fields and name not in synthetic
            )
            for name in fields
        },
        keyed=dataset.reader.keyed,
        labels=[labels_of_fields(shard.labels, fields) for shard in dataset.shards],
        folders=folders or None,
        seek=any("seek" in scanned_in(index) for index in indexes),
        columns=tuple(dict.fromkeys(name for index in indexes for name in index.columns)),
    )


def _typed(source: Any, options: PackOptions) -> Any:
    """Return a source; of a dataset, the view with the declared types, apart from results of transforms.

    Joins and windows keep their types.

    Raises:
        SpecError: Values cannot be read as the declared type without a change.
    """
    if not isinstance(source, Dataset) or type(source.reader) is not Reader:
        return source
    fields, transformed = parse_spec(source.spec), options.transforms
    names = transformed if isinstance(transformed, Mapping) else ()
    declared = {
        name: field
        for name, field in parse_spec(options.spec).items()
        if name in fields and is_converted(fields[name], field)
        if options.rename.get(name, name) not in names
    }
    if not declared:
        return source
    typed = source.reader.with_shards(
        [with_declared(shard, declared) for shard in source.reader.shards]
    )
    chosen = {name: typed.fields[name] for name in source.selection.fields}
    selection = replace(source.selection, fields=chosen)
    return type(source)((), reader=typed, selection=selection)


def _empty_folders_in(shards: Iterable[OpenShard]) -> Iterator[str]:
    """Yield the empty folders of packed folders."""
    for shard in shards:
        if shard.keyed:
            with suppress(FormatError):  # a damaged file, from which samples are recovered
                yield from get_container(shard.container).empty_folders(shard.shard)


def prepare_source(
    source: Any, target: AnyPath, container: Container, options: PackOptions
) -> Prepared:
    """Open a source, and decide how its samples are packed.

    Raises:
        FileExistsError: The target is the source, or is in it, or contains it.
        KeyError: A field does not exist.
        SpecError: The container cannot hold the samples; the message names the reason, and the
            containers that can.
        ValueError: The source is a stream and cannot be shuffled or divided, or the part does not
            exist.
    """
    writing = options.writer
    listing = None
    if options.parts is not None and writing.mode != "overwrite":
        listing = planned_listing(target)
    # the target is locked before a source is opened, which it may be
    types, on_damage = options.spec or None, options.on_damage
    opened = open_source(source, options.kind, types=types, listing=listing, on_damage=on_damage)
    opened = _typed(opened, options)
    refuse_own_source(source, opened, target, options)
    parts = _parts(opened, options)
    order = _order(opened, options, parts)
    facts = _facts_of(opened)
    targets = _targets(facts, container, options)
    spec = {field.name: field for field in targets.values()}
    keyed = facts.keyed if options.keys is None else bool(options.keys)
    for field in spec.values():
        get_codec(field.codec)
    has_keys = (keyed and facts.stored) or container.needs_keys
    layout = container.layout(spec, WriteOptions(has_keys, writing.generation))
    plans = _plans(opened, facts, targets, layout, options)
    if facts.stored and not layout.sparse and options.max_errors == 0:
        _refuse_missing(opened, list(targets), container, spec, keyed=keyed)
    declared = check_labels(writing.labels or {})
    existing = _continued(target, container, options, parts)
    labels_there = labels_of(existing or (), union_of_fields(existing or ()))
    names_before = names_in_source({**declared, **labels_there}, targets)
    numbers = plan_numbers(names_before, facts.labels, facts.fields)
    folders, keeps_folders = facts.folders, container.keeps_folders and keyed
    if not keeps_folders or callable(options.keys) or (facts.stored and layout.sparse):
        folders = None
    limits = ["keys are left out"] * (facts.stored and facts.keyed and not keyed)
    if folders is None and facts.folders:
        limits.append(f"empty folders left out: {few(facts.folders)}")
    unnamed = [name for name in numbers.unnamed if name in targets]
    if unnamed and (isinstance(opened, Stream) or len(opened)):
        limits.append(
            f"some samples have no class names for {', '.join(unnamed)}: their numbers are unchanged"
        )
    labels = {**declared, **names_in_target(numbers.labels, targets)}
    for name, plan in plans.items():
        if not facts.stored and plan.target.codec != "utf8":
            plans[name] = replace(plan, classes=numbered(labels.get(plan.target.name, ())))
    return Prepared(
        source=opened,
        order=order,
        parts=parts,
        spec=format_spec(spec),
        encoder=_encoder(opened, plans, facts, numbers, options, keyed=keyed),
        writing=replace(
            writing,
            container=container.name,
            labels=labels,
            folders=folders,
            seek=facts.seek if options.seek is None else options.seek,
            columns=_columns(facts, targets) if writing.columns is None else writing.columns,
        ),
        key=options.keys if callable(options.keys) else None,
        limits=tuple(limits),
        existing=existing,
    )


def _continued(
    target: AnyPath, container: Container, options: PackOptions, parts: int | None
) -> list[OpenShard] | None:
    """Return the shards of the dataset that is continued; None if none is."""
    mode = options.writer.mode
    if mode not in ("append", "resume") or parts is not None:
        return None
    return continued_shards(Target.of(absolute(target), container), mode)


def _targets(facts: _Facts, container: Container, options: PackOptions) -> dict[str, Field]:
    """Return the fields of the target, by their names in the source.

    Raises:
        KeyError: The source has no such field.
        SpecError: A type is malformed, or the source cannot have it.
    """
    if facts.stored:
        return target_fields(
            facts.fields, container, fields=options.fields, rename=options.rename, spec=options.spec
        )
    if options.fields is not None or options.rename:
        raise SpecError(
            "fields= and rename= need a dataset as source: leave fields out of the source itself"
        )
    for name in options.spec:
        if name not in facts.fields:
            raise KeyError(
                f"the source has no field {name!r}: the fields are "
                f"{', '.join(facts.fields) or 'none'}. A function of ds.map that adds it "
                f"has its type: ds.map(function, spec={{{name!r}: {options.spec[name]!r}}})"
            )
    fields = parse_spec({**format_spec(facts.fields), **options.spec})
    for name, field in fields.items():
        if field.sequence != facts.fields[name].sequence:
            raise SpecError(
                f"field {name!r} of the source is "
                f"{facts.fields[name].type}, and cannot become {field.type}"
            )
    return fields


def _plans(
    source: Dataset | Source | Stream,
    facts: _Facts,
    targets: Mapping[str, Field],
    layout: Layout,
    options: PackOptions,
) -> dict[str, FieldPlan]:
    if not facts.stored:
        infers_types = getattr(source, "infers_types", False)
        declared = options.spec.keys() if infers_types else targets.keys()
        return plan_values(facts.fields, targets, layout, declared)
    plans = plan_fields(facts.fields, facts.codecs, targets, layout)
    if isinstance(source, StoredStream):
        for name, plan in plans.items():
            plans[name] = replace(plan, known_as=plan.known_as or min(facts.codecs[name]))
    return plans


def _encoder(
    source: Dataset | Source | Stream,
    plans: Mapping[str, FieldPlan],
    facts: _Facts,
    numbers: ClassNumbers,
    options: PackOptions,
    *,
    keyed: bool,
) -> Encoder:
    """Return the encoder of the samples of a source. Raise SpecError if an option needs an image field."""
    feed: Feed
    if isinstance(source, Dataset):
        feed = DatasetFeed(source, plans, numbers)
    elif isinstance(source, StoredStream):
        feed = StreamFeed(plans, frozenset(facts.fields))
    else:
        changes = numbers.changes[0] if numbers.changes else {}
        positional = None if isinstance(source, Stream) else source
        feed = SourceFeed(positional, plans, changes, getattr(positional, "file_field", None))
    fields = {plan.target.name: plan.target for plan in plans.values()}
    has_images = any(holds_image(plan.codec) for plan in plans.values())
    if "upright" in options.images and not has_images:
        raise SpecError(
            f"images='upright' needs an image field, but the fields are {', '.join(fields)}"
        )
    steps: dict[str, FieldSteps] = {}
    if options.transforms is not None:
        from bushel.transforms.by_field import transforms_by_field

        from .field_steps import FieldSteps  # packing without transforms imports none

        by_field = transforms_by_field(options.transforms, format_spec(fields))
        steps = {name: FieldSteps.of(name, functions) for name, functions in by_field.items()}
    looked_into = options.images or steps or callable(options.keys)
    return Encoder(
        feed=feed,
        plans=plans,
        steps=steps,
        seed=options.seed,
        images=options.images,
        keyed=keyed,
        by_columns=not looked_into and feed.has_columns,
    )


def _parts(source: Dataset | Source | Stream, options: PackOptions) -> int | None:
    if options.engine is None or options.parts is not None or isinstance(source, Stream):
        return options.parts
    if isinstance(source, Dataset):
        return max(1, min(len(source.shards), len(source)))
    return max(1, -(-len(source) // _ITEMS_IN_PART))


def _order(source: Dataset | Source | Stream, options: PackOptions, parts: int | None) -> Order:
    """Return the order of all items. A stream has no such order.

    Raises:
        ValueError: The source is a stream and cannot be shuffled or divided, or the part does not
            exist.
    """
    if isinstance(source, Stream):
        if options.shuffle not in (None, False) or parts is not None:
            raise ValueError(
                "a stream is packed in its own order, in one "
                "part: give a list for shuffle= or parts="
            )
        return Sequential(0, 0)
    part = options.part
    if parts is None and part is not None:
        raise ValueError(f"part={part!r} needs parts=, the number of all parts")
    if parts is not None:
        check_count("parts", parts, least=1)
    if isinstance(part, str):
        if part != "plan":
            raise ValueError(f"part={part!r} is neither the number of a part nor 'plan'")
    elif part is not None and not 0 <= part < (parts or 1):
        raise ValueError(f"part={part} does not exist: the parts are 0 to {(parts or 1) - 1}")
    return make_order(options.shuffle, len(source), options.seed)


def _shards_with_samples(dataset: Dataset) -> list[OpenShard]:
    """Return the shards that hold samples of a view. The tables of the others need not be loaded."""
    reader = dataset.reader
    used = np.ones(len(dataset.shards), np.bool_)
    used[: len(reader.counted)] = False
    for some in chunks(range(len(dataset)), _LOOK):
        positions = reader.samples(dataset.selection.all_of(some))
        used[np.unique(np.searchsorted(reader.starts, positions, "right") - 1)] = True
    return [dataset.shards[number] for number in np.flatnonzero(used).tolist()]


def _columns(facts: _Facts, targets: Mapping[str, Field]) -> tuple[str, ...]:
    """Return the usual columns, and the source's columns that the target can have, by their new names."""
    fields = {field.name: field for field in targets.values()}
    columns = [AUTO]
    for name in facts.columns:
        old = known_column_of(name, facts.fields)
        if old is not None and old.field.name in targets:
            new = targets[old.field.name].name + name[len(old.field.name) :]
            if known_column_of(new, fields) is not None:
                columns += [new]
    return tuple(columns)


def _refuse_missing(
    source: Any, names: Sequence[str], container: Container, spec: Spec, *, keyed: bool
) -> None:
    """Raise `SpecError` for the first sample that lacks one of these fields; of a stream, among the first ones."""
    lacking = source.lacking if isinstance(source, StoredStream) else partial(_lacking, source)
    for key, name in lacking(names):
        able = ", ".join(_sparse_containers(spec, keyed=keyed))
        raise SpecError(
            f"sample {key!r} lacks the field {name!r}: the container {container.name} "
            "needs every field in every sample. Leave this field out"
            + f", or write to a container that allows missing fields: {able}"
            * bool(able)
        )


def _lacking(dataset: Dataset, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of samples that lack fields, with the names of the fields."""
    for positions in chunks(range(len(dataset) if names else 0), _LOOK):
        lacking = np.stack([dataset.lengths(positions, name) < 0 for name in names], axis=1)
        for row, column in np.argwhere(lacking):
            yield dataset.keys[positions[row]], names[int(column)]


def _sparse_containers(spec: Spec, *, keyed: bool) -> Iterator[str]:
    """Yield the containers that can hold this spec with samples that lack fields."""
    for candidate in writable_containers():
        try:
            layout = candidate.layout(spec, WriteOptions(keyed=keyed))
        except SpecError:
            continue
        if layout.sparse:
            yield candidate.name
