"""Generated JPEGs of every kind, and their decoding with Pillow."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from PIL import Image

Pixels = npt.NDArray[np.uint8]


def picture(width: int, height: int, seed: int = 0) -> Pixels:
    """Return a photo-like RGB image with gradients, edges in all three channels, and noise."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    waves = [128 + 120 * np.sin(columns / (5 + channel) + rows / (9 - channel)) for channel in range(3)]
    image = np.stack(waves, axis=2) + random.normal(0, 12, (height, width, 3))
    image[(rows // 7 + columns // 11) % 5 == 0] *= 0.3
    return image.clip(0, 255).astype(np.uint8)


def some(photos: Iterable[Path]) -> list[Path]:
    """Return every third photo in the order of their paths; at night, all of them."""
    return sorted(photos)[:: max(1, 75 // settings().max_examples)]


def save(image: Pixels, mode: str = "RGB", **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).convert(mode).save(stream, "JPEG", **{"quality": 88, **options})
    return stream.getvalue()


def frame_of(data: bytes) -> int:
    """Return the offset of the frame header's payload: precision, height, width."""
    return max(data.find(b"\xff\xc0\x00\x11\x08"), data.find(b"\xff\xc2\x00\x11\x08")) + 4


def resampled(data: bytes, width: int, height: int, first: int) -> bytes:
    """Return the same blocks as an image of another size, with other sampling factors of the first component.

    The file is valid if blocks per MCU and MCUs are as many as before; the picture is a jumble.
    """
    at, changed = frame_of(data), bytearray(data)
    changed[at + 1 : at + 5] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    changed[at + 7] = first
    return bytes(changed)


def all_kinds() -> dict[str, bytes]:
    """Return a JPEG of every supported kind. No size is a multiple of the MCU size."""
    image = picture(149, 107)
    kinds = {
        "4:4:4": save(image, subsampling=0),
        "4:2:2": save(image, subsampling=1),
        "4:2:0": save(image, subsampling=2),
        "4:4:0": resampled(save(picture(160, 96), subsampling=1), 73, 191, 0x12),
        "4:1:1": resampled(save(picture(160, 96), subsampling=2), 315, 45, 0x41),
        "4:1:0": resampled(save(picture(160, 96), subsampling=2), 75, 187, 0x14),
        "grey": save(image, "L"),
        "cmyk": save(image, "CMYK"),
        "cmyk 4:2:0": save(image, "CMYK", subsampling=2),
        "restarts": save(image, subsampling=2, restart_marker_blocks=3),
        "row restarts": save(image, subsampling=0, restart_marker_rows=1),
        "rgb": save(image, keep_rgb=True),
        "optimised": save(image, optimize=True),
        "narrow": save(picture(3, 90), subsampling=2),
        "flat": save(picture(90, 2), subsampling=2),
        "one pixel": save(picture(1, 1), subsampling=2),
    }
    progressive = {name: (image, number) for number, name in enumerate(("4:4:4", "4:2:2", "4:2:0"))}
    for name, (source, number) in progressive.items():
        kinds[f"progressive {name}"] = save(source, subsampling=number, progressive=True)
    kinds["progressive grey"] = save(image, "L", progressive=True)
    adobe = kinds["cmyk"].index(b"Adobe\x00") + 11
    kinds["ycck"] = kinds["cmyk"][:adobe] + b"\x02" + kinds["cmyk"][adobe + 1 :]
    return kinds


def by_pillow(data: bytes) -> Pixels:
    """Decode the whole image, to HxW or HxWx3."""
    with Image.open(io.BytesIO(data)) as image:
        return np.array(image if image.mode in ("L", "RGB") else image.convert("RGB"))


def rgb(image: Pixels) -> Pixels:
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image


def row(
    box: tuple[int, int, int, int],
    scaled: tuple[int, int] | None = None,
    place: tuple[int, int] = (0, 0),
    flips: tuple[int, int] = (0, 0),
) -> npt.NDArray[np.int32]:
    """Return a row of geometry. Without `scaled`, the box keeps its size."""
    scaled = scaled or (box[2] - box[0], box[3] - box[1])
    return np.array([[*box, *scaled, *place, *flips]], np.int32)
