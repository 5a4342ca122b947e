"""Resizing with OpenCV's rules, for models that were trained on MXNet's pixels.

OpenCV only averages with "area". Nearest, bilinear and area give exactly OpenCV's levels for uint8;
cubic and Lanczos, which OpenCV computes in single precision, agree within one level. Bushel's own
transforms always average, and are faster: see docs/images.md.

OpenCV's documentation of `resize` and `InterpolationFlags` describes weights and rounding:
fixed-point numbers of 11 bits for uint8, sample positions at (x + 0.5) * scale - 0.5, cubic with a
= -0.75, Lanczos over 8 samples.
"""

from __future__ import annotations

import random
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .base import Array

NEAREST, BILINEAR, CUBIC, AREA, LANCZOS, AUTO, RANDOM = 0, 1, 2, 3, 4, 9, 10

_ONE = 1 << 11
_Taps: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
"""For each pixel of the result the source pixels, and their weights: both [result, taps]."""


def method_for(
    method: int,
    before: tuple[int, ...] | None = None,
    after: tuple[int, ...] | None = None,
    draw: random.Random | None = None,
) -> int:
    """Return the interpolation, 0 to 4, for MXNet's number of a method and the shapes before and after.

    9 is cubic to enlarge, area to shrink, and bilinear otherwise; 10 is drawn from `draw`, by
    default `random`.
    """
    if method == AUTO:
        if before is None or after is None:
            return CUBIC
        if after[0] > before[0] and after[1] > before[1]:
            return CUBIC
        return AREA if after[0] < before[0] and after[1] < before[1] else BILINEAR
    if method == RANDOM:
        return (random if draw is None else draw).randint(NEAREST, LANCZOS)
    if method not in range(LANCZOS + 1):
        raise ValueError(f"Unknown interp method {method}: there are 0 to 4, 9 and 10")
    return method


def resize(image: Array, width: int, height: int, method: int = BILINEAR) -> Array:
    """Return a resized uint8 or float image, HxW or HxWxC, as a new array of the same type."""
    if min(width, height) < 1 or 0 in image.shape:
        raise ValueError(f"cannot resize an image of shape {image.shape} to {width}x{height}")
    rows, columns = image.shape[:2]
    if (columns, rows) == (width, height):
        return image.copy()
    if method == NEAREST:
        return image[_nearest(rows, height)][:, _nearest(columns, width)]
    halves = columns == 2 * width and rows == 2 * height
    if (method == AREA and columns >= width and rows >= height) or (method == BILINEAR and halves):
        summed = _weighted(image.astype(np.float32), _area(columns, width), _area(rows, height))
        return _rounded(
            np.floor(summed + 0.5) if halves and image.dtype == np.uint8 else summed, image.dtype
        )
    horizontal, vertical = _taps(columns, width, method), _taps(rows, height, method)
    if image.dtype != np.uint8:
        return _rounded(_weighted(image.astype(np.float32), horizontal, vertical), image.dtype)
    return _fixed_point(image, horizontal, vertical)


def _nearest(length: int, result: int) -> npt.NDArray[np.int64]:
    index: npt.NDArray[np.int64] = np.floor(np.arange(result) * (1 / (result / length))).astype(
        np.int64
    )
    return np.clip(index, 0, length - 1)


def _taps(length: int, result: int, method: int) -> _Taps:
    """Return the taps of an interpolation between pixels: 2, 4 or 8."""
    scale, out = 1 / (result / length), np.arange(result)
    # enlarging: each pixel keeps its area, and only pixels at a border are mixed
    if method == AREA:
        first = np.floor(out * scale).astype(np.int64)
        part = ((out + 1) - (first + 1) / scale).astype(np.float32)
        part = np.where(part <= 0, np.float32(0), part - np.floor(part))
    else:
        place = ((out + 0.5) * scale - 0.5).astype(np.float32)
        first = np.floor(place).astype(np.int64)
        part = place - first.astype(np.float32)
    reach = {CUBIC: 2, LANCZOS: 4}.get(method, 1)
    steps = np.arange(1 - reach, reach + 1)
    distance = np.abs(part[:, None] - steps)
    if method == CUBIC:
        weights = np.where(
            distance <= 1,
            (1.25 * distance - 2.25) * distance * distance + 1,
            ((-0.75 * distance + 3.75) * distance - 6) * distance + 3,
        )
    elif method == LANCZOS:
        weights = np.sinc(distance) * np.sinc(distance / reach)
        weights /= weights.sum(1, keepdims=True)
    else:
        weights = np.stack([1 - part, part], 1)
    return np.clip(first[:, None] + steps, 0, length - 1), weights.astype(np.float32)


def _area(length: int, result: int) -> _Taps:
    """Return the taps of an average: the source pixels that each pixel covers, weighted by the covered area."""
    scale = 1 / (result / length)
    left = np.arange(result)[:, None] * scale
    index = np.floor(left).astype(np.int64) + np.arange(int(np.ceil(scale)) + 1)
    weights = np.clip(np.minimum(index + 1, left + scale) - np.maximum(index, left), 0, 1)
    weights[weights < 1e-3] = 0
    weights /= weights.sum(1, keepdims=True)
    return np.clip(index, 0, length - 1), weights.astype(np.float32)


def _shaped(weights: Array, image: Array, axis: int) -> Array:
    return weights.reshape([-1 if place == axis else 1 for place in range(image.ndim)])


def _along(image: Array, axis: int, index: Array, weights: Array) -> Array:
    """Return the weighted sum of pixels along an axis, in the type of the weights."""
    summed: Array | None = None
    for tap in range(index.shape[1]):
        taken = np.take(image, index[:, tap], axis).astype(weights.dtype, copy=False)
        term = taken * _shaped(weights[:, tap], image, axis)
        summed = term if summed is None else np.add(summed, term, out=summed)
    assert summed is not None  # there are at least two taps
    return summed


def _weighted(image: Array, horizontal: _Taps, vertical: _Taps) -> Array:
    return _along(_along(image, 1, *horizontal), 0, *vertical)


def _fixed_point(image: Array, horizontal: _Taps, vertical: _Taps) -> Array:
    columns, rows = horizontal[0], vertical[0]
    wide = _along(image, 1, columns, np.rint(horizontal[1] * _ONE).astype(np.int32))
    weights = np.rint(vertical[1] * _ONE).astype(np.int32)
    if rows.shape[1] > 2:
        return _rounded(
            _along(wide, 0, rows, weights.astype(np.float32) / (_ONE * _ONE)), image.dtype
        )
    above, below = (
        (wide[rows[:, tap]] >> 4) * _shaped(weights[:, tap], image, 0) >> 16 for tap in range(2)
    )
    return _rounded((above + below + 2) >> 2, image.dtype)


def _rounded(pixels: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        pixels = np.clip(np.rint(pixels), limits.min, limits.max)
    return pixels.astype(dtype)
