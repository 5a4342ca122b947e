"""Tests of `bushel.jpeg` beyond the tests of the kernels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.kernels.jpegs import by_pillow, picture, save

from bushel import jpeg
from bushel.errors import CodecError
from bushel.jpeg import Box, Tiles, is_tiled, read_crop, tile

DATA = save(picture(200, 100), progressive=True, comment=b"a comment")


def test_tile() -> None:
    tiled = tile(DATA)
    assert not is_tiled(DATA)
    assert is_tiled(tiled)
    assert (by_pillow(tiled) == by_pillow(DATA)).all()
    assert tile(memoryview(tiled)) == tiled
    assert b"a comment" not in tiled
    assert b"a comment" in tile(DATA, metadata=True)


def test_not_a_jpeg() -> None:
    for call in (tile, is_tiled):
        with pytest.raises(CodecError, match="starting with 52 49 46 46: it does not begin with FF D8"):
            call(b"RIFF")
    with pytest.raises(CodecError, match="a complete JPEG to tile"):
        tile(DATA[:-300])


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_crop_from_a_part_of_the_bytes(mode: str) -> None:
    data = tile(save(picture(640, 480), mode, subsampling=2))
    tiles, whole = Tiles.of(data), by_pillow(data)
    asked: list[tuple[int, int]] = []

    def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        asked[:] = ranges
        return [data[offset : offset + length] for offset, length in ranges]

    boxes: list[Box] = [(200, 100, 300, 200), (0, 0, 1, 1), (639, 479, 640, 480), (0, 0, 640, 480), (0, 90, 640, 200)]
    for box in boxes:
        found = read_crop(tiles, box, fetch)
        np.testing.assert_array_equal(found, whole[box[1] : box[3], box[0] : box[2]])
        assert all(sum(one) < other[0] for one, other in zip(asked, asked[1:], strict=False))
    assert len(asked) == 1  # whole rows are one range
    read_crop(tiles, boxes[0], fetch)
    assert sum(length for _, length in asked) < len(data) / 4


def test_a_crop_of_what_is_not_there() -> None:
    data = tile(save(picture(640, 480)))
    tiles, box = Tiles.of(data), (0, 0, 9, 9)
    with pytest.raises(ValueError, match="parts do not match the requested box"):
        read_crop(tiles, box, lambda ranges: [b""] * len(ranges))
    with pytest.raises(CodecError, match="a whole crop of a tiled JPEG"):
        read_crop(tiles, box, lambda ranges: [bytes(length) for _, length in ranges])
    with pytest.raises(ValueError, match="not inside the image, which is 640x480"):
        tiles.ranges((0, 0, 641, 1))
    with pytest.raises(CodecError, match=r"bushel\.jpeg\.tile makes one"):
        Tiles.of(DATA)


def test_baseline() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    some: list[dict[str, Any]] = [{}, {"subsampling": 0}, {"exif": exif, "icc_profile": b"a profile"}]
    for options in some:
        source = save(picture(200, 100), progressive=True, comment=b"a comment", **options)
        found = jpeg.baseline(source)
        with Image.open(io.BytesIO(found)) as image, Image.open(io.BytesIO(source)) as before:
            assert "progressive" not in image.info
            assert image.info["comment"] == b"a comment"
            assert image.info.get("icc_profile") == before.info.get("icc_profile")
            assert image.getexif() == before.getexif()
            np.testing.assert_array_equal(np.asarray(image), np.asarray(before))
        np.testing.assert_array_equal(jpeg.decode(found), jpeg.decode(source))
        assert jpeg.baseline(found) == found
    grey = save(picture(64, 64), "L", progressive=True)
    np.testing.assert_array_equal(jpeg.decode(jpeg.baseline(grey)), jpeg.decode(grey))
    for damaged in (b"", b"no JPEG", DATA[: len(DATA) // 2]):
        with pytest.raises(CodecError):
            jpeg.baseline(damaged)
