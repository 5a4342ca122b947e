"""Small folders of images, for the tests of sources and of packing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bushel.codecs import get_codec


def picture(number: int, height: int = 12, width: int = 16) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """A smooth picture; another one for every number."""
    rows, columns = np.mgrid[0:height, 0:width]
    channels = [rows * 9 + number * 5, columns * 7 + number * 11, rows * 3 + columns * 4 + number]
    return np.stack(channels, axis=2).astype(np.uint8)


def jpeg(number: int, height: int = 12, width: int = 16) -> bytes:
    return bytes(get_codec("jpg").encode(picture(number, height, width)))


def png(number: int, height: int = 12, width: int = 16) -> bytes:
    return bytes(get_codec("png").encode(picture(number, height, width)))


def image_folder(root: Path, count: int, classes: int = 3) -> Path:
    """`count` JPEGs in folders `class0`, `class1`, …"""
    for number in range(count):
        folder = root / f"class{number % classes}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04d}.jpg").write_bytes(jpeg(number))
    return root
