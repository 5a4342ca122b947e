"""The resize kernel against Pillow: the same bytes if the passes run in the same order, else within one level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.kernels.jpegs import Pixels, by_pillow, picture, row, save

from bushel.kernels import decode_jpegs, resize

SIDES = st.one_of(st.integers(1, 40), st.integers(1, 300))


def scaled(image: Pixels, width: int, height: int) -> Pixels:
    out: Pixels = np.zeros((height, width, image.shape[2]), np.uint8)
    resize(image, row((0, 0, image.shape[1], image.shape[0]), (width, height)), out[None])
    return out


def pillow(image: Pixels, width: int, height: int) -> Pixels:
    bands = [Image.fromarray(image[:, :, band]) for band in range(image.shape[2])]
    return np.stack([np.array(band.resize((width, height), Image.Resampling.BILINEAR)) for band in bands], axis=2)


def noise(width: int, height: int, channels: int, seed: int) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


@given(SIDES, SIDES, SIDES, SIDES, st.integers(1, 4), st.integers(0, 9))
def test_like_pillow(width: int, height: int, to_width: int, to_height: int, channels: int, seed: int) -> None:
    image = noise(width, height, channels, seed)
    found = scaled(image, to_width, to_height)
    if width * to_height < height * to_width:
        in_our_order = pillow(pillow(image, width, to_height), to_width, to_height)
    else:
        in_our_order = pillow(pillow(image, to_width, height), to_width, to_height)
    np.testing.assert_array_equal(found, in_our_order)
    in_its_order = pillow(image, to_width, to_height)
    assert np.abs(found.astype(int) - in_its_order.astype(int)).max() <= 1


@pytest.mark.parametrize("level", [0, 1, 128, 254, 255])
def test_a_flat_image_stays_flat(level: int) -> None:
    image = np.full((97, 131, 3), level, np.uint8)
    for size in ((1, 1), (50, 60), (131, 20), (20, 97), (400, 300)):
        assert (scaled(image, *size) == level).all()


@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 2**32))
def test_windows_and_flips(width: int, height: int, to_width: int, to_height: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    image = noise(width, height, 3, 0)
    left, top = int(draw.integers(0, width)), int(draw.integers(0, height))
    right, bottom = int(draw.integers(left + 1, width + 1)), int(draw.integers(top + 1, height + 1))
    x, y = int(draw.integers(0, to_width)), int(draw.integers(0, to_height))
    columns, rows = int(draw.integers(1, to_width - x + 1)), int(draw.integers(1, to_height - y + 1))
    whole = scaled(np.ascontiguousarray(image[top:bottom, left:right]), to_width, to_height)
    window = whole[y : y + rows, x : x + columns]
    out = np.zeros((1, rows, columns, 3), np.uint8)
    for across, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
        resize(image, row((left, top, right, bottom), (to_width, to_height), (x, y), (across, down)), out)
        flipped = window[:: -1 if down else 1, :: -1 if across else 1]
        # The order of the passes depends on the size of the window.
        assert np.abs(out[0].astype(int) - flipped.astype(int)).max() <= 1


@given(SIDES, SIDES, st.integers(1, 300), st.integers(0, 2**32))
def test_windows_and_flips_of_one_pass_are_exact(width: int, height: int, size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    image = noise(width, height, 3, 0)
    first = int(draw.integers(0, size))
    count = int(draw.integers(1, size - first + 1))
    out = np.zeros((1, height, count, 3), np.uint8)
    resize(image, row((0, 0, width, height), (size, height), (first, 0), (1, 1)), out)
    np.testing.assert_array_equal(out[0], scaled(image, size, height)[::-1, first : first + count][:, ::-1])
    out = np.zeros((1, count, width, 3), np.uint8)
    resize(image, row((0, 0, width, height), (width, size), (0, first), (1, 1)), out)
    np.testing.assert_array_equal(out[0], scaled(image, width, size)[first : first + count][::-1, ::-1])


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_layouts_and_tables(layout: str, dtype: str) -> None:
    image = picture(80, 60)
    table = (np.arange(256)[:, None] * np.array([0.5, -0.25, 0.125]) % 251).astype(dtype)
    expected = table[scaled(image, 33, 21), np.arange(3)]
    shape = (1, 21, 33, 3)
    if layout == "CHW":
        expected, shape = expected.transpose(2, 0, 1), (1, 3, 21, 33)
    out = np.zeros(shape, dtype)
    resize(image, row((0, 0, 80, 60), (33, 21)), out, layout, table)  # type: ignore[arg-type]
    np.testing.assert_array_equal(out[0], expected)


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", None])
def test_a_grey_image_fills_three_channels(layout: Any, dtype: str | None) -> None:
    grey = picture(80, 60)[:, :, :1]
    table = None if dtype is None else (np.arange(256)[:, None] * np.array([0.5, -0.25, 0.125]) % 251).astype(dtype)
    shape = (1, 21, 33, 3) if layout == "HWC" else (1, 3, 21, 33)
    out, expected = np.zeros((2, *shape), dtype or np.uint8)
    for source, to in ((grey, out), (np.repeat(grey, 3, axis=2), expected)):
        resize(np.ascontiguousarray(source), row((3, 0, 70, 60), (40, 30), (5, 6), (1, 0)), to, layout, table)
    np.testing.assert_array_equal(out, expected)
    assert out.any()
    with pytest.raises(ValueError, match="image has 1 channels, but out has 2"):
        resize(np.ascontiguousarray(grey), row((0, 0, 80, 60), (33, 21)), np.zeros((1, 21, 33, 2), np.uint8))


def test_planes_without_a_table() -> None:
    image = picture(80, 60)
    out = np.zeros((1, 3, 21, 33), np.uint8)
    resize(image, row((0, 0, 80, 60), (33, 21)), out, "CHW")
    np.testing.assert_array_equal(out[0], scaled(image, 33, 21).transpose(2, 0, 1))


def test_decoding_takes_the_same_way() -> None:
    data = save(picture(200, 150), subsampling=2)
    out, again = np.zeros((2, 1, 3, 40, 50), np.float32)
    table = np.linspace(-1, 1, 768, dtype=np.float32).reshape(256, 3)
    geometry = row((11, 7, 190, 141), (70, 60), (9, 8), (1, 1))
    assert decode_jpegs([data], geometry, out, "CHW", table, reducing_gap=None) == []
    resize(by_pillow(data), geometry, again, "CHW", table)
    np.testing.assert_array_equal(out, again)


def test_what_it_refuses() -> None:
    image, out = picture(20, 10), np.zeros((1, 5, 5, 3), np.uint8)
    with pytest.raises(ValueError, match=r"box from \(0, 0\) to \(21, 10\) is not inside the image, which is 20x10"):
        resize(image, row((0, 0, 21, 10), (5, 5)), out)
    with pytest.raises(ValueError, match="box"):
        resize(image, row((3, 0, 3, 10), (5, 5)), out)
    with pytest.raises(ValueError, match=r"5x5 pixels at \(1, 0\) is not inside the resized box, which is 5x5"):
        resize(image, row((0, 0, 20, 10), (5, 5), (1, 0)), out)
    with pytest.raises(ValueError, match="image has 3 channels, but out has 4"):
        resize(image, row((0, 0, 20, 10), (5, 5)), np.zeros((1, 5, 5, 4), np.uint8))
    with pytest.raises(ValueError, match=r"table: expected shape \(256, 3\)"):
        resize(image, row((0, 0, 20, 10), (5, 5)), out, table=np.zeros((256, 1), np.uint8))
    with pytest.raises(TypeError, match="table: expected the dtype of out"):
        resize(image, row((0, 0, 20, 10), (5, 5)), out, table=np.zeros((256, 3), np.float32))
    with pytest.raises(TypeError, match="image"):
        resize(image.astype(np.float32), row((0, 0, 20, 10), (5, 5)), out)
