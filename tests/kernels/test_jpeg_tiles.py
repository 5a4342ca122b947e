"""Tiled JPEGs: coefficients do not change, and a crop has the pixels of the whole image."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.kernels.jpegs import Pixels, all_kinds, by_pillow, picture, row, save, some

from bushel.kernels import (
    JpegError,
    decode_jpeg,
    decode_jpegs,
    is_tiled_jpeg,
    jpeg_coefficients,
    jpeg_header,
    jpeg_segment_offsets,
    jpeg_segment_window,
    splice_jpeg,
    tile_jpeg,
)

KINDS = all_kinds()
MCU = {"4:4:4": (8, 8), "4:2:2": (16, 8), "4:2:0": (16, 16), "4:4:0": (8, 16), "4:1:1": (32, 8), "grey": (8, 8)}


def crop(data: bytes, box: tuple[int, int, int, int], size: tuple[int, int] | None = None) -> Pixels:
    width, height = size or (box[2] - box[0], box[3] - box[1])
    out: Pixels = np.zeros((height, width, 3), np.uint8)
    assert decode_jpegs([data], row(box, size), out[None]) == []
    return out


def boxes(data: bytes, count: int, seed: int) -> list[tuple[int, int, int, int]]:
    draw = random.Random(seed)
    width, height, _, _ = jpeg_header(data)
    found = []
    for _ in range(count):
        left, top = draw.randrange(width), draw.randrange(height)
        found.append((left, top, draw.randint(left + 1, width), draw.randint(top + 1, height)))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost(kind: str) -> None:
    tiled = tile_jpeg(KINDS[kind])
    for one, other in zip(jpeg_coefficients(KINDS[kind]), jpeg_coefficients(tiled), strict=True):
        np.testing.assert_array_equal(one, other)
    assert jpeg_header(tiled) == jpeg_header(KINDS[kind])
    np.testing.assert_array_equal(decode_jpeg(tiled), decode_jpeg(KINDS[kind]))
    np.testing.assert_array_equal(by_pillow(tiled), decode_jpeg(tiled))  # any decoder reads it
    assert is_tiled_jpeg(tiled)
    assert tile_jpeg(tiled) == tiled
    with Image.open(io.BytesIO(tiled)) as image:
        assert not image.info.get("progressive")


@pytest.mark.parametrize("kind", MCU)
def test_segments(kind: str) -> None:
    width, height, _, _ = jpeg_header(KINDS[kind])
    tiled = tile_jpeg(KINDS[kind])
    begins = jpeg_segment_offsets(tiled)
    columns, rows = -(-width // MCU[kind][0]), -(-height // MCU[kind][1])
    assert (len(begins) - 1) % rows == 0
    assert columns % ((len(begins) - 1) // rows) == 0
    for number, end in enumerate(begins[1:-1].tolist()):
        assert tiled[end - 2 : end] == bytes([0xFF, 0xD0 + number % 8])
    assert tiled[begins[-1] - 2 :] == b"\xff\xd9"


@pytest.mark.parametrize(
    ("width", "sampling", "segments"),
    [(512, 0, 8), (512, 2, 8), (500, 0, 7), (500, 2, 8), (376, 0, 1), (64, 0, 1), (640, 2, 10), (96, 0, 2), (8, 0, 1)],
)
def test_segments_are_near_64_pixels(width: int, sampling: int, segments: int) -> None:
    tiled = tile_jpeg(save(picture(width, 8), subsampling=sampling))
    assert len(jpeg_segment_offsets(tiled)) - 1 == segments


@pytest.mark.parametrize("kind", KINDS)
def test_a_crop_has_the_pixels_of_the_whole(kind: str) -> None:
    tiled = tile_jpeg(KINDS[kind])
    for box in boxes(tiled, 120, seed=3):
        np.testing.assert_array_equal(crop(tiled, box), crop(KINDS[kind], box), f"{box}")


def test_a_smaller_inverse_dct_too() -> None:
    data = save(picture(801, 603), subsampling=2)
    tiled = tile_jpeg(data)
    for box in boxes(tiled, 100, seed=4):
        np.testing.assert_array_equal(crop(tiled, box, (20, 20)), crop(data, box, (20, 20)), f"{box}")


@pytest.mark.parametrize("crops", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_photos(photos: Path, crops: int) -> None:
    for number, path in enumerate(some(photos.glob("*/*.jpg"))):
        data = path.read_bytes()
        tiled = tile_jpeg(data)
        for one, other in zip(jpeg_coefficients(data), jpeg_coefficients(tiled), strict=True):
            np.testing.assert_array_equal(one, other)
        for box in boxes(tiled, crops, seed=number):
            np.testing.assert_array_equal(crop(tiled, box), crop(data, box), f"{path} {box}")


def test_splice_is_a_jpeg_of_its_own() -> None:
    data = save(picture(640, 480), subsampling=2, comment=b"long " * 100)
    tiled = tile_jpeg(data, metadata=True)
    found = splice_jpeg(tiled, (200, 100, 300, 200))
    assert found is not None
    spliced, left, top = found
    assert (left, top) == (128, 80)
    assert by_pillow(spliced).shape == (144, 192, 3)
    assert len(spliced) < len(tiled) / 4
    assert b"long" not in spliced
    inside = np.s_[100:200, 200:300]
    expected = by_pillow(data)[inside]
    np.testing.assert_array_equal(by_pillow(spliced)[100 - top : 200 - top, 200 - left : 300 - left], expected)
    assert splice_jpeg(tiled, (0, 0, 640, 480)) is None
    assert splice_jpeg(data, (0, 0, 10, 10)) is None
    with pytest.raises(ValueError, match="640x480"):
        splice_jpeg(tiled, (0, 0, 641, 480))


def test_segments_that_are_not_those_of_the_jpeg() -> None:
    tiled, box = tile_jpeg(save(picture(640, 480), subsampling=2)), (200, 100, 300, 200)
    segments = jpeg_segment_offsets(tiled)
    assert splice_jpeg(tiled, box, segments) == splice_jpeg(tiled, box)
    last = np.full_like(segments, 2**63 - 1)
    for wrong in (segments[:-1], segments[::-1].copy(), segments + 10, segments - 10, segments * 2**40, last):
        with pytest.raises(ValueError, match="do not belong to this JPEG"):
            splice_jpeg(tiled, box, wrong)
    assert jpeg_segment_window(tiled[: segments[0]], box) == (2, 5, 5, 14, 10)
    assert jpeg_segment_window(tiled, (0, 0, 640, 480)) is None


def test_metadata() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a description"
    data = save(picture(60, 40), exif=exif, icc_profile=b"profile" * 20, comment=b"a comment")
    bare, whole = tile_jpeg(data), tile_jpeg(data, metadata=True)
    for tiled in (bare, whole):
        assert jpeg_header(tiled) == (60, 40, 3, 6)
        with Image.open(io.BytesIO(tiled)) as image:
            assert image.getexif()[0x0112] == 6
            kept = image.info.get("icc_profile"), image.info.get("comment"), image.getexif().get(0x010E)
            assert kept == ((b"profile" * 20, b"a comment", "a description") if tiled is whole else (None, None, None))
    assert b"Exif" not in tile_jpeg(save(picture(60, 40)))


def test_damage_is_found_or_passed_by() -> None:
    tiled = tile_jpeg(save(picture(640, 480), subsampling=2))
    begins = jpeg_segment_offsets(tiled).tolist()
    whole = decode_jpeg(tiled)
    box = (300, 200, 420, 330)
    for number in range(0, len(begins) - 1, 3):
        changed = bytearray(tiled)
        changed[begins[number] : begins[number + 1] - 2] = bytes(begins[number + 1] - 2 - begins[number])
        out = np.zeros((1, 130, 120, 3), np.uint8)
        if not decode_jpegs([changed], row(box), out):
            touched = splice_jpeg(tiled, box)
            assert touched is not None
            in_splice = tiled[begins[number] : begins[number + 1] - 2] in touched[0]
            assert in_splice or (out[0] == whole[200:330, 300:420]).all()
    missing = tiled[: begins[7] - 2] + tiled[begins[8] - 2 :]
    assert len(jpeg_segment_offsets(missing)) == 0
    assert not is_tiled_jpeg(missing)
    for cut in range(0, len(tiled), 997):
        with pytest.raises(JpegError):
            decode_jpeg(tiled[:cut])
        with pytest.raises(JpegError):
            tile_jpeg(tiled[:cut])
