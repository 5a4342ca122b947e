"""Frames as GulpIO2 encodes them, to the byte, and decodes them, to the pixel."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from bushel.core.parallel import cpu_count, map_all
from bushel.kernels import decode_jpeg, encode_jpeg, jpeg_header

Image = npt.NDArray[np.uint8]
ColorSpace = Literal["RGB", "GRAY"]
T = TypeVar("T")
U = TypeVar("U")

_MOST_THREADS = 8
"""Threads for one clip. Starting more costs as much as they save."""


def img_to_jpeg_bytes(img: Any) -> bytes:
    """Encode a frame (uint8, HxW or HxWx3, or a Pillow image): quality 90, 4:4:4, the same bytes as GulpIO2's.

    As in GulpIO2, a program changes the quality by `gulpio2.utils._JPEG_WRITE_QUALITY = 95`.
    """
    quality = import_module("bushel.compat.gulpio2.utils")._JPEG_WRITE_QUALITY  # late, as it imports this module
    array = np.asarray(img)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,)) or 0 in array.shape:
        raise ValueError(f"Unsupported img shape: {array.shape}, {array.dtype}; expected uint8 of shape HxW or HxWx3")
    return encode_jpeg(np.ascontiguousarray(array), quality, (1, 1), fast=True)


def jpeg_bytes_to_img(jpeg_bytes: Buffer) -> Image:
    """Decode a frame as it is stored: HxWx3 (RGB), or HxW if the JPEG is grey."""
    return decode_jpeg(jpeg_bytes, fast=True)


def jpeg_bytes_to_rgb(jpeg_bytes: Buffer) -> Image:
    """Decode a frame to HxWx3, also if the JPEG is grey."""
    image = decode_jpeg(jpeg_bytes, fast=True)
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image


def jpeg_bytes_to_gray(jpeg_bytes: Buffer) -> Image:
    """Decode the luma of a frame to HxW."""
    if jpeg_header(jpeg_bytes).components == 4:
        from PIL import Image as Pillow

        return np.asarray(Pillow.fromarray(decode_jpeg(jpeg_bytes, fast=True)).convert("L"))
    return decode_jpeg(jpeg_bytes, fast=True, grey=True)


_DECODERS: dict[str, Callable[[Buffer], Image]] = {"RGB": jpeg_bytes_to_rgb, "GRAY": jpeg_bytes_to_gray}


def decoder_of(jpeg_decoder: Callable[[bytes], Any], colorspace: ColorSpace | None) -> Callable[[bytes], Any]:
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
    return map_all(work, frames, workers=workers, name="bushel-frames")
