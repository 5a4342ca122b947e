"""Colours, numbers and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from tests.kernels.jpegs import picture

from bushel.transforms import ColorJitter, Compose, Grayscale, Lambda, Normalize, ToCHW

IMAGE = picture(40, 30)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


@pytest.mark.parametrize(
    ("name", "enhance"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
    ],
)
def test_one_factor(name: str, enhance: type[ImageEnhance.Brightness]) -> None:
    found = ColorJitter(**{name: (0.6, 0.6)})(IMAGE, generator())
    np.testing.assert_array_equal(found, np.array(enhance(Image.fromarray(IMAGE)).enhance(0.6)))


def test_hue_turns_the_circle() -> None:
    primary = np.zeros((1, 3, 3), np.uint8)
    primary[0, [0, 1, 2], [0, 1, 2]] = 255
    third = ColorJitter(hue=(1 / 3, 1 / 3))(primary, generator())
    np.testing.assert_array_equal(third[0].argmax(axis=1), [1, 2, 0])
    back = ColorJitter(hue=(-0.5, -0.5))(ColorJitter(hue=(0.5, 0.5))(primary, generator()), generator())
    assert np.abs(back.astype(int) - primary).max() <= 12


def test_factors_and_order_are_drawn() -> None:
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1)
    one, two = jitter(IMAGE, generator(1)), jitter(IMAGE, generator(2))
    assert (one != two).any()
    np.testing.assert_array_equal(one, jitter(IMAGE, generator(1)))
    np.testing.assert_array_equal(ColorJitter()(IMAGE, generator()), IMAGE)
    assert jitter(IMAGE[:, :, 0], generator()).shape == (30, 40)


def test_bounds_of_the_jitter() -> None:
    for arguments in ({"hue": 0.6}, {"brightness": (2, 1)}, {"contrast": (-1, 1)}, {"hue": (-0.6, 0)}):
        with pytest.raises(ValueError, match=r"low, high"):
            ColorJitter(**arguments)
    with pytest.raises(TypeError, match="HxWx3"):
        ColorJitter(0.1)(np.zeros((2, 2, 4), np.uint8), generator())


def test_grayscale() -> None:
    expected = np.array(Image.fromarray(IMAGE).convert("L"))
    np.testing.assert_array_equal(Grayscale()(IMAGE), expected)
    np.testing.assert_array_equal(Grayscale()(expected), expected)
    three = Grayscale(3)(IMAGE)
    assert three.shape == (30, 40, 3)
    np.testing.assert_array_equal(three[:, :, 2], expected)
    with pytest.raises(ValueError, match="1 or 3"):
        Grayscale(2)  # type: ignore[arg-type]


def test_normalize() -> None:
    found = Normalize((0.5, 0.25, 0), (0.5, 2, 1))(IMAGE)
    assert found.dtype == np.float32
    expected = (IMAGE / 255 - [0.5, 0.25, 0]) / [0.5, 2, 1]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert Normalize((0.5,), (0.5,), "float16")(IMAGE[:, :, 0]).dtype == np.float16
    with pytest.raises(ValueError, match="before ToCHW"):
        Compose([ToCHW(), Normalize((0.5,) * 3, (1,) * 3)])(IMAGE)


def test_layout_and_lambda() -> None:
    found = ToCHW()(IMAGE)
    np.testing.assert_array_equal(found, IMAGE.transpose(2, 0, 1))
    assert found.flags.c_contiguous
    assert ToCHW()(IMAGE[:, :, 0]).shape == (1, 30, 40)
    np.testing.assert_array_equal(Lambda(np.fliplr)(IMAGE), IMAGE[:, ::-1])
