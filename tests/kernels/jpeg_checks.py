"""Comparisons of Bushel's JPEG decoders with libjpeg-turbo, level by level, and changes to files for them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import numpy as np
from tests.kernels.jpegs import Pixels, row

from bushel.kernels import JpegError, decode_jpeg, decode_jpegs, jpeg_header

Box = tuple[int, int, int, int]


def whole(data: bytes, *, libjpeg: bool = False, grey: bool = False) -> Pixels | str:
    """Return the pixels, or the error message."""
    try:
        return decode_jpeg(data, libjpeg=libjpeg, grey=grey)
    except JpegError as error:
        return str(error)


def crop(
    data: bytes, box: Box, size: tuple[int, int] | None = None, *, gap: float | None = None, libjpeg: bool = False
) -> Pixels | str:
    width, height = size or (box[2] - box[0], box[3] - box[1])
    out = np.zeros((1, height, width, 3), np.uint8)
    faults = decode_jpegs([data], row(box, size), out, reducing_gap=gap, libjpeg=libjpeg)
    return faults[0][1] if faults else out[0]


def assert_same(own: Pixels | str, other: Pixels | str, about: object = "") -> None:
    if isinstance(own, str) or isinstance(other, str):
        assert (own if isinstance(own, str) else "pixels") == (other if isinstance(other, str) else "pixels"), about
    else:
        np.testing.assert_array_equal(own, other, str(about))


def boxes(data: bytes, count: int, seed: int) -> Iterator[Box]:
    width, height, _, _ = jpeg_header(data)
    draw = random.Random(seed)
    yield 0, 0, width, height
    for _ in range(count):
        left, top = draw.randrange(width), draw.randrange(height)
        yield left, top, draw.randint(left + 1, width), draw.randint(top + 1, height)


def check(data: bytes, count: int = 6, seed: int = 0) -> None:
    """Compare the whole image, its luma, crops, and crops at each scale of the inverse DCT."""
    components = jpeg_header(data).components
    assert_same(whole(data), whole(data, libjpeg=True))
    if components != 4:
        assert_same(whole(data, grey=True), whole(data, grey=True, libjpeg=True))
    for box in boxes(data, count, seed):
        assert_same(crop(data, box), crop(data, box, libjpeg=True), box)
        for scale in (2, 4, 8):
            size = max((box[2] - box[0]) // scale, 1), max((box[3] - box[1]) // scale, 1)
            own = crop(data, box, size, gap=1)
            assert_same(own, crop(data, box, size, gap=1, libjpeg=True), (box, size))


def check_damaged_crop(data: bytes, draw: random.Random, number: int) -> None:
    """Compare a crop of a damaged image with libjpeg's, unless libjpeg refuses it."""
    try:
        box = list(boxes(data, 1, number))[1]
    except JpegError:
        return
    size = max((box[2] - box[0]) // draw.choice((1, 2, 4, 8)), 1), max((box[3] - box[1]) // 2, 1)
    if size[0] * size[1] > 1 << 20:
        return
    other = crop(data, box, size, gap=1, libjpeg=True)
    if not isinstance(other, str):
        assert_same(crop(data, box, size, gap=1), other, number)


def segments(data: bytes) -> list[bytes]:
    """Return the parts before the scan: the SOI marker, then each segment with its marker."""
    found, at = [data[:2]], 2
    while True:
        length = 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        found.append(data[at : at + length])
        at += length
        if found[-1][1] == 0xDA:
            return found


def rebuilt(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Apply `change` to each segment of the header."""
    parts = segments(data)
    return b"".join([parts[0], *map(change, parts[1:]), data[len(b"".join(parts)) :]])


def segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(payload) + 2) + payload


def noise(width: int, height: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def damaged(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(2, len(changed))
        kind = draw.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[at : at + draw.randint(1, 4)]
        elif kind == 2:
            changed[at:at] = bytes(draw.choice((0, 255, draw.randrange(256))) for _ in range(draw.randint(1, 4)))
        else:
            changed[at] = draw.choice((0, 255, draw.randrange(256)))
    return bytes(changed)
