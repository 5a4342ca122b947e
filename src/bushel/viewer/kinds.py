"""Kinds of values, as the viewer shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from bushel.codecs import holds_clip, holds_image, holds_sound, is_registered
from bushel.codecs.registry import NUMBERS

Kind = Literal[
    "image", "frame", "clip", "audio", "array", "text", "tree", "number", "bytes", "other"
]
"""The form in which a value is shown. `bytes` are shown by their content; `other` are values of codecs of users."""

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("array", "npy", "npz", "tenbin", "frames"), "array"),
    **dict.fromkeys(("json", "msgpack", "tree"), "tree"),
    **dict.fromkeys((*NUMBERS, "bool", "datetime64", "timedelta64"), "number"),
    "utf8": "text",
    "bytes": "bytes",
    "pickle": "bytes",  # which is never unpickled here
}
_PREDICTED = re.compile(r"(^|[._])pred(s|icted|iction|ictions)?($|[._])")
_LABEL = re.compile("(?i)label|class|target|truth|category")
_VISUAL: tuple[Kind, ...] = ("image", "frame", "clip", "array", "audio")


class ShownField(Struct, frozen=True):
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
    def frames(self) -> bool:
        """Whether a value is the frames of a video, as in episodes of LeRobot."""
        return self.type.partition("(")[0] == "frames"

    @property
    def pictured(self) -> bool:
        """Whether its values are pictures or series of pictures."""
        return self.frames or self.kind in ("image", "frame", "clip")

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
    if holds_clip(codec):
        return "clip"
    return _KINDS.get(base, "bytes")


def shown_fields(spec: Mapping[str, str]) -> tuple[ShownField, ...]:
    """Return the fields of a spec."""
    return tuple(
        ShownField(name, type_, kind_of(type_.removesuffix("[]")), type_.endswith("[]"))
        for name, type_ in spec.items()
    )


def predicted_name(names: Sequence[str]) -> str | None:
    """Return the first name, of fields or columns, that says that it has predictions, else None."""
    return next(filter(_PREDICTED.search, names), None)


def label_name(names: Sequence[str]) -> str | None:
    """Return the first name, of fields or columns, that says that it has labels, else None."""
    return next(filter(_LABEL.search, names), None)


def compared_fields(fields: Sequence[ShownField]) -> tuple[str, str] | None:
    """Return the fields of labels and of their predictions, as their names say; None if one is missing."""
    kinds = {field.name: field.kind for field in fields if field.kind in ("number", "text")}
    predicted = predicted_name(list(kinds))
    if predicted is None:
        return None
    alike = [name for name in kinds if name != predicted and kinds[name] == kinds[predicted]]
    label = label_name(alike)
    if label is None:
        return None
    return label, predicted
