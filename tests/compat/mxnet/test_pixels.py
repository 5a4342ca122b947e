"""Decoding, encoding and resizing as OpenCV does it; the comparison with OpenCV itself is in test_same.py."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.sources.folders import jpeg, picture, png

from bushel.compat.mxnet.base import ImageError
from bushel.compat.mxnet.pixels import COLOUR, GREY, UNCHANGED, decode, encode, swapped
from bushel.compat.mxnet.resampling import AREA, AUTO, BILINEAR, CUBIC, LANCZOS, NEAREST, RANDOM, method_for, resize


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


class TestDecode:
    @pytest.mark.parametrize(
        ("mode", "unchanged"),
        [("RGB", (12, 16, 3)), ("L", (12, 16)), ("RGBA", (12, 16, 4)), ("LA", (12, 16, 4)), ("P", (12, 16, 3))],
    )
    def test_shapes(self, mode: str, unchanged: tuple[int, ...]) -> None:
        data = saved(Image.fromarray(picture(1)).convert(mode), "PNG")
        assert decode(data, UNCHANGED).shape == unchanged
        assert decode(data, COLOUR).shape == (12, 16, 3)
        assert decode(data, GREY).shape == (12, 16)

    def test_sixteen_bits(self) -> None:
        deep = (picture(1)[:, :, 0].astype(np.uint16) << 8) + 77
        data = saved(Image.fromarray(deep), "PNG")
        assert np.array_equal(decode(data, UNCHANGED), deep)
        assert np.array_equal(decode(data, GREY), picture(1)[:, :, 0])
        assert np.array_equal(decode(data, COLOUR)[:, :, 2], picture(1)[:, :, 0])

    def test_grey_of_a_jpeg_is_its_luma(self) -> None:
        ycc = np.asarray(Image.open(io.BytesIO(jpeg(2))).convert("YCbCr"))[:, :, 0]
        luma = decode(jpeg(2), GREY)
        assert np.abs(luma.astype(int) - ycc).max() <= 1
        grey = saved(Image.fromarray(luma), "JPEG")
        assert np.array_equal(decode(grey, GREY), decode(grey, UNCHANGED))

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("flag", [GREY, COLOUR])
    def test_exif_turns_it(self, orientation: int, flag: int) -> None:
        exif = Image.Exif()
        exif[0x112] = orientation
        plain, segment = jpeg(1), exif.tobytes()
        turned = plain[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + plain[2:]
        transposed = {
            1: lambda image: image,
            2: lambda image: image[:, ::-1],
            3: lambda image: image[::-1, ::-1],
            4: lambda image: image[::-1],
            5: lambda image: image.swapaxes(0, 1),
            6: lambda image: np.rot90(image, -1),
            7: lambda image: np.rot90(image[::-1], 1),
            8: lambda image: np.rot90(image, 1),
        }
        expected = transposed[orientation](decode(plain, flag))
        assert np.array_equal(decode(turned, flag), expected)
        assert np.array_equal(decode(turned, UNCHANGED), decode(plain, UNCHANGED))

    def test_damage(self) -> None:
        cut = jpeg(1, 100, 100)[:-500]
        assert decode(cut).shape == (100, 100, 3)
        assert decode(cut, GREY).shape == (100, 100)
        for data, tolerant in ((cut, False), (b"", True), (b"\xff\xd8", True), (png(1)[:-30], True), (b"GIF8", True)):
            with pytest.raises(ImageError):
                decode(data, tolerant=tolerant)


class TestEncode:
    def test_bounds_of_the_quality(self) -> None:
        assert encode(picture(1), ".jpg", 1000) == encode(picture(1), ".JPEG", 100)
        assert encode(picture(1), ".jpg", -3) == encode(picture(1), ".jpg", 1)
        assert encode(picture(1), ".png", 95) == encode(picture(1), ".png", 9)

    @pytest.mark.parametrize("suffix", [".png", ".bmp", ".webp"])
    def test_without_loss(self, suffix: str) -> None:
        assert np.array_equal(decode(encode(picture(1), suffix)), picture(1))

    def test_channels(self) -> None:
        alpha = np.dstack([picture(1), picture(2)[:, :, 0]])
        assert encode(alpha) == encode(picture(1))
        assert np.array_equal(decode(encode(alpha, ".png"), UNCHANGED), alpha)
        assert encode(picture(1)[:, :, :1]) == encode(picture(1)[:, :, 0])
        assert np.array_equal(swapped(alpha), alpha[:, :, [2, 1, 0, 3]])
        for wrong in (
            np.zeros((2, 2)),
            np.zeros((2, 2, 5), np.uint8),
            np.zeros((0, 2), np.uint8),
            np.zeros(3, np.uint8),
        ):
            for suffix in (".jpg", ".png"):
                with pytest.raises(ImageError):
                    encode(wrong, suffix)


class TestResize:
    @pytest.mark.parametrize("method", [NEAREST, BILINEAR, CUBIC, AREA, LANCZOS])
    @pytest.mark.parametrize("size", [(5, 3), (16, 12), (40, 31), (8, 6), (7, 30), (1, 1)])
    def test_a_plain_image_stays_plain(self, method: int, size: tuple[int, int]) -> None:
        for value in (0, 77, 255):
            image = np.full((12, 16, 3), value, np.uint8)
            assert np.array_equal(resize(image, *size, method), np.full((*size[::-1], 3), value, np.uint8))
        assert resize(picture(1)[:, :, 0], *size, method).shape == size[::-1]

    def test_known_levels(self) -> None:
        row = np.array([[0, 100, 200, 250]], np.uint8)
        assert resize(row, 2, 1, NEAREST).tolist() == [[0, 200]]
        assert resize(row, 2, 1, BILINEAR).tolist() == [[50, 225]]
        assert resize(row, 2, 1, AREA).tolist() == [[50, 225]]
        assert resize(row, 8, 1, BILINEAR).tolist() == [[0, 25, 75, 125, 175, 213, 238, 250]]
        assert resize(row, 3, 1, AREA).tolist() == [[25, 150, 238]]

    def test_floats_are_not_rounded(self) -> None:
        row = np.array([[0.0, 1.0]], np.float32)
        assert resize(row, 4, 1, BILINEAR).tolist() == [[0, 0.25, 0.75, 1]]

    def test_methods(self) -> None:
        assert method_for(AUTO, (10, 10), (20, 20)) == CUBIC
        assert method_for(AUTO, (10, 10), (5, 5)) == AREA
        assert method_for(AUTO, (10, 10), (5, 20)) == BILINEAR
        assert method_for(AUTO) == CUBIC
        assert {method_for(RANDOM) for _ in range(200)} == {0, 1, 2, 3, 4}
        with pytest.raises(ValueError, match="Unknown interp method 5"):
            method_for(5)
        with pytest.raises(ValueError, match="0x3"):
            resize(picture(1), 0, 3)
