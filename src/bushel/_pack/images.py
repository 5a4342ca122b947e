"""Image fields while packing: which fields hold images, what kind of file an image is, and rewriting JPEGs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from bushel._kinds import IMAGES, kind_of
from bushel._runtime.structs import Struct
from bushel.codecs import holds_image
from bushel.codecs.base import Buffer
from bushel.errors import CodecError
from bushel.jpeg import baseline, tile
from bushel.spec import Field

_ALIASES = {"jpeg": "jpg", "tiff": "tif"}

Jpeg = Literal["tile", "baseline"] | None
"""Treatment of JPEGs: `tile` stores them as tiled JPEGs (docs/tiled-jpeg.md), `baseline` rewrites progressive ones,
None stores them unchanged."""


def base_codec(codec: str) -> str:
    """Return the name of a codec without parameters, the same for all of its spellings."""
    base = codec.partition("(")[0]
    return _ALIASES.get(base, base)


def image_fields(fields: Mapping[str, Field]) -> list[str]:
    """Return the names of the fields that hold still images."""
    return [name for name, field in fields.items() if holds_image(field.codec)]


def image_kind(data: Buffer) -> str | None:
    """Return the kind of an image file, a name in `IMAGES`; None if the bytes are not an image."""
    kind = kind_of(data)
    return kind if kind in IMAGES else None


class Rewriting(Struct, frozen=True):
    """Which JPEGs are written again, without loss, before they are stored. False if none are."""

    jpeg: Jpeg
    fields: frozenset[str]  # the names of their fields

    @classmethod
    def of(cls, jpeg: Jpeg, codecs: Mapping[str, str]) -> Rewriting:
        """Return the rewriting for the arguments of `bushel.pack`.

        Args:
            jpeg: See `bushel.pack`.
            codecs: Field to the codec of the stored bytes.

        Raises:
            ValueError: `jpeg` is invalid.
        """
        if jpeg is not None and jpeg not in _REWRITE:
            raise ValueError(f"invalid jpeg={jpeg!r}: write 'tile', 'baseline' or None")
        images = (name for name, codec in codecs.items() if base_codec(codec) in ("jpg", "image"))
        return cls(jpeg, frozenset(() if jpeg is None else images))

    def __bool__(self) -> bool:
        return bool(self.fields)

    def rewritten(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored values of a sample with its JPEGs rewritten. Images of other kinds stay as they are.

        Raises:
            CodecError: An image is damaged. The error names the field.
        """
        changed = dict(values)
        for name in self.fields & values.keys():
            value = values[name]
            try:
                if isinstance(value, list):
                    changed[name] = list(map(self._one, value))
                else:
                    changed[name] = self._one(value)
            except CodecError as error:
                raise CodecError(
                    f"field {name!r}: {error}", **{**error.details, "field": name}
                ) from error
        return changed

    def _one(self, data: Buffer | None) -> Buffer | None:
        if data is None or self.jpeg is None or image_kind(data) not in ("jpg", None):
            return data
        return _REWRITE[self.jpeg](data)


_REWRITE: Mapping[str, Callable[[Buffer], bytes]] = {"tile": tile, "baseline": baseline}
