"""The parameters of MXNet's im2rec, as one transform."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec
from bushel.transforms import Resize

__all__ = ["Im2Rec"]

_BILINEAR, _CUBIC, _AREA, _AUTO, _RANDOM = 1, 2, 3, 9, 10
_FILTERS = (0, 2, 3, 4, 1)
"""Pillow's filters by OpenCV's numbers: nearest, bilinear, cubic, box, Lanczos."""


@dataclass(frozen=True, slots=True)
class Im2Rec:
    """What im2rec does to every image: crop to the middle square, resize, convert colours, encode.

    It returns encoded bytes, so it is the last of the transforms of its field. Pixels are Pillow's, which averages when
    it makes images smaller where OpenCV, in im2rec, only samples them; sizes are exactly im2rec's.

    Attributes:
        resize: Pixels of the shorter edge, or (width, height); None to keep the size.
        center_crop: Whether to cut out the middle square first.
        quality: 1 to 100 for `.jpg`; 0 to 9, how hard to compress, for `.png`. None for 95, and 3.
        color: 1 for RGB, 0 for grey, -1 for what the file has.
        encoding: `.jpg` or `.png`.
        inter_method: Interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to enlarge and area to
            shrink, 10 a random one of the first five.
    """

    resize: int | tuple[int, int] | None = None
    center_crop: bool = False
    quality: int | None = None
    color: int = 1
    encoding: str = ".jpg"
    inter_method: int = 1

    def __post_init__(self) -> None:
        sizes = self.resize if isinstance(self.resize, tuple) else (self.resize,)
        if any(size is not None and size < 1 for size in sizes) or len(sizes) > 2:
            raise ValueError(f"resize is a number of pixels, or (width, height): {self.resize}")
        if self.encoding not in (".jpg", ".png"):
            raise ValueError(f"encoding is '.jpg' or '.png', not {self.encoding!r}")
        low, high = (1, 100) if self.encoding == ".jpg" else (0, 9)
        if self.quality is not None and not low <= self.quality <= high:
            raise ValueError(f"the quality of {self.encoding} lies between {low} and {high}, not at {self.quality}")
        if self.color not in (-1, 0, 1):
            raise ValueError(f"color is -1, 0 or 1, not {self.color}")
        if self.inter_method not in (0, 1, 2, 3, 4, _AUTO, _RANDOM):
            raise ValueError(f"inter_method is 0 to 4, 9 or 10, not {self.inter_method}")

    @property
    def codec(self) -> str:
        """The type of the field that it makes: `jpg` or `png`."""
        return self.encoding[1:]

    def __call__(self, image: npt.NDArray[Any], rng: np.random.Generator) -> bytes:
        """Transform and encode.

        Args:
            image: uint8[height, width] or [height, width, 3 or 4].
            rng: Chooses an interpolation, with `inter_method=10`.
        """
        pixels = self._coloured(image)
        if self.center_crop:
            pixels = _middle(pixels)
        height, width = pixels.shape[:2]
        if (size := self._size(width, height)) != (width, height):
            pixels = _resized(pixels, size, self._method((width, height), size, rng))
        if self.encoding == ".jpg":
            return bytes(get_codec(f"jpg({self.quality or 95})").encode(pixels))
        from PIL import Image

        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG", compress_level=3 if self.quality is None else self.quality)
        return stream.getvalue()

    def _coloured(self, image: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """RGB, grey, or what the image has and the encoding holds."""
        from PIL import Image

        channels = 1 if image.ndim == 2 else image.shape[2]
        if self.color == 0:
            return image if image.ndim == 2 else np.asarray(Image.fromarray(image).convert("L"))
        if channels != 3 and (self.color == 1 or (self.encoding == ".jpg" and channels != 1)):
            return np.asarray(Image.fromarray(image).convert("RGB"))
        return image

    def _size(self, width: int, height: int) -> tuple[int, int]:
        if self.resize is None:
            return width, height
        if isinstance(self.resize, tuple):
            return self.resize
        if height > width:
            return self.resize, max(height * self.resize // width, 1)
        return max(width * self.resize // height, 1), self.resize

    def _method(self, before: tuple[int, int], after: tuple[int, int], rng: np.random.Generator) -> int:
        if self.inter_method == _RANDOM:
            return int(rng.integers(len(_FILTERS)))
        if self.inter_method != _AUTO:
            return self.inter_method
        if after[0] > before[0] and after[1] > before[1]:
            return _CUBIC
        return _AREA if after[0] < before[0] and after[1] < before[1] else _BILINEAR


def _middle(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    height, width = pixels.shape[:2]
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return pixels[top : top + side, left : left + side]


def _resized(pixels: npt.NDArray[Any], size: tuple[int, int], method: int) -> npt.NDArray[Any]:
    from PIL import Image

    if method == _BILINEAR and pixels.dtype == np.uint8:  # as Pillow's to within one level, in a third of the time
        return Resize((size[1], size[0]))(pixels)
    return np.asarray(Image.fromarray(pixels).resize(size, _FILTERS[method]))
