"""What a pack run will do, decided before the first byte. Pure: no I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bushel.codecs import get_codec
from bushel.containers import Container
from bushel.containers.base import WriteOptions
from bushel.core.order import Exact, Sequential
from bushel.errors import SpecError
from bushel.ingest.part import Places
from bushel.ingest.prepare import image_fields
from bushel.ingest.steps import FieldSteps
from bushel.spec import Field, Spec, parse_spec
from bushel.storage import AnyPath
from bushel.transforms.values import Transform

__all__ = [
    "Transforms",
    "allowed_errors",
    "cut",
    "pack_fields",
    "part_path",
    "plan_steps",
    "stored_codecs",
]

Transforms = Sequence[Transform] | Mapping[str, Sequence[Transform]]
"""For every image, or by field."""


def pack_fields(source: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, Field]:
    """The fields of the target.

    Args:
        source: The source's spec.
        changed: New types, by field.

    Raises:
        KeyError: The source has no such field.
        SpecError: A type is malformed, or a field would stop or begin to be a sequence.
    """
    for name in changed:
        if name not in source:
            raise KeyError(f"the source has no field {name!r}: it has {', '.join(source) or 'none'}")
    before, fields = parse_spec(source), parse_spec({**source, **changed})
    for name, field in fields.items():
        get_codec(field.codec)
        if field.sequence != before[name].sequence:
            raise SpecError(f"field {name!r} of the source is {before[name].type}, and cannot become {field.type}")
    return fields


def stored_codecs(container: Container, fields: Spec, generation: str | None) -> dict[str, str]:
    """The codecs of the bytes that a container stores for these fields.

    Raises:
        SpecError: It cannot hold them; says why, and which containers can.
    """
    layout = container.layout(fields, WriteOptions(keyed=container.needs_keys, generation=generation))
    return {column.field.name: column.codec for column in layout.columns}


def plan_steps(transforms: Transforms | None, fields: Spec) -> dict[str, FieldSteps]:
    """The transforms of each field.

    Raises:
        SpecError: There is no such field, or transforms of images and no image.
        TypeError: Something in a list cannot be called.
    """
    if not transforms:
        return {}
    if not isinstance(transforms, Mapping):
        images = image_fields(fields)
        if not images:
            raise SpecError(f"transforms=[...] is for images, and there are none among {', '.join(fields)}")
        transforms = dict.fromkeys(images, transforms)
    steps = {}
    for name, functions in transforms.items():
        if name not in fields:
            raise SpecError(f"transforms for {name!r}, which is not a field of the source: it has {', '.join(fields)}")
        for function in functions:
            if not callable(function):
                raise TypeError(f"the transform {function!r} of field {name!r} cannot be called")
        steps[name] = FieldSteps.of(functions)
    return steps


def part_path(target: AnyPath, number: int, suffix: str) -> AnyPath:
    """Where a part is written.

    Args:
        target: The dataset of all parts.
        number: Which part, from 0.
        suffix: Of the container's files; empty where a dataset is always a folder.
    """
    if suffix and target.name.endswith(suffix):
        return target.parent / f"{target.name.removesuffix(suffix)}-part-{number:05d}{suffix}"
    return target / f"part-{number:05d}"


def cut(samples: int, shuffle: int | None, parts: int | None, part: int | None) -> list[Places]:
    """The stretches of the order that the parts are.

    Args:
        samples: Samples of the source.
        shuffle: Seed of a random order, or None.
        parts: How many parts all samples make; None for one that is not called a part.
        part: The only one wanted, or None for all.

    Raises:
        ValueError: There is no such part.
    """
    if parts is None and part is not None:
        raise ValueError(f"part={part} needs parts=, the number of all parts")
    if parts is not None and parts < 1:
        raise ValueError(f"parts is at least 1, not {parts}")
    count = parts or 1
    if part is not None and not 0 <= part < count:
        raise ValueError(f"part {part} of {count}: the parts are 0 to {count - 1}")
    order = Sequential(samples) if shuffle is None else Exact(samples, shuffle)
    wanted = range(count) if part is None else [part]
    return [Places(order, samples * one // count, samples * (one + 1) // count) for one in wanted]


def allowed_errors(max_errors: int | float, samples: int | None) -> int:
    """How many items of a part may fail.

    Args:
        max_errors: A number, or a share between 0 and 1.
        samples: Items of the part; None when they are not known.

    Raises:
        ValueError: It is neither, or a share of an unknown number.
    """
    if isinstance(max_errors, bool) or max_errors < 0 or math.isnan(max_errors):
        raise ValueError(f"max_errors is a number of items or a share of them, not {max_errors!r}")
    if isinstance(max_errors, int):
        return max_errors
    if max_errors > 1:
        raise ValueError(f"a share of errors lies between 0 and 1: write {int(max_errors)} instead of {max_errors}")
    if samples is None:
        raise ValueError("a stream has no known number of items: give max_errors as a number")
    return int(max_errors * samples)
