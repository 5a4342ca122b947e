"""Functions of single images: HxWxC arrays, colours in the order RGB unless said otherwise.

Random ones draw from the module `random`, as in the original, so `random.seed` makes them repeat themselves.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from bushel.compat.mxnet.ndarray import Array, NDArray
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
    "random_crop",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

Box = tuple[int, int, int, int]
"""Left, top, width, height."""


def imdecode(buf: Any, flag: int = COLOUR, to_rgb: int = 1, out: Array | None = None) -> NDArray:
    """Decode an image.

    Args:
        buf: The encoded bytes, or uint8[n].
        flag: 1 for colour, 0 for grey, -1 for what the file holds.
        to_rgb: Whether colours are in the order RGB; BGR otherwise.
        out: An array to write into.

    Returns:
        uint8[height, width, channels]; `out` when it was given.

    Raises:
        ImageError: It is no image, or a damaged one.
        ValueError: `buf` is not bytes.
    """
    if not isinstance(buf, bytes | bytearray | memoryview | np.ndarray):
        raise ValueError(f"buf must be of type bytes, bytearray or numpy.ndarray, not {type(buf).__name__}")  # noqa: TRY004
    data = np.ascontiguousarray(buf, np.uint8).tobytes() if isinstance(buf, np.ndarray) else buf
    image = decode(data, flag)
    image = image[:, :, None] if image.ndim == 2 else image if to_rgb else swapped(image)
    if out is None:
        return image.view(NDArray)
    out[...] = image
    return out.view(NDArray)


def imread(filename: Any, flag: int = COLOUR, to_rgb: int = 1, out: Array | None = None) -> NDArray:
    """Read and decode an image file: see `imdecode`."""
    with as_path(filename).open("rb") as file:
        return imdecode(file.read(), flag, to_rgb, out)


def imresize(src: Array, w: int, h: int, interp: int = BILINEAR) -> NDArray:
    """Resize an image. OpenCV's interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 auto, 10 any."""
    pixels = np.asarray(src)
    return resize(pixels, w, h, method_for(interp, pixels.shape[:2], (h, w))).view(NDArray)


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """The largest width and height of the shape of `size` that are not larger than the image."""
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
    return imresize(src, max(new[0], 1), max(new[1], 1), interp)


def fixed_crop(
    src: Array, x0: int, y0: int, w: int, h: int, size: tuple[int, int] | None = None, interp: int = CUBIC
) -> NDArray:
    """Cut out a box, and resize it to (width, height) if a size is given."""
    out = np.asarray(src)[y0 : y0 + h, x0 : x0 + w]
    if size is not None and (w, h) != tuple(size):
        return imresize(out, *size, interp=interp)
    return out.view(NDArray)


def random_crop(src: Array, size: tuple[int, int], interp: int = CUBIC, *, draw: Any = random) -> tuple[NDArray, Box]:
    """Cut out a box of that width and height at any place; a smaller image is enlarged.

    Returns:
        The crop, and left, top, width and height of the box.
    """
    h, w = src.shape[:2]
    width, height = scale_down((w, h), size)
    x0, y0 = draw.randint(0, w - width), draw.randint(0, h - height)
    return fixed_crop(src, x0, y0, width, height, size, interp), (x0, y0, width, height)


def center_crop(src: Array, size: tuple[int, int], interp: int = CUBIC) -> tuple[NDArray, Box]:
    """Cut out the middle, of that width and height; a smaller image is enlarged. Returns what `random_crop` does."""
    h, w = src.shape[:2]
    width, height = scale_down((w, h), size)
    x0, y0 = (w - width) // 2, (h - height) // 2
    return fixed_crop(src, x0, y0, width, height, size, interp), (x0, y0, width, height)


def random_size_crop(
    src: Array,
    size: tuple[int, int],
    area: float | tuple[float, float],
    ratio: tuple[float, float],
    interp: int = CUBIC,
    *,
    draw: Any = random,
) -> tuple[NDArray, Box]:
    """Cut out a box of random area and shape, resized to (width, height); the middle if ten draws do not fit.

    Args:
        src: The image.
        size: Width and height of the result.
        area: Bounds of the box's area as a part of the image's; one number is the lower bound.
        ratio: Bounds of its width / height.
        interp: As for `imresize`.
        draw: Where random numbers come from.

    Returns:
        What `random_crop` does.
    """
    h, w = src.shape[:2]
    least, most = area if isinstance(area, tuple | list) else (area, 1.0)
    for _ in range(10):
        target = draw.uniform(least, most) * h * w
        shape = np.exp(draw.uniform(np.log(ratio[0]), np.log(ratio[1])))
        width, height = round(float(np.sqrt(target * shape))), round(float(np.sqrt(target / shape)))
        if 0 < width <= w and 0 < height <= h:
            x0, y0 = draw.randint(0, w - width), draw.randint(0, h - height)
            return fixed_crop(src, x0, y0, width, height, size, interp), (x0, y0, width, height)
    return center_crop(src, size, interp)


def color_normalize(src: Array, mean: Any, std: Any = None) -> NDArray:
    """Subtract the mean and divide by the deviation; None for neither."""
    out = src if mean is None else src - np.asarray(mean, np.float32)
    return np.asarray(out if std is None else out / np.asarray(std, np.float32)).view(NDArray)
