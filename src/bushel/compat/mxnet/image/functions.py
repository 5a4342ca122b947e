"""Functions of single images: HxWxC arrays, colours in the order RGB unless noted otherwise.

Random functions draw from the module `random`, as in the original, so `random.seed` makes them
reproducible.
"""

from __future__ import annotations

import math
import operator
import random
from typing import Any

import numpy as np

from bushel.compat.mxnet.base import Array, NDArray, SizeError, naming_file
from bushel.compat.mxnet.pixels import COLOUR, decode, swapped
from bushel.compat.mxnet.resampling import BILINEAR, CUBIC, method_for, resize
from bushel.storage import as_path

__all__ = [
    "center_crop",
    "color_normalize",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

Box = tuple[int, int, int, int]
"""Left, top, width, height."""


def imdecode(buf: Any, flag: int = COLOUR, to_rgb: int = 1, out: Array | None = None) -> NDArray:
    """Decode an image from bytes or uint8[n] to uint8[height, width, channels], in `out` if it is given."""
    if not isinstance(buf, bytes | bytearray | memoryview | np.ndarray):
        raise ValueError(  # noqa: TRY004
            f"buf must be of type bytes, bytearray or numpy.ndarray, not {type(buf).__name__}"
        )
    data = np.ascontiguousarray(buf, np.uint8).tobytes() if isinstance(buf, np.ndarray) else buf
    image = decode(data, flag)
    image = image[:, :, None] if image.ndim == 2 else image if to_rgb else swapped(image)
    if out is None:
        return image.view(NDArray)
    out[...] = image
    return out.view(NDArray)


def imread(filename: Any, flag: int = COLOUR, to_rgb: int = 1, out: Array | None = None) -> NDArray:
    """Read and decode an image file: see `imdecode`."""
    with naming_file(filename), as_path(filename).open("rb") as file:
        data = file.read()
    return imdecode(data, flag, to_rgb, out)


def imresize(src: Array, w: int, h: int, interp: int = BILINEAR) -> NDArray:
    """Resize an image. OpenCV's interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 auto, 10 any."""
    pixels = np.asarray(src)
    try:
        width, height = operator.index(w), operator.index(h)
        method = method_for(interp, pixels.shape[:2], (height, width))
    except (TypeError, ValueError) as error:
        raise SizeError(
            f"cannot resize an image to {w}x{h} with interp={interp}: {error}"
        ) from error
    if pixels.ndim != 3 or min(width, height) < 1 or 0 in pixels.shape:
        raise SizeError(f"cannot resize an image of shape {pixels.shape} to {width}x{height}")
    return resize(pixels, w, h, method).view(NDArray)


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return the largest width and height with the aspect ratio of `size` that fit into the image."""
    (w, h), (sw, sh) = size, src_size
    width, height = float(w), float(h)
    if sh < height:
        width, height = width * sh / height, float(sh)
    if sw < width:
        width, height = float(sw), height * sw / width
    return int(width), int(height)


def resize_short(src: Array, size: int, interp: int = CUBIC) -> NDArray:
    """Resize so that the shorter edge has `size` pixels; the other is rounded down."""
    h, w = src.shape[:2]
    new = (w * size // h, size) if h <= w else (size, h * size // w)
    return imresize(src, new[0], new[1], interp)


def fixed_crop(
    src: Array,
    x0: int,
    y0: int,
    w: int,
    h: int,
    size: tuple[int, int] | None = None,
    interp: int = CUBIC,
) -> NDArray:
    """Return a box of an image, resized to (width, height) if a size is given."""
    out = np.asarray(src)[y0 : y0 + h, x0 : x0 + w]
    if size is not None and (w, h) != tuple(size):
        return imresize(out, *size, interp=interp)
    if 0 in out.shape:
        raise SizeError(
            f"the box {x0}, {y0}, {w}, {h} is not inside an image of shape {np.shape(src)}"
        )
    return out.view(NDArray)


def random_crop(
    src: Array, size: tuple[int, int], interp: int = CUBIC, *, draw: Any = random
) -> tuple[NDArray, Box]:
    """Return a crop of this width and height at a random place, and its box; a smaller image is enlarged."""
    width, height = scale_down((src.shape[1], src.shape[0]), size)
    return _crop_anywhere(src, width, height, size, interp, draw)


def _crop_anywhere(
    src: Array, width: int, height: int, size: tuple[int, int], interp: int, draw: Any
) -> tuple[NDArray, Box]:
    """Return a crop of this width and height at a random place, resized to `size`, and its box."""
    h, w = src.shape[:2]
    box = draw.randint(0, w - width), draw.randint(0, h - height), width, height
    return fixed_crop(src, *box, size, interp), box


def center_crop(src: Array, size: tuple[int, int], interp: int = CUBIC) -> tuple[NDArray, Box]:
    """Return the middle, of this width and height, and its box; a smaller image is enlarged."""
    h, w = src.shape[:2]
    width, height = scale_down((w, h), size)
    box = (w - width) // 2, (h - height) // 2, width, height
    return fixed_crop(src, *box, size, interp), box


def random_size_crop(
    src: Array,
    size: tuple[int, int],
    area: float | tuple[float, float],
    ratio: tuple[float, float],
    interp: int = CUBIC,
    *,
    draw: Any = random,
) -> tuple[NDArray, Box]:
    """Return a crop of random area (a share of the image's) and width / height, resized, and its box.

    If ten draws do not fit, the crop is the middle. A single number for `area` is the lower bound.
    """
    h, w = src.shape[:2]
    least, most = area if isinstance(area, tuple | list) else (area, 1.0)
    for _ in range(10):
        target = draw.uniform(least, most) * h * w
        shape = np.exp(draw.uniform(np.log(ratio[0]), np.log(ratio[1])))
        width, height = round(float(np.sqrt(target * shape))), round(float(np.sqrt(target / shape)))
        if 0 < width <= w and 0 < height <= h:
            return _crop_anywhere(src, width, height, size, interp, draw)
    return center_crop(src, size, interp)


def color_normalize(src: Array, mean: Any, std: Any = None) -> NDArray:
    """Subtract the mean and divide by the deviation; None for neither."""
    out = src if mean is None else src - np.asarray(mean, np.float32)
    return np.asarray(out if std is None else out / np.asarray(std, np.float32)).view(NDArray)


def imrotate(
    src: Array, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotate a float32 tensor CxHxW, or a batch NxCxHxW by one angle or one each; bilinear, with zeros outside."""
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    tensor = np.asarray(src)
    if tensor.dtype != np.float32:
        raise TypeError(f"cannot rotate {tensor.dtype}, only float32: put ToTensor before it")
    if tensor.ndim not in (3, 4):
        raise ValueError(f"expected a tensor of 3 axes, or a batch of 4, not {tensor.ndim}")
    if tensor.ndim == 3:
        return _rotated(tensor, float(rotation_degrees), zoom_in, zoom_out).view(NDArray)
    angles = np.broadcast_to(np.asarray(rotation_degrees, np.float64), len(tensor))
    rotated = [
        _rotated(image, angle, zoom_in, zoom_out)
        for image, angle in zip(tensor, angles.tolist(), strict=True)
    ]
    return np.stack(rotated).view(NDArray)


def random_rotate(
    src: Array,
    angle_limits: tuple[float, float],
    zoom_in: bool = False,
    zoom_out: bool = False,
    *,
    draw: Any = random,
) -> NDArray:
    """Rotate a tensor by a random angle between two limits, or each of a batch by its own."""
    angles = [draw.uniform(*angle_limits) for _ in range(1 if src.ndim == 3 else len(src))]
    return imrotate(src, angles[0] if src.ndim == 3 else angles, zoom_in, zoom_out)


def _rotated(tensor: Array, degrees: float, zoom_in: bool, zoom_out: bool) -> Array:
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
    wide = max(abs(diagonal * math.cos(corner)) for corner in corners) / width
    high = max(abs(diagonal * math.sin(corner)) for corner in corners) / height
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
