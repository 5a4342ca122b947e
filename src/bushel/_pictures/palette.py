"""Colours of classes, and masks whose pixels are class numbers."""

from __future__ import annotations

import colorsys
from functools import cache

import numpy as np

from bushel._runtime.arrays import U8

# class numbers of masks are below this; images with larger values are shown as grey levels
_CLASSES = 64
_IGNORED = 255  # the number that masks give to pixels without a class
_GOLDEN = 0.61803398875


@cache
def class_colours() -> U8:
    """Return 256x3: a colour for each class number. 0 is black, and neighbouring numbers have different hues."""
    colours = [(0, 0, 0)]
    for number in range(1, _IGNORED):
        hue, light = (0.33 + _GOLDEN * number) % 1, (0.52, 0.4, 0.62)[number % 3]
        red, green, blue = colorsys.hls_to_rgb(hue, light, 0.65)
        colours.append((round(255 * red), round(255 * green), round(255 * blue)))
    return np.array([*colours, (240, 240, 240)], np.uint8)


def is_index_mask(array: np.ndarray) -> bool:
    """Return whether the pixels of an image seem to be class numbers: one channel of uint8, all values small.

    255, which marks pixels without a class, may occur too, unless it is the only value apart from
    0.
    """
    if (
        array.dtype != np.uint8
        or not array.size
        or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1))
    ):
        return False
    greatest = int(array.max())
    if greatest == _IGNORED:
        rest = array[array != _IGNORED]
        greatest = int(rest.max()) if rest.size else 0
    return 0 < greatest < _CLASSES


def mask_pixels(mask: np.ndarray) -> U8:
    """Return a mask HxW or HxWx1 of class numbers as HxWx3, in the colours of the classes."""
    pixels: U8 = class_colours()[mask.reshape(mask.shape[:2])]
    return pixels


def mask_classes(mask: np.ndarray) -> list[tuple[int, float]]:
    """Return the class numbers in a mask, ascending, each with its share of the pixels."""
    numbers, counts = np.unique(mask, return_counts=True)
    return [
        (int(number), int(count) / mask.size) for number, count in zip(numbers, counts, strict=True)
    ]
