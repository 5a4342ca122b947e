"""Thumbnails."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from bushel._pictures.thumbnail import encoded, fitted, mosaic, thumbnail_pixels
from bushel.errors import CodecError


def picture(width: int, height: int, kind: str, **options: object) -> bytes:
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 255 // width, y * 255 // height, np.full_like(x, 90)], axis=-1).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_a_thumbnail_fits_and_looks_like_the_image(kind: str) -> None:
    data = picture(500, 375, kind)
    pixels = thumbnail_pixels(data, 160)
    assert pixels.shape == (120, 160, 3)
    small = Image.open(io.BytesIO(data)).convert("RGB").resize((160, 120), Image.Resampling.BILINEAR)
    assert np.abs(pixels.astype(int) - np.asarray(small).astype(int)).max() <= 12


def test_small_images_keep_their_size_and_their_pixels() -> None:
    data = picture(20, 10, "PNG")
    made = encoded(thumbnail_pixels(data, 160))
    assert (made.width, made.height, made.media_type) == (20, 10, "image/png")
    assert np.array_equal(np.array(Image.open(io.BytesIO(made.data))), np.array(Image.open(io.BytesIO(data))))


def test_a_thumbnail_is_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert thumbnail_pixels(picture(200, 100, "JPEG", exif=exif), 50).shape == (50, 25, 3)


def test_damaged_images_raise() -> None:
    data = picture(300, 200, "JPEG")
    with pytest.raises(CodecError):
        encoded(thumbnail_pixels(data[: len(data) // 2], 96))
    with pytest.raises(CodecError):
        encoded(thumbnail_pixels(b"nothing", 96))


@pytest.mark.parametrize(("size", "expected"), [((10, 10), (10, 10)), ((1000, 1), (100, 1)), ((300, 600), (50, 100))])
def test_fitted(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert fitted(*size, 100) == expected


def test_a_mosaic_shows_the_middle_of_each_image() -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    made = mosaic([wide, wide, wide], 20, 2)
    assert made.shape == (40, 40, 3)
    assert made[10, 10].tolist() == [200, 200, 200]
    assert made[30, 30].tolist() == [128, 128, 128]
