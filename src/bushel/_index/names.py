"""Names of classes for the numbers in a label field, and names of columns. Nothing here does I/O.

`{"label": ("cat", "dog")}` means that a sample with the label 1 shows a dog. An empty name stands
for a number that no class has. Names are kept in the index of each shard and in the manifest. They
only grow at the end, so the names in an older shard are the beginning of those in a newer one.

Columns: `label` is the value of a field; `image.width`, `tokens.length` and `meta.camera.iso` are
properties of a value, or parts of it. `image.bytes` is the number of stored bytes of any field,
which every index has. `*.width` stands for the columns of this name of all fields that can have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from bushel._runtime.public import did_you_mean
from bushel.codecs import holds_clip, holds_image, holds_sound, registry
from bushel.codecs.registry import NUMBERS
from bushel.errors import SpecError
from bushel.spec import Field, Spec

Labels = Mapping[str, tuple[str, ...]]
"""Field to the names of its classes, in the order of their numbers. `meta.label` is a member of a JSON field."""

MAX_NAMES = 1 << 20
"""Largest number of classes of a field."""
MAX_NAME_LENGTH = 1024
"""Largest number of characters in a name."""


def holds_numbers(fields: Spec, name: str) -> bool:
    """Return whether names of this field stand for numbers; else the field has texts or JSON."""
    return _base(fields, name) in NUMBERS


def _base(fields: Spec, name: str) -> str:
    return fields[name].base_codec if name in fields else ""


def numbers_classes(fields: Spec, name: str) -> bool:
    """Return whether names of this field stand for numbers: values are numbers, or arrays that may hold several."""
    return _base(fields, name) in (*NUMBERS, "array")


def can_be_named(fields: Spec, name: str) -> bool:
    """Return whether a dataset with these fields can have names for `name`: a field, or a member of a JSON field."""
    if name in fields:
        return numbers_classes(fields, name) or fields[name].codec == "utf8"
    return _base(fields, name.partition(".")[0]) in ("json", "msgpack")


def labels_of_fields(labels: Labels, names: Iterable[str]) -> Labels:
    """Return the names of these fields only."""
    chosen = set(names)
    labels_kept = {
        name: classes
        for name, classes in labels.items()
        if name in chosen or name.partition(".")[0] in chosen
    }
    return labels if len(labels_kept) == len(labels) else labels_kept


def check_labels(labels: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Check names, and return them in the stored form.

    Raises:
        SpecError: A name is not text or is too long, two classes have the same name, or there are
            too many.
    """
    checked: dict[str, tuple[str, ...]] = {}
    if not isinstance(labels, Mapping):
        raise SpecError(
            "labels= gives names of classes by field, such as {'label': "
            f"['cat', 'dog']}}, not a {type(labels).__name__}"
        )
    for field, classes in labels.items():
        if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
            raise SpecError(
                f"the class names of field {field!r} must be "
                f"a list of text, not {type(classes).__name__}"
            )
        names = tuple(classes)
        if len(names) > MAX_NAMES:
            raise SpecError(
                f"field {field!r} has {len(names):,} class names, more than {MAX_NAMES:,}"
            )
        for name in names:
            if not isinstance(name, str):
                raise SpecError(
                    f"the class names of field {field!r} must be "
                    f"text, not {type(name).__name__}: {name!r}"
                )
            if not name.isascii() and name.encode("utf-8", "replace").decode() != name:
                raise SpecError(
                    f"class name {name!r} of field {field!r} is not UTF-8: rename that class"
                )
            if len(name) > MAX_NAME_LENGTH:
                raise SpecError(
                    f"a class name of field {field!r} has {len(name):,} "
                    f"characters, more than {MAX_NAME_LENGTH:,}"
                )
        seen: dict[str, int] = {}
        for number, name in enumerate(names):
            if name and seen.setdefault(name, number) != number:
                raise SpecError(
                    f"classes {seen[name]} and {number} of field "
                    f"{field!r} have the same name {name!r}"
                )
        if names:
            checked[field] = _one(names)
    return checked


