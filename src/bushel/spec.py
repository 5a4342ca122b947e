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
    def base_codec(self) -> str:
        """Name of its codec without parameters: `array`."""
        return self.codec.partition("(")[0]

    @property
    def names_file(self) -> bool:
        """Whether the stored text is the name of a file, whose bytes are the value: `jpg(path)`, `jpg(url)`."""
        return self.codec.endswith(("(path)", "(url)"))


_NUMBERS = frozenset(("int", "uint", "float"))
_PLAIN = _NUMBERS | {"bool", "utf8", "json"}  # types whose values JSON can hold


def wider(first: Field, second: Field) -> Field:
    """Return a field whose type holds the values of two.

    It is the first one, if they are not numbers, times, lists, texts and JSON.
    """
    codecs = {first.codec, second.codec}
    codec = first.codec
    for types in TIMES:
        if codecs.issubset(types):
            codec = max(codecs, key=types.index)
    if "json" in codecs and any(codec.startswith("array") for codec in codecs):
        codec = "json"
    elif len(codecs) > 1 and codecs <= _PLAIN:
        codec = "float" if "float" in codecs else "int"
        if codecs - _NUMBERS:  # a truth value stays one beside numbers
            codec = "json"
    return Field(first.name, codec, first.sequence)


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
