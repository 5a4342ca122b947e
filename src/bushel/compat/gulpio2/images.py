"""Frames as GulpIO2 decodes them, to the pixel."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from bushel import jpeg
from bushel.codecs import Buffer
from bushel.errors import CodecError
from bushel.loader import cpu_count, map_all

from .errors import FrameError

Image = npt.NDArray[np.uint8]
ColorSpace = Literal["RGB", "GRAY"]
T = TypeVar("T")
U = TypeVar("U")

_MOST_THREADS = 8  # threads for one clip; starting more costs as much as they save
_CMYK = 4


def _decode(data: Buffer, *, grey: bool = False) -> Image:
    try:
        if grey and jpeg.read_header(data).components == _CMYK:
            from PIL import Image as Pillow

            return np.asarray(Pillow.fromarray(jpeg.decode(data, fast=True)).convert("L"))
        return jpeg.decode(data, fast=True, grey=grey)
    except CodecError as error:
        raise FrameError(str(error)) from error


def jpeg_bytes_to_img(jpeg_bytes: Buffer) -> Image:
    """Decode a frame as it is stored: HxWx3 (RGB), or HxW if the JPEG is grey."""
    return _decode(jpeg_bytes)


def jpeg_bytes_to_rgb(jpeg_bytes: Buffer) -> Image:
    """Decode a frame to HxWx3, also if the JPEG is grey."""
    image = _decode(jpeg_bytes)
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image


def jpeg_bytes_to_gray(jpeg_bytes: Buffer) -> Image:
    """Decode the luma of a frame to HxW."""
    return _decode(jpeg_bytes, grey=True)


_DECODERS: dict[str, Callable[[Buffer], Image]] = {
    "RGB": jpeg_bytes_to_rgb,
    "GRAY": jpeg_bytes_to_gray,
}


def decoder_of(
    jpeg_decoder: Callable[[bytes], Any], colorspace: ColorSpace | None
) -> Callable[[bytes], Any]:
    """Return the decoder for a colour space, or the given one if `colorspace` is None."""
    if colorspace is None:
        return jpeg_decoder
    if colorspace not in _DECODERS:
        raise ValueError(f"colorspace must be 'RGB' or 'GRAY', not {colorspace!r}")
    decoder = _DECODERS[colorspace]
    if jpeg_decoder not in (jpeg_bytes_to_img, decoder):
        raise ValueError("give a jpeg_decoder or a colorspace, not both")
    return decoder


def is_own(jpeg_decoder: Callable[[bytes], Any]) -> bool:
    """Return whether a decoder is one of this module, which may run in several threads."""
    return jpeg_decoder is jpeg_bytes_to_img or jpeg_decoder in _DECODERS.values()


def map_frames(work: Callable[[T], U], frames: Sequence[T]) -> list[U]:
    """Call `work`, which releases the GIL, with every frame: in one thread per CPU, in a worker process in one."""
    workers = 1 if multiprocessing.parent_process() is not None else min(cpu_count(), _MOST_THREADS)
    return map_all(work, frames, threads=workers, name="bushel-frames")
