"""Pictures of the values of a sample, for tiles and pages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bushel._dataset.views.inside import elements_of_window
from bushel._pictures.pixels import array_pixels, displayable
from bushel._pictures.thumbnail import Picture, encoded, mosaic, shrunk
from bushel._pictures.values import arrays_in, value_picture, value_pixels
from bushel.errors import CodecError

from .extents import stored_values
from .shelf import Shelf, Shown

SIDES = (96, 160, 256, 384, 512)
"""Sides of thumbnails in pixels. Few different sizes make the cache useful."""

_ON_TILE = 4  # number of elements of a sequence on its tile


def side_for(wanted: int) -> int:
    """Return the smallest side that is at least `wanted`, else the largest."""
    return next((side for side in SIDES if side >= wanted), SIDES[-1])


def picture_of(
    shelf: Shelf, shown: Shown, position: int, name: str, side: int, element: int | None = None
) -> Picture:
    """Return the thumbnail of a value. It is made once and kept.

    Raises:
        KeyError: The sample lacks the field.
        CodecError: The value cannot be decoded, or has no picture.
        BushelError: It cannot be read.
    """
    key = (shown.number, position, name, side, element)
    return shelf.pictures.get(key, lambda: _picture(shown, position, name, side, element))


def _picture(shown: Shown, position: int, name: str, side: int, element: int | None) -> Picture:
    field = shown.field(name)
    values = stored_values(shown.dataset, position, name)
    if values is None:
        raise KeyError(f"this sample lacks the field {name!r}")
    if field.kind == "clip":
        return encoded(_clip_frame(shown, position, name, side, element))
    if field.kind == "frame":
        return encoded(shrunk(displayable(np.asarray(shown.dataset[position, [name]][name])), side))
    if field.sequence:
        if element is not None:
            values = values[element : element + 1] if element >= 0 else []
        if not values:
            raise CodecError(
                "this sequence has no such element" if element is not None else "an empty sequence"
            )
        if len(values) > 1:
            half = max(side // 2, 1)
            chosen = [values[number] for number in _spread(len(values), _ON_TILE)]
            small = [value_pixels(value.extent.codec, value.read(), 2 * half) for value in chosen]
            return encoded(mosaic(small, half, 2))
    [value] = values
    if field.kind == "array" and name in elements_of_window(shown.dataset, position):
        for array in arrays_in(shown.dataset[position, [name]][name]).values():
            if (drawn := array_pixels(array, side)) is not None:
                return encoded(shrunk(drawn[0], side))
    return value_picture(value.extent.codec, value.read(), side)


def _spread(count: int, wanted: int) -> list[int]:
    """Return up to `wanted` numbers below `count`, at equal distances, with the first."""
    return sorted({count * number // wanted for number in range(min(count, wanted))})


def _clip_frame(
    shown: Shown, position: int, name: str, side: int, element: int | None
) -> npt.NDArray[np.uint8]:
    frames = shown.dataset[position, {name: [element or 0]}][name]
    return shrunk(np.asarray(frames)[0], side)
