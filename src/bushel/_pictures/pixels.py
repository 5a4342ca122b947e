"""Arrays of any shape and dtype as pixels: images, heat maps, curves, and masks in the colours of their classes."""

from __future__ import annotations

import colorsys
import io
from functools import cache

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, U8, Bools

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
    return 0 < int(array.max(initial=0, where=array != _IGNORED)) < _CLASSES


def mask_classes(mask: np.ndarray) -> list[tuple[int, float]]:
    """Return the class numbers in a mask, ascending, each with its share of the pixels."""
    numbers, counts = np.unique(mask, return_counts=True)
    return list(zip(numbers.tolist(), (counts / mask.size).tolist(), strict=True))


_CHECK = 8  # side of the squares that show through transparent pixels
# largest number of elements along an axis that is shown; of longer axes, every k-th element is
_MOST = 512
_CURVE = (96, 192)  # height and width of a curve in pixels
_NOT_A_NUMBER = (214, 64, 120)

# Viridis (Smith and van der Walt, CC0) at sixteen equal steps.
_VIRIDIS = bytes.fromhex(
    "440154 481a6c 472f7d 414487 39568c 31688e 2a788e 23888e "
    "1f988b 22a884 35b779 54c568 7ad151 a5db36 d2e21b fde725"
)
_ANCHORS = np.frombuffer(_VIRIDIS, np.uint8).reshape(-1, 3)


