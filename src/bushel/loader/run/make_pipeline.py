"""Make the pipeline of a loader from its options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bushel._dataset.read.shards import kinds
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.mapped import Mapped, listed
from bushel._runtime.time_types import TIMES
from bushel.codecs.image import ImageReading
from bushel.loader.decode.sample_transforms import SampleTransforms
from bushel.loader.options import LoaderOptions, check_fields, check_rules, check_whole_batches
from bushel.loader.order.mixture import Mixture, Sources
from bushel.loader.plan.planning import LENGTH
from bushel.loader.read.costs import names_read, read_directly
from bushel.loader.read.loadable import Loadable, source_of
from bushel.loader.read.random_window import RandomWindows
from bushel.loader.values.bad_samples import excluded_positions
from bushel.loader.values.collate import AsOneType, Collate, FieldCollate
from bushel.loader.values.rows import NAMES, RowShape
from bushel.transforms.values import Call

from .pipeline import Pipeline

if TYPE_CHECKING:
    from bushel.loader.device.device_step import DeviceStep
    from bushel.loader.plan.plan import AnyOrder


_NARROWER = {
    "float": ["int", "uint"],
    "json": ["bool", "int", "uint", "float", "utf8"],
    **{codec: types for types in TIMES for codec in types},
}
"""Types whose values another type holds. Whole numbers of both signs have one type in batches anyway."""


def pipeline_of(options: LoaderOptions, source: Loadable, order: AnyOrder) -> Pipeline:
    """Return the pipeline for some options.

    Args:
        options: The options, with the number of ranks that was found out.
        source: The dataset, without the weights of a mixture.
        order: The order of its samples.

    Raises:
        ValueError, TypeError: Options contradict each other, or the dataset.
    """
    decode, spec = bool(options.decode), source.spec
    make = partial(
        SampleTransforms.of,
        spec=spec,
        decode=decode,
        reducing_gap=options.reducing_gap,
        reading=ImageReading(options.exif_rotate, options.allow_truncated),
        sample=options.sample_transform,
    )
    transforms, sources = make(options.transforms), None
    if isinstance(options.dataset, Mixture):
        sources = options.dataset.sources.planned(transforms, make)
        # for questions about batches of all datasets
        steps = (transforms, *sources.transforms)
        transforms = replace(
            transforms, fields=tuple(step for planned in steps for step in planned.fields)
        )
    requested = options.fields
    check_rules(options.collate, spec)
    if isinstance(source, Mapped):
        if not decode:
            raise ValueError(
                "decode=False: what the function of ds.map returns is not stored; "
                "ds.map(function, decode=False) gives the function stored bytes"
            )
        if requested is not None:
            source, requested = replace(source, kept=listed(requested)), None
        spec = source.spec
    else:
        check_fields(requested, spec, transforms)
    shape = _shape(options, spec)
    fields, windows = requested, None
    if isinstance(requested, Mapping):
        fields, windows = RandomWindows.of(source, requested, order.seed)
    if windows is not None and shape is not None:
        raise ValueError(
            "pack_by= and chunk_by= fill rows with whole documents: leave RandomWindow out"
        )
    excluded = excluded_positions(source, options.exclude)
    check_whole_batches(options, excluded)
    read = read_directly(source, fields, decode=decode) if windows is None else source
    return Pipeline(
        source_of(read, fields, decode=decode),
        order,
        fields,
        names_read(fields, spec),
        transforms,
        batch_transform=None
        if options.batch_transform is None
        else Call.of(options.batch_transform),
        on_error=options.on_error,
        excluded=excluded,
        batched=options.batch_size is not None or options.bucket_by is not None,
        keys=options.keys,
        shape=shape,
        sources=sources,
        windows=windows,
        device=_device(options, transforms, sources),
        collate=options.collate if shape else _with_one_type(source, spec, options.collate),
    )


def _shape(options: LoaderOptions, spec: Mapping[str, str]) -> RowShape | None:
    """Return the form of the batches; None if each sample has its own row.

    Raises:
        ValueError: A field of the dataset has the name of another entry of batches.
    """
    by, tokens = options.pack_by or options.chunk_by, options.pack_tokens or options.chunk_tokens
    if by is None or tokens is None:
        return None
    read = names_read(options.fields, spec)
    for name in NAMES if options.chunk_by is None else NAMES[-1:]:
        if name in read:
            raise ValueError(
                f"such a batch has {name!r} of its own: leave the field {name!r} out with fields="
            )
    first = by if isinstance(by, str) else next(iter(by))
    return RowShape(first.removesuffix(LENGTH), tokens, options.chunk_by is None)


def _device(
    options: LoaderOptions, transforms: SampleTransforms, sources: Sources | None
) -> DeviceStep | None:
    """Return the step that decodes on a device; None if the CPU decodes everything."""
    if options.decode != "device":
        return None
    if sources is not None and sources.transforms:
        raise ValueError(
            'decode="device" needs one list of transforms: '
            "leave out the transforms of single datasets"
        )
    from bushel.loader.device.device_step import device_step_of

    return device_step_of(options, transforms)


def _with_one_type(
    dataset: object, spec: Mapping[str, str], collate: Collate | None
) -> Collate | None:
    """Return how samples become a batch, with a rule for fields whose type is wider than that of some files."""
    if not isinstance(dataset, Dataset) or callable(collate):
        return collate
    rules = dict[str, FieldCollate](collate or {})
    for fields in {shard.fields for shards in dataset.reader.divisions for shard in kinds(shards)}:
        for field in fields:
            codec, rule = spec.get(field.name, field.codec), rules.get(field.name)
            if rule in (None, "stack") and field.codec in {*_NARROWER.get(codec, ())} - {codec}:
                rules[field.name] = AsOneType(codec, must=rule is not None)
    return rules or collate
