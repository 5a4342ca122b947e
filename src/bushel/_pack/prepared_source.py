"""Prepare a source for packing: its order, class numbers, fields, and the encoder of its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from bushel._dataset.open.open import open_any
from bushel._index.class_names import Labels, can_be_named, check_labels, in_order, numbered
from bushel._pack.encoder import Encoder
from bushel._pack.feeds import SourceFeed
from bushel._pack.field_plan import plan_values
from bushel._pack.own_source import refuse_own_source
from bushel._pack.pack_options import PackOptions
from bushel._pack.prepared import Prepared, check_none_skipped, encoder_for
from bushel._pack.prepared_dataset import prepare_dataset
from bushel._pack.run_folder import planned_listing
from bushel._pack.run_plan import check_part
from bushel._pack.scale_out import RunOptions
from bushel._runtime.order import Order, Sequential
from bushel._runtime.shuffle import Shuffle, make_order
from bushel._runtime.structs import Struct
from bushel._writer.class_names import known_labels
from bushel.codecs import get_codec
from bushel.containers.base import Container, WriteOptions
from bushel.errors import SpecError
from bushel.sources.base import Foldered, Labelled, Named, Source
from bushel.sources.opening import open_source
from bushel.sources.samples import Stream
from bushel.sources.stored import Stored, StoredStream
from bushel.spec import Field, Spec, parse_spec
from bushel.storage import AnyPath

_ITEMS_IN_PART = 1000  # items of a part, if an engine is given and no number of parts


class DatasetAt(Struct, frozen=True):
    """A dataset as source that is opened after the target was locked, which it may be."""

    source: Any


def prepare_source(
    source: Any, target: AnyPath, container: Container, options: PackOptions
) -> Prepared:
    """Open a source, and decide how its samples are packed.

    Raises:
        FormatError: The source skips files, which `strict_files` forbids.
        FileExistsError: The target is the source, or is in it, or contains it.
        SpecError: The container cannot hold the samples; the message names the reason, and the
            containers that can.
        ValueError: The source is a stream and cannot be shuffled or divided, or the part does not
            exist.
    """
    samples, mode, run = options.samples, options.writer.mode, options.run
    listing = planned_listing(target) if run.parts is not None and mode != "overwrite" else None
    location = source
    if isinstance(source, DatasetAt):
        location, source = source.source, open_any(source.source, verify=True)
    opened = open_source(source, types=samples.spec or None, listing=listing)
    refuse_own_source(location, opened, target, options)
    if options.errors.strict_files:
        check_none_skipped(opened)
    parts = _parts(opened, run)
    order = _order(opened, options.shuffle, options.seed, parts, run.part)
    if isinstance(opened, Stored | StoredStream):
        return prepare_dataset(opened, target, container, options, order, parts)
    if samples.fields is not None or samples.rename:
        raise SpecError(
            "fields= and rename= need a dataset as source: leave fields out of the source itself"
        )
    declared = check_labels(options.writer.labels or {})
    existing: Labels = {}
    if mode in ("append", "resume") and parts is None:
        existing = known_labels(target, container)
    opened, names = _with_numbers(opened, existing, declared)
    fields = _target_fields(opened.spec, samples.spec)
    folders = _folders(opened, container) if samples.keys in (None, True) else None
    empty = opened.folders if folders is None and isinstance(opened, Foldered) else None
    return Prepared(
        source=opened,
        order=order,
        parts=parts,
        fields=fields,
        encoder=_encoder(opened, fields, container, options),
        writing=replace(
            options.writer,
            container=container.name,
            labels={
                name: classes
                for name, classes in names.items()
                if name in declared or can_be_named(fields, name)
            },
            folders=folders,
            seek=bool(samples.seek),
        ),
        key=samples.keys if callable(samples.keys) else None,
        limits=(f"empty folders left out: {', '.join(empty[:3])}{', …' * (len(empty) > 3)}",)
        if empty
        else (),
    )


def _parts(source: Source | Stream, run: RunOptions) -> int | None:
    if run.engine is None or run.parts is not None or isinstance(source, Stream):
        return run.parts
    if isinstance(source, Stored):
        return max(1, min(len(source.dataset.shards), len(source)))
    return max(1, -(-len(source) // _ITEMS_IN_PART))


def _order(
    source: Source | Stream, shuffle: Shuffle, seed: int, parts: int | None, part: int | None
) -> Order:
    """Return the order of all items. A stream has no such order.

    Raises:
        ValueError: The source is a stream and cannot be shuffled or divided, or the part does not
            exist.
    """
    if isinstance(source, Stream):
        if shuffle not in (None, False) or parts is not None:
            raise ValueError(
                "a stream is packed in its own order, in one part: give a list for"
                " shuffle= or parts="
            )
        return Sequential(0, 0)
    check_part(parts, part)
    return make_order(shuffle, len(source), seed)


def _folders(source: Source | Stream, container: Container) -> tuple[str, ...] | None:
    if not container.keeps_folders or not isinstance(source, Foldered) or source.folders is None:
        return None
    return tuple(source.folders)


# Class numbers


def _with_numbers(
    source: Source | Stream, existing: Labels, declared: Labels
) -> tuple[Source | Stream, Labels]:
    """Return the source with the numbers of the dataset that it is added to, and its names of classes."""
    names = {**declared, **existing}
    if not isinstance(source, Labelled):
        return source, declared or (
            check_labels(source.labels) if isinstance(source, Named) else {}
        )
    field = next((name for name in ("label", "idx") if name in names), None)
    new = source if field is None else source.relabelled(numbered(names[field]))
    if isinstance(new, Named):
        return new, check_labels({**declared, **new.labels})
    classes = {"label": in_order(new.label2idx)} if isinstance(new, Labelled) else {}
    return new, check_labels({**declared, **classes})


# Fields


def _target_fields(source: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, Field]:
    """Return the fields of the target: the fields of the source, with the types in `changed`.

    Raises:
        KeyError: The source has no such field.
        SpecError: A type is malformed, or a field is a sequence in only one of the two.
    """
    for name in changed:
        if name not in source:
            raise KeyError(
                f"the source has no field {name!r}: the fields are {', '.join(source) or 'none'}."
                f" A function of ds.map that adds it has its type: ds.map(function, spec={{{name!r}:"
                f" {changed[name]!r}}})"
            )
    before, fields = parse_spec(source), parse_spec({**source, **changed})
    for name, field in fields.items():
        get_codec(field.codec)
        if field.sequence != before[name].sequence:
            raise SpecError(
                f"field {name!r} of the source is {before[name].type}, and cannot"
                f" become {field.type}"
            )
    return fields


def _encoder(
    source: Source | Stream, fields: Spec, container: Container, options: PackOptions
) -> Encoder:
    """Return the encoder of the samples.

    Raises:
        SpecError: The container cannot hold the fields, or an option needs an image field.
    """
    layout = container.layout(fields, WriteOptions(container.needs_keys, options.writer.generation))
    plans = plan_values(parse_spec(source.spec), fields, layout.columns)
    feed = SourceFeed(None if isinstance(source, Stream) else source, plans)
    return encoder_for(feed, options, plans.values(), keyed=options.samples.keys is not False)
