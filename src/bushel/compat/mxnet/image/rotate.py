"""Turning tensors by any angle."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from bushel.compat.mxnet.ndarray import Array, NDArray

__all__ = ["imrotate", "random_rotate"]


def imrotate(src: Array, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Turn a tensor, or a batch of them; interpolated bilinearly, zero outside.

    Args:
        src: float32, CxHxW or NxCxHxW.
        rotation_degrees: The angle; of a batch, one for all or one for each.
        zoom_in: Enlarge, so that nothing from outside is seen.
        zoom_out: Shrink, so that all of it is seen.

    Returns:
        float32, of the same shape.

    Raises:
        TypeError: It is not float32.
        ValueError: Both zooms, another number of axes, or another number of angles.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    tensor = np.asarray(src)
    if tensor.dtype != np.float32:
        raise TypeError(f"only float32 is turned, not {tensor.dtype}: put ToTensor before it")
    if tensor.ndim not in (3, 4):
        raise ValueError(f"a tensor has 3 axes, a batch 4, not {tensor.ndim}")
    if tensor.ndim == 3:
        return _turned(tensor, float(rotation_degrees), zoom_in, zoom_out).view(NDArray)
    angles = np.broadcast_to(np.asarray(rotation_degrees, np.float64), len(tensor))
    each = [_turned(one, angle, zoom_in, zoom_out) for one, angle in zip(tensor, angles.tolist(), strict=True)]
    return np.stack(each).view(NDArray)


def random_rotate(
    src: Array, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False, *, draw: Any = random
) -> NDArray:
    """Turn a tensor by an angle between two limits; each of a batch by its own. See `imrotate`."""
    angles = [draw.uniform(*angle_limits) for _ in range(1 if src.ndim == 3 else len(src))]
    return imrotate(src, angles[0] if src.ndim == 3 else angles, zoom_in, zoom_out)


def _turned(tensor: Array, degrees: float, zoom_in: bool, zoom_out: bool) -> Array:
    height, width = tensor.shape[1:]
    angle = math.radians(degrees)
    scale = _scale(height, width, angle, zoom_in, zoom_out)
    down, across = np.mgrid[:height, :width].astype(np.float64)
    down, across = down - (height - 1) / 2, across - (width - 1) / 2
    columns = scale * (across * math.cos(angle) - down * math.sin(angle)) + (width - 1) / 2
    rows = scale * (across * math.sin(angle) + down * math.cos(angle)) + (height - 1) / 2
    return _sampled(tensor, rows, columns)


def _scale(height: int, width: int, angle: float, zoom_in: bool, zoom_out: bool) -> float:
    if not (zoom_in or zoom_out):
        return 1.0
    diagonal, corner = math.hypot(height, width), math.atan(height / width)
    corners = corner + abs(angle), corner - abs(angle)
    wide = max(abs(diagonal * math.cos(one)) for one in corners) / width
    high = max(abs(diagonal * math.sin(one)) for one in corners) / height
    return max(wide, high) if zoom_out else min(1 / wide, 1 / high)


def _sampled(tensor: Array, rows: Array, columns: Array) -> Array:
    height, width = tensor.shape[1:]
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    summed = np.zeros(tensor.shape, np.float64)
    for row, by_row in ((top, top + 1 - rows), (top + 1, rows - top)):
        for column, by_column in ((left, left + 1 - columns), (left + 1, columns - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            values = tensor[:, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
            summed += values * (by_row * by_column * inside)
    return summed.astype(np.float32)