class ArrayFacts(Struct, frozen=True):
    """An array in a few numbers."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int  # its size in bytes
    # least finite element; None if no element is finite, or the elements are not numbers
    least: float | int | None = None
    greatest: float | int | None = None  # greatest finite element
    mean: float | None = None  # mean of the finite elements
    deviation: float | None = None  # standard deviation of the finite elements
    not_finite: int = 0  # number of elements that are NaN or infinite


def array_facts(array: np.ndarray) -> ArrayFacts:
    """Return shape, dtype and statistics of an array."""
    facts = (array.shape, str(array.dtype), array.nbytes)
    if array.dtype.kind not in "biuf" or not array.size:
        return ArrayFacts(*facts)
    finite = array[np.isfinite(array)]
    lost = array.size - finite.size
    if not finite.size:
        return ArrayFacts(*facts, not_finite=lost)
    least, greatest = finite.min().item(), finite.max().item()
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(finite.mean(dtype=np.float64)), float(finite.std(dtype=np.float64))
    return ArrayFacts(*facts, least, greatest, mean, deviation, lost)


def is_picture(array: np.ndarray) -> bool:
    """Return whether an array has the shape and dtype of an image: HxWx3, HxWx4, or HxW of uint8."""
    if array.dtype.kind not in "uf" or 0 in array.shape:
        return False
    return (array.ndim == 3 and array.shape[2] in (3, 4)) or (
        array.ndim == 2 and array.dtype == np.uint8
    )


def displayable(array: np.ndarray) -> U8:
    """Return an image as HxWx3, uint8.

    Deeper images and floats are scaled: floats in 0 to 1 by 255, other ranges from their least to
    their greatest value. Transparent pixels are shown on a chequered ground, and masks of class
    numbers in the colours of the classes. It is HxW or HxWxC, with 1 to 4 channels, of numbers.
    """
    if is_index_mask(array):
        of_classes: U8 = class_colours()[array.reshape(array.shape[:2])]
        return of_classes
    pixels = array[:, :, None] if array.ndim == 2 else array
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * 255
    if pixels.dtype != np.uint8:
        pixels = (255 * _shares(pixels, of_image=True)[0]).round().astype(np.uint8)
    alpha = pixels[:, :, -1:] if pixels.shape[2] in (2, 4) else None
    colour = pixels if alpha is None else pixels[:, :, :-1]
    if colour.shape[2] == 1:
        colour = np.repeat(colour, 3, axis=2)
    if alpha is None or alpha.min() == 255:
        return np.ascontiguousarray(colour)
    height, width = colour.shape[:2]
    squares = (np.arange(height)[:, None] // _CHECK + np.arange(width) // _CHECK) % 2
    ground = np.where(squares, 204, 240).astype(np.float32)[:, :, None]
    share = alpha.astype(np.float32) / 255
    blended: U8 = (colour * share + ground * (1 - share)).round().astype(np.uint8)
    return blended


def _shares(values: np.ndarray, *, of_image: bool = False) -> tuple[F64, Bools]:
    """Return where numbers are between the least (0) and the greatest (1), and which are finite; others are at 0.

    Floats of an image that are in 0 to 1 stay as they are.
    """
    finite = np.isfinite(values)
    numbers = np.where(finite, values, 0).astype(np.float64)
    chosen = numbers[finite] if finite.any() else np.zeros(1)
    least, greatest, equal = float(chosen.min()), float(chosen.max()), 0.0 if of_image else 0.5
    if of_image and values.dtype.kind == "f" and least >= 0 and greatest <= 1:
        least, greatest = 0.0, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        span = greatest - least
        share = (numbers - least) / span if 0 < span < np.inf else np.full(numbers.shape, equal)
    return np.where(finite, share, 0).clip(0, 1), finite


def colours(values: np.ndarray) -> U8:
    """Return a heat map: each number as a colour between dark (least) and light (greatest); NaN is pink.

    Returns:
        HxWx3.
    """
    share, finite = _shares(values)
    place = share * (len(_ANCHORS) - 1)
    steps = np.arange(len(_ANCHORS))
    out = np.stack([np.interp(place, steps, _ANCHORS[:, channel]) for channel in range(3)], axis=-1)
    out[~finite] = _NOT_A_NUMBER
    map_: U8 = out.round().astype(np.uint8)
    return map_


def array_pixels(array: np.ndarray, side: int) -> tuple[U8, str] | None:
    """Draw an array. Small heat maps are enlarged to `side` pixels.

    Returns:
        HxWx3 and what it shows: `image`, `heat map`, `curve`, or these of one element along the
        first axes, such as `heat map of [0, 3]`. None if there is nothing to draw: no elements, a
        single one, or elements that are not numbers.
    """
    if array.dtype.kind not in "biuf" or array.size < 2:
        return None
    chosen: list[int] = []
    while array.ndim > 2 and not is_picture(array):
        if (
            array.ndim == 3
            and array.shape[0] in (3, 4)
            and min(array.shape[1:]) >= 8
            and array.dtype.kind in "uf"
        ):
            array = np.moveaxis(array, 0, 2)  # channels first
            break
        chosen.append(0)
        array = array[0]
    part = f" of [{', '.join(map(str, chosen))}]" if chosen else ""
    if is_picture(array):
        return displayable(_thinned(array)), f"image{part}"
    if array.size < 2:
        return None
    if array.ndim < 2:
        return _curve(array), f"curve{part}"
    map_ = colours(_thinned(array))
    factor = max(1, side // max(map_.shape[:2]))
    return map_.repeat(factor, axis=0).repeat(factor, axis=1), f"heat map{part}"


def _thinned(array: np.ndarray) -> np.ndarray:
    rows, columns = (max(1, -(-length // _MOST)) for length in array.shape[:2])
    return array[::rows, ::columns]


def _curve(values: np.ndarray) -> U8:
    """Draw a line: in each column of pixels, the range of the elements there."""
    height, width = _CURVE
    share, finite = _shares(values)
    out = np.full((height, width, 3), 250, np.uint8)
    rows = ((1 - share) * (height - 9) + 4).round().astype(np.int64)
    previous: int | None = None
    for column in range(width):
        first = column * len(rows) // width
        last = max(first + 1, (column + 1) * len(rows) // width)
        inside = rows[first:last][finite[first:last]]
        if not len(inside):
            previous = None
            continue
        top, bottom = int(inside.min()), int(inside.max())
        if previous is not None:
            top, bottom = min(top, previous), max(bottom, previous)
        out[top : bottom + 2, column] = _ANCHORS[5]
        previous = int(inside[-1])
    return out


def encode_png(pixels: U8) -> bytes:
    """Encode an image HxWx3 as PNG."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "PNG", compress_level=3)
    return stream.getvalue()
