"""The steps of MXNet's im2rec for each image, as transforms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bushel.transforms import Crop, ScaleTo, apply_steps

from .pixels import encode
from .resampling import AUTO, BILINEAR, LANCZOS, RANDOM, method_for

Transform = Callable[..., Any]
Pixels = np.ndarray
"""uint8[height, width] or [height, width, 2, 3 or 4], or uint16[height, width]."""
Resample = Callable[[Pixels, tuple[int, int], int], Pixels]
"""Resizes an image to (width, height), with an interpolation of 0 to 4."""

# pillow's filters by OpenCV's numbers: nearest, bilinear, cubic, box, Lanczos
_FILTERS = (0, 2, 3, 4, 1)


def im2rec_steps(
    resize: int | tuple[int, int] | None = None,
    *,
    center_crop: bool = False,
    quality: int | None = None,
    color: int = 1,
    encoding: str = ".jpg",
    inter_method: int = BILINEAR,
    resample: Resample | None = None,
) -> list[Transform]:
    """Return transforms that do what im2rec does to every image: center crop, resize, convert colours, encode.

    Sizes are exactly im2rec's. Pixels are Pillow's, which averages pixels when it shrinks an image;
    OpenCV, in im2rec, only samples them.

    Args:
        resize: Pixels of the shorter edge, or (width, height); None to keep the size.
        center_crop: Whether to crop to the middle square first.
        quality: For `.jpg` the quality, 1 to 100, by default 95; for `.png` the compression level,
            0 to 9, by default 3.
        color: 1 for RGB, 0 for grey, -1 for the channels of the file.
        encoding: `.jpg` or `.png`. The field must have the type `jpg` or `png`.
        inter_method: Interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to
            enlarge and area to shrink, 10 a random one of the first five. Bilinear is fused into
            decoding, and is the fastest.
        resample: Function that resizes images, such as with OpenCV's pixels; by default Pillow's
            filters.

    Returns:
        Transforms for `bushel.pack`. The last one returns encoded bytes.

    Raises:
        ValueError: A parameter is out of range.
    """
    sizes = resize if isinstance(resize, tuple) else (resize,)
    if any(size is not None and size < 1 for size in sizes) or len(sizes) > 2:
        raise ValueError(
            f"invalid resize={resize}: expected a number of pixels, or (width, height)"
        )
    if encoding not in (".jpg", ".png"):
        raise ValueError(f"invalid encoding={encoding!r}: expected '.jpg' or '.png'")
    low, high = (1, 100) if encoding == ".jpg" else (0, 9)
    if quality is not None and not low <= quality <= high:
        raise ValueError(f"invalid quality={quality}: expected {low} to {high} for {encoding}")
    if color not in (-1, 0, 1):
        raise ValueError(f"invalid color={color}: expected -1, 0 or 1")
    if inter_method not in (*range(LANCZOS + 1), AUTO, RANDOM):
        raise ValueError(f"invalid inter_method={inter_method}: expected 0 to 4, 9 or 10")
    steps: list[Transform] = [_CenterSquare()] if center_crop else []
    if resize is not None:
        fused = inter_method == BILINEAR and resample is None
        steps.append(
            _Scale(resize) if fused else _Interpolate(resize, inter_method, resample or _resized)
        )
    steps += [_ConvertColor(color, encoding), _Encode(encoding, quality)]
    return steps


def _scaled(resize: int | tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """Return width and height of an image after resizing."""
    if isinstance(resize, tuple):
        return resize
    if height > width:
        return resize, max(height * resize // width, 1)
    return max(width * resize // height, 1), resize


def _resized(image: Pixels, size: tuple[int, int], method: int) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize(size, _FILTERS[method]))


class Still:
    """A transform that is not random, and is fused into decoding: see `bushel.transforms.Spatial`."""

    resizes: ClassVar[bool] = False
    output: ClassVar[tuple[int, int] | None] = None

    def steps(self, width: int, height: int, rng: Any = None) -> Any:
        """Return the steps for an image of this size."""
        raise NotImplementedError

    def __call__(self, image: Pixels) -> Pixels:
        return apply_steps(self.steps(image.shape[1], image.shape[0]), image)


@dataclass(frozen=True)
class _CenterSquare(Still):
    def steps(self, width: int, height: int, rng: Any = None) -> tuple[Crop]:
        side = min(width, height)
        return (Crop((width - side) // 2, (height - side) // 2, side, side),)


@dataclass(frozen=True)
class _Scale(Still):
    """Resize with the filter of the decoding kernel: bilinear, equal to Pillow's to within one level."""

    resize: int | tuple[int, int]
    resizes: ClassVar[bool] = True

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[ScaleTo]:
        return (ScaleTo(*_scaled(self.resize, width, height)),)

    def __call__(self, image: Pixels) -> Pixels:
        if image.dtype == np.uint8:
            return super().__call__(image)
        return _resized(image, _scaled(self.resize, image.shape[1], image.shape[0]), BILINEAR)


@dataclass(frozen=True)
class _Interpolate:
    """Resize with an interpolation by its number."""

    resize: int | tuple[int, int]
    method: int
    resample: Resample

    def __call__(self, image: Pixels, rng: np.random.Generator) -> Pixels:
        before = image.shape[1], image.shape[0]
        after = _scaled(self.resize, *before)
        if after == before:
            return image
        method = (
            int(rng.integers(LANCZOS + 1))
            if self.method == RANDOM
            else method_for(self.method, before, after)
        )
        return self.resample(image, after, method)


@dataclass(frozen=True)
class _ConvertColor:
    """Convert to RGB or grey, or keep the channels if the encoding can hold them."""

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


@dataclass(frozen=True)
class _Encode:  # plans of runs name this class and its fields
    suffix: str
    quality: int | None

    def __call__(self, image: Pixels) -> bytes:
        return encode(image, self.suffix, self.quality)
