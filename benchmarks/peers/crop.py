"""The transform of all peers: a random crop as in torchvision, resized to 224, mirrored half of the time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SIDE, BATCH, THREADS = 224, 128, 2


def draw(width: int, height: int, rng: np.random.Generator) -> tuple[tuple[int, int, int, int], bool]:
    """Draw left, top, right and bottom of a crop, and whether it is mirrored."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
            return (left, top, left + across, top + down), bool(rng.random() < 0.5)
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return (left, top, left + side, top + side), bool(rng.random() < 0.5)


def with_pillow(data: bytes, rng: np.random.Generator) -> Any:
    """Decode and crop with Pillow, as torchvision does: uint8[224, 224, 3]."""
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    box, mirrored = draw(*image.size, rng)
    image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box)
    return np.asarray(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else image)


def with_cv2(data: bytes, rng: np.random.Generator) -> Any:
    """Decode with simplejpeg and crop with OpenCV, the fastest libraries: uint8[224, 224, 3]. No antialiasing."""
    import cv2
    import simplejpeg

    cv2.setNumThreads(0)
    image = simplejpeg.decode_jpeg(data, colorspace="RGB")
    (left, top, right, bottom), mirrored = draw(image.shape[1], image.shape[0], rng)
    image = cv2.resize(image[top:bottom, left:right], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(image, 1) if mirrored else image
