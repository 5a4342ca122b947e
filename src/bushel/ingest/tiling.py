"""JPEGs that become tiled ones (docs/tiled-jpeg.md) on their way into a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Literal

from bushel.codecs.base import Buffer
from bushel.errors import CodecError
from bushel.ingest.imagekind import codec_kind, image_kind
from bushel.jpeg import tile

__all__ = ["Jpeg", "fields_to_tile", "tile_values"]

Jpeg = Literal["tile"] | None
"""What is done to JPEGs: they are tiled, or nothing."""


def fields_to_tile(jpeg: Jpeg, codecs: Mapping[str, str]) -> frozenset[str]:
    """Names of the fields in which JPEGs are to be tiled.

    Args:
        jpeg: As for `bushel.pack`.
        codecs: The codecs of the bytes that the container stores, by field.

    Raises:
        ValueError: There is no such treatment of JPEGs.
    """
    if jpeg is None:
        return frozenset()
    if jpeg != "tile":
        raise ValueError(f"jpeg is 'tile' or None, not {jpeg!r}")
    return frozenset(name for name, codec in codecs.items() if codec_kind(codec) in ("jpg", "image"))


def tile_values(values: Mapping[str, Any], fields: Set[str]) -> dict[str, Any]:
    """The stored values of a sample, with the JPEGs in some fields tiled, unless they are already.

    Images of other kinds, which such fields may hold, stay as they are.

    Raises:
        CodecError: An image is damaged; names the field.
    """
    tiled = dict(values)
    for name in fields & values.keys():
        value = values[name]
        try:
            tiled[name] = list(map(_tiled, value)) if isinstance(value, list) else _tiled(value)
        except CodecError as error:
            raise CodecError(f"field {name!r}: {error}", **{**error.details, "field": name}) from error
    return tiled


def _tiled(data: Buffer | None) -> Buffer | None:
    return data if data is None or image_kind(data) not in ("jpg", None) else tile(data)
