"""Prepare a source for packing: its order, class numbers, fields, and the encoder of its samples."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.codecs import get_codec
from bushel.containers.base import Container, WriteOptions
from bushel.core.index.class_names import Labels, can_be_named, check_labels, in_order, numbered
from bushel.core.order import Order, Sequential, Shuffle, make_order
from bushel.core.writer.class_names import known_labels
from bushel.errors import FormatError, SpecError
from bushel.ingest.images import fields_to_tile, image_fields
from bushel.ingest.pack_options import PackOptions
from bushel.ingest.run_folder import planned_listing
from bushel.ingest.run_plan import check_part, describe
from bushel.ingest.sample_encoder import FieldSteps, SampleEncoder
from bushel.ingest.scale_out import RunOptions
from bushel.ingest.side_files import labels_path, load_labels
from bushel.sources.base import Fetching, Fingerprinted, Foldered, Labelled, Named, Selective, Source, Traceable
from bushel.sources.opening import open_source
from bushel.sources.samples import Stream
from bushel.spec import Field, Spec, format_spec, parse_spec
from bushel.storage import AnyPath
from bushel.transforms.by_field import transforms_by_field

__all__ = ["PreparedSource", "describe_skipped", "prepare_source"]

_BATCH_BYTES = 1 << 20
_REMOTE_BATCH_BYTES = 8 << 20  # many objects are requested at once
_ITEMS_IN_PART = 1000
"""Items of a part, if an engine is given and no number of parts."""
_ORIGINS = 1000
"""Items whose origins a fingerprint contains, at most."""


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """A source, and how its samples are packed.

    Attributes:
        source: The source, with the class numbers of the target.
        order: Order of its items; a stream has an order of no items.
        parts: Number of parts to write; None for one dataset.
        fields: Fields of the target.
        encoder: Encodes samples as the container stores them.
        labels: Names of classes that the target gets.
        folders: Paths of empty folders that the target gets; None if it cannot have any.
    """

    source: Source | Stream
    order: Order
    parts: int | None
    fields: Mapping[str, Field]
    encoder: SampleEncoder
    labels: Labels
    folders: tuple[str, ...] | None

    @property
    def spec(self) -> dict[str, str]:
        """Field to type of the target."""
        return format_spec(self.fields)

    @property
    def items(self) -> int | None:
        """Number of items, or None for a stream."""
        return None if isinstance(self.source, Stream) else self.order.samples

    @property
    def batch_bytes(self) -> int:
        """Bytes of samples that are encoded as one batch."""
        return _REMOTE_BATCH_BYTES if isinstance(self.source, Fetching) and self.source.remote else _BATCH_BYTES

    @property
    def skipped(self) -> dict[str, int]:
        """Files of the source that are not samples, by kind."""
        return dict(self.source.skipped) if isinstance(self.source, Selective) else {}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the source: its own if it has one, else one of its length, spec, labels and origins.

        Two calls, in different processes, pack the same items if it is equal. Origins are looked up for a thousand
        items at most, and no item is read.
        """
        source = self.source
        if isinstance(source, Fingerprinted):
            return source.fingerprint
        facts: list[Any] = [self.items, dict(source.spec)]
        if isinstance(source, Labelled):
            facts.append(dict(source.label2idx))
        elif isinstance(source, Named):
            facts.append({name: list(each) for name, each in source.labels.items()})
        if isinstance(source, Traceable) and self.items:
            positions = np.unique(np.linspace(0, self.items - 1, _ORIGINS).astype(np.int64))
            facts.append([source.origin(position) for position in positions.tolist()])
        return hashlib.sha256(repr(describe(facts)).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def lost_folders(self) -> tuple[str, ...]:
        """Return a note about empty folders of the source, which are in no sample, if the target does not keep them."""
        empty = self.source.folders if self.folders is None and isinstance(self.source, Foldered) else None
        return (f"empty folders left out: {', '.join(empty[:3])}{', …' * (len(empty) > 3)}",) if empty else ()


def describe_skipped(skipped: Mapping[str, int]) -> str:
    """Return the numbers of skipped files by kind: `3 .avif, 1 .mp4`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in skipped.items())


def prepare_source(source: Any, target: AnyPath, container: Container, options: PackOptions) -> PreparedSource:
    """Open a source, and decide how its samples are packed.

    Raises:
        FormatError: The source passes over files, which `strict_files` forbids.
        SpecError: The container cannot hold the samples; the message says why, and which containers can.
        ValueError: The source is a stream and cannot be shuffled or divided, or there is no such part.
    """
    wanted, mode, run = options.samples, options.writer.mode, options.run
    listing = planned_listing(target) if run.parts is not None and mode != "overwrite" else None
    opened = open_source(source, types=wanted.spec or None, listing=listing)
    if options.errors.strict_files:
        _check_none_skipped(opened)
    parts = _parts(opened, run)
    order = _order(opened, options.shuffle, options.seed, parts, run.part)
    given = check_labels(options.writer.labels or {})
    known, noted = _numbers_at(target, container) if mode in ("append", "resume") and parts is None else ({}, {})
    opened, names = _with_numbers(opened, known, given, noted)
    fields = _target_fields(opened.spec, wanted.spec)
    return PreparedSource(
        source=opened,
        order=order,
        parts=parts,
        fields=fields,
        encoder=_encoder(opened, fields, container, options),
        labels={name: each for name, each in names.items() if name in given or can_be_named(fields, name)},
        folders=_folders(opened, container) if wanted.keys is True else None,
    )


def _check_none_skipped(source: Source | Stream) -> None:
    """Check that a source passes over no files.

    Raises:
        FormatError: The source passes over files; the message says of which kinds.
    """
    if isinstance(source, Selective) and source.skipped:
        kinds = describe_skipped(source.skipped)
        raise FormatError(
            f"strict_files=True, but the source passes over files: {kinds}. This is the first one",
            file=source.first_skipped,
            hint="move them away, convert them, or leave out strict_files",
        )


def _parts(source: Source | Stream, run: RunOptions) -> int | None:
    if run.engine is None or run.parts is not None or isinstance(source, Stream):
        return run.parts
    return max(1, -(-len(source) // _ITEMS_IN_PART))


def _order(source: Source | Stream, shuffle: Shuffle, seed: int, parts: int | None, part: int | None) -> Order:
    """Return the order of all items, of which a stream has none.

    Raises:
        ValueError: The source is a stream and cannot be shuffled or divided, or there is no such part.
    """
    if isinstance(source, Stream):
        if shuffle not in (None, False) or parts is not None:
            raise ValueError("a stream is packed in its own order, in one part: give a list for shuffle= or parts=")
        return Sequential(0, 0)
    check_part(parts, part)
    return make_order(shuffle, len(source), seed)


def _folders(source: Source | Stream, container: Container) -> tuple[str, ...] | None:
    empty = source.folders if container.keeps_folders and isinstance(source, Foldered) else None
    return None if empty is None else tuple(empty)


# Class numbers


def _numbers_at(path: AnyPath, container: Container) -> tuple[Labels, Mapping[str, int]]:
    """Return how the dataset at a path numbers its classes.

    Returns:
        The names of classes in the dataset; and, if it has none, the numbers of labels in the file that an older
        version wrote.
    """
    known = known_labels(path, container)
    return known, {} if known else load_labels(labels_path(path, container.name))


def _with_numbers(
    source: Source | Stream, known: Labels, given: Labels, noted: Mapping[str, int]
) -> tuple[Source | Stream, Labels]:
    """Return the source with the numbers of the dataset that it is added to, and its names of classes.

    Args:
        source: The source.
        known: Names in the dataset.
        given: Names that the user gives.
        noted: Numbers of labels in the file of a dataset that an older version wrote.
    """
    names = {**given, **known}
    if not isinstance(source, Labelled):
        return source, given or (check_labels(source.labels) if isinstance(source, Named) else {})
    field = next((name for name in ("label", "idx") if name in names), None)
    numbers = noted if field is None else numbered(names[field])
    new = source.relabelled(numbers) if numbers else source
    if isinstance(new, Named):
        return new, check_labels({**given, **new.labels})
    own = {"label": in_order(new.label2idx)} if isinstance(new, Labelled) else {}
    return new, check_labels({**given, **own})


# Fields


def _target_fields(source: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, Field]:
    """Return the fields of the target: those of the source, with the types in `changed`.

    Raises:
        KeyError: The source has no such field.
        SpecError: A type is malformed, or a field is a sequence in only one of the two.
    """
    for name in changed:
        if name not in source:
            raise KeyError(f"the source has no field {name!r}: the fields are {', '.join(source) or 'none'}")
    before, fields = parse_spec(source), parse_spec({**source, **changed})
    for name, field in fields.items():
        get_codec(field.codec)
        if field.sequence != before[name].sequence:
            raise SpecError(f"field {name!r} of the source is {before[name].type}, and cannot become {field.type}")
    return fields


def _encoder(source: Source | Stream, fields: Spec, container: Container, options: PackOptions) -> SampleEncoder:
    """Return the encoder of the samples.

    Raises:
        SpecError: The container cannot hold the fields, or an option needs an image field.
    """
    wanted = options.samples
    if wanted.orient and not image_fields(fields):
        raise SpecError(f"orient=True needs an image field, but the fields are {', '.join(fields)}")
    layout = container.layout(fields, WriteOptions(container.needs_keys, options.writer.generation))
    codecs = {column.field.name: column.codec for column in layout.columns}
    transforms = transforms_by_field(wanted.transforms, format_spec(fields))
    return SampleEncoder(
        source=None if isinstance(source, Stream) else source,
        fields=fields,
        given={name: field.codec for name, field in parse_spec(source.spec).items()},
        codecs=codecs,
        steps={name: FieldSteps.of(functions) for name, functions in transforms.items()},
        seed=options.seed,
        orient=wanted.orient,
        check=wanted.check,
        tiled=fields_to_tile(wanted.jpeg, codecs),
        key=wanted.keys if callable(wanted.keys) else None,
        keyed=bool(wanted.keys),
    )