@lru_cache(maxsize=64)
def _one(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one object for equal names, which all shards of a dataset have."""
    return names


def numbered(names: Sequence[str]) -> dict[str, int]:
    """Return a mapping of names to their numbers."""
    return {name: number for number, name in enumerate(names) if name}


def with_numbers(value: Any, numbers: Mapping[str, int]) -> Any:
    """Return a value, or a list of values, with numbers in place of the names of classes. Other texts stay."""
    if isinstance(value, str):
        return numbers.get(value, value)
    if getattr(getattr(value, "dtype", None), "kind", None) in ("O", "U", "T"):
        value = value.tolist()
    if isinstance(value, list | tuple) and any(
        isinstance(element, str | list | tuple) for element in value
    ):
        return [with_numbers(element, numbers) for element in value]
    return value


def in_order(numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of some numbers in order, with an empty name for each number that is left out.

    The result is empty if the numbers cannot number classes: negative, used twice, or far too
    large.
    """
    used = set(numbers.values())
    if (
        not numbers
        or len(used) < len(numbers)
        or min(used) < 0
        or max(used) >= min(64 * len(used) + 1024, MAX_NAMES)
    ):
        return ()
    names = [""] * (max(used) + 1)
    for name, number in numbers.items():
        names[number] = name
    return tuple(names)


def join_names(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of both if they agree about every number, else None."""
    if first is second or tuple(second) == tuple(first[: len(second)]):
        return tuple(first)
    if len(first) >= len(second):
        longer, shorter = first, second
    else:
        longer, shorter = second, first
    joined = list(longer)
    for number, name in enumerate(shorter):
        if name and joined[number] and joined[number] != name:
            return None
        joined[number] = joined[number] or name
    named = [name for name in joined if name]
    if len(set(named)) == len(named):
        return tuple(joined)
    return None


def join_labels(each: Iterable[tuple[str, Labels]], fields: Spec) -> dict[str, tuple[str, ...]]:
    """Return the names of several shards or datasets as one.

    Args:
        each: A description of the owner of the names, for errors, and the names.
        fields: The fields. Others are left out.

    Raises:
        SpecError: Two of them give different names to the same number of a field.
    """
    joined: dict[str, tuple[str, ...]] = {}
    origins: dict[str, str] = {}
    last: Labels = {}
    for origin, labels in each:
        if labels is last:
            continue
        last = labels
        for field, names in labels.items():
            if not can_be_named(fields, field) or joined.get(field) is names:
                continue
            earlier = joined.get(field, ())
            joint = join_names(earlier, names)
            if joint is None and not numbers_classes(fields, field):
                joint = (*earlier, *(name for name in names if name not in set(earlier)))
            if joint is None:
                raise SpecError(_difference(field, origins[field], earlier, origin, names))
            joined[field] = _one(joint)
            origins.setdefault(field, origin)
    return joined


def _difference(
    field: str, first: str, earlier: Sequence[str], second: str, names: Sequence[str]
) -> str:
    number = next(
        (n for n, (a, b) in enumerate(zip(earlier, names, strict=False)) if a and b and a != b),
        None,
    )
    if number is None:
        twice = next(
            name
            for at, name in enumerate(names)
            if name and name in earlier and earlier.index(name) != at
        )
        what = (
            f"{twice!r} is class {earlier.index(twice)} in "
            f"{first} and {names.index(twice)} in {second}"
        )
    else:
        what = f"class {number} is {earlier[number]!r} in {first} and {names[number]!r} in {second}"
    return (
        f"field {field!r} has different class numbers: {what}. "
        "`bushel merge` (bushel.merge) writes one dataset with one numbering"
    )


# Columns

Reading = Literal[
    "value", "image", "clip", "sound", "array", "member", "length", "elements", "bytes"
]
"""The source of a column: the value itself, a header, the layout of an array, a member of a JSON or msgpack value, the
length of a text, the number of elements of a sequence, or nothing (`bytes`)."""

AUTO = "auto"
"""The name that stands for the columns that writers record."""
NONE = "none"
"""The name that stands for no column, on the command line."""

BYTES = "bytes"
"""The part of a field's name that stands for the number of its stored bytes."""

EVERY = "*."
"""The beginning of a name that stands for the columns of all fields."""

_NUMBERS = (*NUMBERS, "bool", "datetime64", "timedelta64")
_ARRAYS = ("array", "npy")
_MAPS = ("json", "msgpack", "tree")
_Kind = Literal["value", "image", "clip", "sound", "array", "member", "length", "bytes", "other"]
"""The content of a field, which decides its possible columns, or the values of a registered codec."""
_PARTS: Mapping[Reading | _Kind, tuple[str, ...]] = {
    "image": ("width", "height", "channels", "format", "exif_orientation"),
    "clip": ("frames", "duration", "fps"),
    "sound": ("length",),
    "array": ("length", "ndim", "dtype", "shape.0", "shape.1", "shape.2", "shape.3"),
    "length": ("length",),
}


class ColumnOf(Struct, frozen=True):
    """The meaning of the name of a column."""

    name: str  # name of the column
    field: Field
    part: str  # the text after the field's name and a dot; empty for the value itself
    reading: Reading  # the part of a value that has to be read for it


def names_of(columns: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names that a user gives: in a list, or in a text with commas and perhaps blanks."""
    if not isinstance(columns, str):
        return tuple(columns)
    return tuple(name.strip() for name in columns.split(",") if name.strip())


def column_of(name: str, fields: Spec) -> ColumnOf:
    """Resolve the name of a column.

    Raises:
        KeyError: No field has this name or begins it; the message suggests names.
        SpecError: The field cannot have this column; the message lists the columns that it can
            have.
    """
    column = known_column_of(name, fields)
    if column is not None:
        return column
    field = field_of(name, fields)
    possible = possible_columns(fields)
    if field is None:
        meant = did_you_mean(name, [*possible, *fields])
        raise KeyError(
            f"no field for a column {name!r}: "
            f"{meant or 'the fields are ' + (', '.join(fields) or 'none')}"
        )
    columns_of_field = [
        candidate
        for candidate in possible
        if candidate == field.name or candidate.startswith(f"{field.name}.")
    ]
    meant = did_you_mean(name, columns_of_field)
    can = f"{meant} It can have" if meant else "it can have"
    raise SpecError(
        f"field {field.name!r} of type {field.type!r} has no "
        f"column {name!r}: {can} {', '.join(columns_of_field)}"
    )


def known_column_of(name: str, fields: Spec) -> ColumnOf | None:
    """Resolve the name of a column; None if no field has such a column."""
    field = field_of(name, fields)
    if field is None:
        return None
    part = name[len(field.name) + 1 :]
    reading = _reading(field, part)
    if reading is None:
        return None
    return ColumnOf(name, field, part, reading)


def known_columns(names: Iterable[str], fields: Spec) -> list[ColumnOf]:
    """Resolve names of columns, each once, without those that no field has.

    `*.width` stands for the columns of all fields that can have one.
    """
    columns: dict[str, ColumnOf] = {}
    for name in names:
        candidates = [name]
        if name.startswith(EVERY):
            candidates = [f"{field}.{name.removeprefix(EVERY)}" for field in fields]
        for candidate in candidates:
            column = known_column_of(candidate, fields)
            if column is not None:
                columns[candidate] = column
    return list(columns.values())


def field_of(name: str, fields: Spec) -> Field | None:
    """Return the field with this name, or the longest one that begins it and is followed by a dot."""
    owners = [owner for owner in fields if name == owner or name.startswith(f"{owner}.")]
    if owners:
        return fields[max(owners, key=len)]
    return None


def _reading(field: Field, part: str) -> Reading | None:
    if part == BYTES:
        return "bytes"
    if field.sequence:
        return "elements" if part == "length" else None
    kind = _kind(field)
    if kind == "member":
        return "member"
    if not part:
        return "value" if kind in ("value", "length", "other") else None
    if kind == "array" and part.startswith("shape.") and part[6:].isdecimal() and len(part) <= 8:
        return "array"
    if kind != "other" and part in _PARTS.get(kind, ()):
        return kind
    return None


def _kind(field: Field) -> _Kind:
    base, _, _ = field.codec.partition("(")
    if base in registry.registered:
        return "other"
    if holds_image(field.codec):
        return "image"
    if holds_clip(field.codec):
        return "clip"
    if holds_sound(field.codec):
        return "sound"
    if base in _ARRAYS:
        return "array"
    if base in _MAPS:
        return "member"
    if base == "utf8":
        return "length"
    return "value" if base in _NUMBERS or base == "gzip" else "bytes"


def possible_columns(fields: Spec) -> list[str]:
    """Return the columns that fields can have, without members of JSON values, whose names are in the values."""
    columns = []
    for name, field in fields.items():
        kind = _kind(field)
        if field.sequence:
            columns.append(f"{name}.length")
        elif kind in ("value", "length", "other", "member"):
            columns.append(name)
        if not field.sequence and kind in _PARTS:
            columns += [f"{name}.{part}" for part in _PARTS[kind]]
        columns.append(f"{name}.{BYTES}")
    return columns


def usual_columns(fields: Spec) -> list[ColumnOf]:
    """Return the columns that writers record: numbers, short texts, sizes of images, lengths of arrays and texts."""
    names = []
    for name, field in fields.items():
        kind = _kind(field)
        if field.sequence:
            continue
        if kind == "image":
            names += [f"{name}.width", f"{name}.height"]
        elif kind in ("value", "length") and not field.codec.startswith("gzip"):
            names += [name, f"{name}.length"] if kind == "length" else [name]
        elif kind == "array" and length_of_all(field.codec) is None:
            names.append(f"{name}.length")
    return [column_of(name, fields) for name in names]


def length_of_all(codec: str) -> int | None:
    """Return the length that a codec's type gives all arrays: 4 of `array(float32,4,2)`; None if it gives none."""
    _, _, shape = codec.partition("(")[2].rstrip(")").partition(",")
    length = shape.split(",")[0].strip()
    return int(length) if length.isdecimal() else None
