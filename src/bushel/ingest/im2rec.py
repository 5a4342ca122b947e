"""The parameters of MXNet's im2rec, as transforms."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec
from bushel.transforms.spatial import Crop, ScaleTo, apply_steps
from bushel.transforms.values import Transform

__all__ = ["im2rec"]

Pixels = npt.NDArray[Any]
"""uint8[height, width] or [height, width, 2, 3 or 4], or uint16[height, width]."""

_NEAREST, _BILINEAR, _CUBIC, _AREA, _AUTO, _RANDOM = 0, 1, 2, 3, 9, 10
_FILTERS = (0, 2, 3, 4, 1)
"""Pillow's filters by OpenCV's numbers: nearest, bilinear, cubic, box, Lanczos."""


def im2rec(
    resize: int | tuple[int, int] | None = None,
    *,
    center_crop: bool = False,
    quality: int | None = None,
    color: int = 1,
    encoding: str = ".jpg",
    inter_method: int = _BILINEAR,
) -> list[Transform]:
    """What im2rec does to every image: crop to the middle square, resize, convert colours, encode.

    Sizes are exactly im2rec's. Pixels are Pillow's, which averages when it makes images smaller where OpenCV, in
    im2rec, only samples them.

    Args:
        resize: Pixels of the shorter edge, or (width, height); None to keep the size.
        center_crop: Whether to cut out the middle square first.
        quality: 1 to 100 for `.jpg`; 0 to 9, how hard to compress, for `.png`. None for 95, and 3.
        color: 1 for RGB, 0 for grey, -1 for what the file has.
        encoding: `.jpg` or `.png`. The field is of type `jpg` or `png`.
        inter_method: Interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to enlarge and area to
            shrink, 10 a random one of the first five. Bilinear is done while decoding, and fastest.

    Returns:
        Transforms for `bushel.pack`, of which the last returns encoded bytes.

    Raises:
        ValueError: There is no such value of a parameter.
    """
    sizes = resize if isinstance(resize, tuple) else (resize,)
    if any(size is not None and size < 1 for size in sizes) or len(sizes) > 2:
        raise ValueError(f"resize is a number of pixels, or (width, height): {resize}")
    if encoding not in (".jpg", ".png"):
        raise ValueError(f"encoding is '.jpg' or '.png', not {encoding!r}")
    low, high = (1, 100) if encoding == ".jpg" else (0, 9)
    if quality is not None and not low <= quality <= high:
        raise ValueError(f"the quality of {encoding} lies between {low} and {high}, not at {quality}")
    if color not in (-1, 0, 1):
        raise ValueError(f"color is -1, 0 or 1, not {color}")
    if inter_method not in (*range(len(_FILTERS)), _AUTO, _RANDOM):
        raise ValueError(f"inter_method is 0 to 4, 9 or 10, not {inter_method}")
    steps: list[Transform] = [_MiddleSquare()] if center_crop else []
    if resize is not None:
        steps.append(_Scale(resize) if inter_method == _BILINEAR else _Interpolate(resize, inter_method))
    steps.append(_Colour(color, encoding))
    steps.append(_EncodeJpeg(quality or 95) if encoding == ".jpg" else _EncodePng(3 if quality is None else quality))
    return steps


def _scaled(resize: int | tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """Width and height of an image of that size after resizing."""
    if isinstance(resize, tuple):
        return resize
    if height > width:
        return resize, max(height * resize // width, 1)
    return max(width * resize // height, 1), resize


def _resized(image: Pixels, size: tuple[int, int], method: int) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize(size, _FILTERS[method]))


@dataclass(frozen=True, slots=True)
class _MiddleSquare:
    resizes: ClassVar[bool] = False
    output: ClassVar[tuple[int, int] | None] = None

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[Crop]:
        side = min(width, height)
        return (Crop((width - side) // 2, (height - side) // 2, side, side),)

    def __call__(self, image: Pixels) -> Pixels:
        return apply_steps(self.steps(image.shape[1], image.shape[0]), image)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Resize with the filter that the decoding kernel has: bilinear, as Pillow's to within one level."""

    resize: int | tuple[int, int]
    resizes: ClassVar[bool] = True
    output: ClassVar[tuple[int, int] | None] = None

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[ScaleTo]:
        return (ScaleTo(*_scaled(self.resize, width, height)),)

    def __call__(self, image: Pixels) -> Pixels:
        if image.dtype == np.uint8:
            return apply_steps(self.steps(image.shape[1], image.shape[0]), image)
        return _resized(image, _scaled(self.resize, image.shape[1], image.shape[0]), _BILINEAR)


@dataclass(frozen=True, slots=True)
class _Interpolate:
    """Resize with a filter of Pillow."""

    resize: int | tuple[int, int]
    method: int

    def __call__(self, image: Pixels, rng: np.random.Generator) -> Pixels:
        before = image.shape[1], image.shape[0]
        after = _scaled(self.resize, *before)
        return image if after == before else _resized(image, after, self._chosen(before, after, rng))

    def _chosen(self, before: tuple[int, int], after: tuple[int, int], rng: np.random.Generator) -> int:
        if self.method == _RANDOM:
            return int(rng.integers(len(_FILTERS)))
        if self.method != _AUTO:
            return self.method
        if after[0] > before[0] and after[1] > before[1]:
            return _CUBIC
        return _AREA if after[0] < before[0] and after[1] < before[1] else _BILINEAR


@dataclass(frozen=True, slots=True)
class _Colour:
    """RGB, grey, or what the image has and the encoding holds."""

    color: int
    encoding: str

    def __call__(self, image: Pixels) -> Pixels:
        channels = 1 if image.ndim == 2 else image.shape[2]
        if self.color == 0:
            return image if channels == 1 else _converted(image, "L")
        if channels != 3 and (self.color == 1 or (self.encoding == ".jpg" and channels != 1)):
            return _converted(image, "RGB")
        return image


def _converted(image: Pixels, mode: str) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).convert(mode))


@dataclass(frozen=True, slots=True)
class _EncodeJpeg:
    quality: int

    def __call__(self, image: Pixels) -> bytes:
        return bytes(get_codec(f"jpg({self.quality})").encode(image))


@dataclass(frozen=True, slots=True)
class _EncodePng:
    level: int

    def __call__(self, image: Pixels) -> bytes:
        from PIL import Image

        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG", compress_level=self.level)
        return stream.getvalue()
