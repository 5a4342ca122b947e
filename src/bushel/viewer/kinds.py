"""Kinds of values, as the viewer shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bushel.codecs import holds_clip, holds_image, holds_sound, is_registered

Kind = Literal[
    "image", "frame", "clip", "audio", "array", "text", "tree", "number", "bytes", "other"
]
"""The form in which a value is shown. `bytes` are shown by their content; `other` are values of codecs of users."""

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("array", "npy", "npz", "tenbin", "frames"), "array"),
    **dict.fromkeys(("json", "msgpack", "tree"), "tree"),
    **dict.fromkeys(
        (
            "int",
            "uint",
            "i64",
            "u64",
            "cls",
            "float",
            "f32",
            "float-text",
            "recordio-label",
            "recordio-label-int",
        ),
        "number",
    ),
    **dict.fromkeys(("bool", "datetime64", "timedelta64"), "number"),
    "utf8": "text",
    "bytes": "bytes",
    "pickle": "bytes",  # which is never unpickled here
}
_VISUAL: tuple[Kind, ...] = ("image", "frame", "clip", "array", "audio")


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field of a dataset."""

    name: str
    type: str  # its type, such as `jpg` or `jpg[]`
    kind: Kind  # how its values are shown
    sequence: bool  # whether it is a sequence

    @property
    def visual(self) -> bool:
        """Whether its values are shown as pictures."""
        return self.kind in _VISUAL

    @property
    def short(self) -> bool:
        """Whether a value fits into a line."""
        return self.kind in ("number", "text", "tree") and not self.sequence


def kind_of(codec: str) -> Kind:
    """Return the form in which values of a codec are shown, given a name such as `jpg(90)` or `gzip(utf8)`."""
    base, _, arguments = codec.partition("(")
    if is_registered(base):
        return "other"
    if base == "gzip":
        inner = kind_of(arguments.removesuffix(")"))
        if inner in ("text", "tree", "number", "array"):
            return inner
        return "bytes"
    if holds_image(codec):
        return "image"
    if base == "frame":  # of a clip, which another file holds
        return "frame"
    if holds_sound(codec):
        return "audio"
    return "clip" if holds_clip(codec) else _KINDS.get(base, "bytes")


def shown_fields(spec: Mapping[str, str]) -> tuple[ShownField, ...]:
    """Return the fields of a spec."""
    return tuple(
        ShownField(name, type_, kind_of(type_.removesuffix("[]")), type_.endswith("[]"))
        for name, type_ in spec.items()
    )
