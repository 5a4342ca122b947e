"""Resolve the names of columns in a dataset with given fields. Pure: no I/O.

`label` is the value of a field; `image.width`, `tokens.length` and `meta.camera.iso` are properties
of a value, or parts of it. `image.bytes` is the number of stored bytes of any field, which every
index has. `*.width` stands for the columns of this name of all fields that can have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from bushel._runtime.public import did_you_mean
from bushel.codecs import holds_clip, holds_image, holds_sound, registry
from bushel.codecs.registry import NUMBERS
from bushel.errors import SpecError
from bushel.spec import Field, Spec

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

_EVERY = "*."

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


def expanded(names: Iterable[str], fields: Spec) -> list[str]:
    """Return names of columns, where `*.width` stands for the columns of all fields that can have one."""
    columns: list[str] = []
    for name in names:
        if name.startswith(_EVERY):
            candidates = (f"{field}.{name.removeprefix(_EVERY)}" for field in fields)
            columns += [
                candidate
                for candidate in candidates
                if known_column_of(candidate, fields) is not None
            ]
        else:
            columns.append(name)
    return list(dict.fromkeys(columns))


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
    base = field.codec.partition("(")[0]
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
        elif kind == "array" and not _has_one_length(field.codec):
            names.append(f"{name}.length")
    return [column_of(name, fields) for name in names]


def _has_one_length(codec: str) -> bool:
    """Return whether a codec's type gives all arrays the same length."""
    _, _, shape = codec.partition("(")[2].rstrip(")").partition(",")
    return shape.split(",")[0].strip().isdecimal()
