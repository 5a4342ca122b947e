"""Images as arrays, tensors or Pillow images. Bushel decodes JPEGs, Pillow everything else."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from bushel import jpeg
from bushel.errors import CodecError

_NAMES = """
    blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib h5 hdf png apng jp2 j2k jpc jpf jpx
    j2c icns ico im iim tif tiff jfif jpe jpg jpeg mpg mpeg msp pcd pxr pbm pgm ppm pnm psd bw rgb rgba sgi ras tga
    icb vda vst webp wmf emf xbm xpm
"""
IMAGE_EXTENSIONS = _NAMES.split()
"""Extensions that are images."""

_MODES = ("l", "rgb", "rgba")
imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{f"{mode}8": ("numpy", "uint8", mode) for mode in _MODES},
    **{mode: ("numpy", "float", mode) for mode in _MODES},
    **{f"torch{mode}8": ("torch", "uint8", mode) for mode in _MODES},
    **{f"torch{mode}": ("torch", "float", mode) for mode in _MODES},
    "torch": ("torch", "float", "rgb"),
    "pill": ("pil", None, "l"),
    "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}
"""Image specifications: the type (numpy, torch, pil), the dtype and the mode of each."""

_JPEG_MAGIC = b"\xff\xd8"
_CMYK = 4


class ImageHandler:
    """A decoder of the fields with extensions of images.

    `imagespec` is `rgb8` (uint8 HxWx3), `rgb` (float32 from 0 to 1), `l8` (HxW), `torchrgb8`
    (3xHxW), `pil` or another of `imagespecs`.
    """

    concurrent = True
    """Several threads may use it at once."""

    def __init__(self, imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> None:
        if imagespec not in imagespecs:
            raise ValueError(f"Unknown imagespec: {imagespec}")
        self.imagespec = imagespec
        self.extensions = set(extensions)

    def __call__(self, key: str, data: bytes) -> Any:
        """Return the image, or None if images do not have this extension."""
        if re.sub(r".*[.]", "", key).lower() not in self.extensions:
            return None
        kind, numbers, mode = imagespecs[self.imagespec]
        if kind == "pil":
            return _pillow(data, mode)
        pixels = _pixels(data, mode)
        if numbers == "float":
            pixels = pixels.astype(np.float32) / 255.0
        if kind == "numpy":
            return pixels
        import torch

        return torch.from_numpy(
            pixels.transpose(2, 0, 1).copy() if pixels.ndim == 3 else pixels.copy()
        )


def _pixels(data: bytes, mode: str) -> np.ndarray[Any, Any]:
    if mode != "rgb" or (pixels := _jpeg(data)) is None:
        return np.asarray(_pillow(data, mode))
    return np.repeat(pixels[:, :, np.newaxis], 3, axis=2) if pixels.ndim == 2 else pixels


def _pillow(data: bytes, mode: str) -> Any:
    from PIL import Image

    if (pixels := _jpeg(data)) is not None:
        image: Any = Image.fromarray(pixels)
    else:
        image = Image.open(io.BytesIO(data))
        image.load()
    return image.convert(mode.upper())


def _jpeg(data: bytes) -> np.ndarray[Any, Any] | None:
    """Return the pixels of a JPEG; None for other data, and for JPEGs that only Pillow may be able to decode."""
    if data[:2] != _JPEG_MAGIC:
        return None
    try:
        return None if jpeg.read_header(data).components == _CMYK else jpeg.decode(data)
    except CodecError:
        return None


def imagehandler(imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> ImageHandler:
    """Return an `ImageHandler`."""
    return ImageHandler(imagespec, extensions)
