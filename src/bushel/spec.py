"""Specs: the fields of a sample, and the codec of each."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from bushel._runtime.time_types import TIMES
from bushel.errors import SpecError

__all__ = ["KEY", "Field", "Spec", "format_spec", "parse_spec", "wider"]

KEY = "__key__"
"""The name of a sample's key. Fields cannot have it."""

_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_IN_PARAMETERS = _IN_NAMES | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ.,()")


class Field(Struct, frozen=True):
    """One modality of a sample.

    Attributes:
        name: The field's name.
        codec: Name of its codec, with parameters if any: `jpg`, `array(float32,64,128)`.
        sequence: Whether a sample holds a list of values (`jpg[]`) rather than one.
    """

    name: str
    codec: str
    sequence: bool = False

    @property
    def type(self) -> str:
        """The field's type as written in a spec, such as `jpg[]`."""
        return f"{self.codec}[]" if self.sequence else self.codec

    @property
    def names_file(self) -> bool:
        """Whether the stored text is the name of a file, whose bytes are the value: `jpg(path)`, `jpg(url)`."""
        return self.codec.endswith(("(path)", "(url)"))


NUMBERS = frozenset(("bool", "int", "uint", "float"))
"""The types of single numbers."""

_PLAIN = NUMBERS | {"utf8", "json"}  # types whose values JSON can hold
_VALUES = _PLAIN | {"bytes", "array", "datetime64", "timedelta64"}


def wider(first: Field, second: Field) -> Field | None:
    """Return a field whose type holds the values of two; None if no type does.

    It is the first one, if a type is neither of numbers, times, arrays and texts, nor JSON or bytes.
    """
    codecs = {first.codec, second.codec}
    if first.sequence != second.sequence:  # lists of texts are JSON if some have nulls
        of_texts = {first.type, second.type} == {"json", "utf8[]"}
        return Field(first.name, "json") if of_texts else None
    bases = {codec.partition("(")[0] for codec in codecs}
    if len(codecs) == 1 or not bases <= _VALUES:
        return first
    codec = None
    if bases <= NUMBERS:
        codec = "float" if "float" in codecs else "int"
    elif codecs <= _PLAIN or bases == {"array", "json"}:
        codec = "json"
    elif codecs == {"bytes", "utf8"}:
        codec = "bytes"
    elif "array" in bases and bases <= NUMBERS | {"array"}:
        codec = _wider_array(sorted(codecs - NUMBERS))
    for types in TIMES:
        if codecs.issubset(types):
            codec = max(codecs, key=types.index)
    return None if codec is None else Field(first.name, codec, first.sequence)


def _wider_array(types: list[str]) -> str | None:
    """Return the type of arrays of two types, or of arrays of one type and single numbers; None if no type does."""
    if types[0] == "array":  # of any dtype and shape
        return "array"
    (dtype, *shape), (other_dtype, *other_shape) = (
        codec.removeprefix("array(").removesuffix(")").split(",") for codec in (types[0], types[-1])
    )
    if len(types) == 1 or shape != other_shape:
        if not shape or shape[1:] != other_shape[1:] or len(shape) != len(other_shape):
            return None
        shape[0] = "-1"
    import numpy as np

    try:
        common = np.promote_types(dtype, other_dtype)
    except TypeError:  # numbers and times, or names that NumPy does not know
        return None
    return f"array({','.join([common.name, *shape])})"


Spec = Mapping[str, Field]
"""Field name to field, in the order in which the fields were declared."""


def parse_spec(spec: Mapping[str, str]) -> dict[str, Field]:
    """Parse `{"image": "jpg", "frames": "jpg[]"}`.

    Whether a codec of that name exists is not checked here.

    Raises:
        SpecError: The name or the type of a field is malformed.
    """
    if not isinstance(spec, Mapping):
        raise SpecError(
            f"a spec is a mapping of field names to types such as {{'image': 'jpg'}}, not {spec!r}"
        )
    fields = {}
    for name, kind in spec.items():
        if (
            not isinstance(name, str)
            or not name
            or name == KEY
            or "\0" in name
            or any("\ud800" <= letter <= "\udfff" for letter in name)  # lone surrogates
        ):
            hint = f"use a non-empty string of Unicode text other than {KEY!r}"
            raise SpecError(f"{name!r} cannot be the name of a field: {hint}")
        if not isinstance(kind, str) or not _is_type(kind):
            raise SpecError(
                f"field {name!r} has the malformed type {kind!r}: "
                "write a text such as 'int', 'utf8' or 'jpg', or 'jpg[]' for a sequence"
            )
        fields[name] = Field(name, kind.removesuffix("[]"), kind.endswith("[]"))
    return fields


def _is_type(text: str) -> bool:
    """Return whether a text is a codec's name, perhaps with parameters in parentheses, perhaps followed by `[]`."""
    name, bracket, parameters = text.removesuffix("[]").partition("(")
    closed = parameters.endswith(")") and _IN_PARAMETERS.issuperset(parameters) if bracket else True
    return closed and name != "" and _IN_NAMES.issuperset(name)


def format_spec(fields: Spec) -> dict[str, str]:
    """Return field names to types, the inverse of `parse_spec`."""
    return {name: field.type for name, field in fields.items()}
