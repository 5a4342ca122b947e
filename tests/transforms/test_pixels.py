"""Blurring and erasing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter
from tests.kernels.jpegs import picture

from bushel.transforms import GaussianBlur, RandomErasing

IMAGE = picture(40, 30)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def test_a_blur_is_that_of_pillow() -> None:
    expected = Image.fromarray(IMAGE).filter(ImageFilter.GaussianBlur(1.5))
    np.testing.assert_array_equal(GaussianBlur(1.5)(IMAGE, generator()), np.asarray(expected))
    assert (GaussianBlur((0.5, 3))(IMAGE, generator(1)) != GaussianBlur((0.5, 3))(IMAGE, generator(2))).any()
    assert GaussianBlur()(IMAGE[:, :, 0], generator()).shape == (30, 40)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 5.0])
def test_a_blur_is_near_the_gaussian(sigma: float) -> None:
    reach = int(4 * sigma + 1)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weights /= weights.sum()
    image = picture(140, 110)
    exact = image.astype(float)
    for axis in (0, 1):
        exact = np.apply_along_axis(lambda row: np.convolve(row, weights, "valid"), axis, exact)
    found = GaussianBlur(sigma)(image, generator())[reach:-reach, reach:-reach]
    assert np.abs(found - exact).mean() < 2


def test_a_box_is_erased_with_the_probability_given() -> None:
    changed = [RandomErasing(0.3, value=0)(np.full((64, 64, 3), 200, np.uint8), generator(seed)) for seed in range(400)]
    erased = [image for image in changed if (image == 0).any()]
    assert 80 < len(erased) < 160
    for image in erased:
        rows, columns = np.nonzero((image == 0).all(axis=2))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert (image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] == 0).all()
        assert 0.015 < height * width / 64**2 < 0.35
        assert 0.2 < height / width < 4


@pytest.mark.parametrize("value", [3, (1, 2, 3), "random"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_what_a_box_is_filled_with(value: Any, dtype: Any) -> None:
    image = np.full((64, 64, 3), 200, dtype)
    erased = RandomErasing(1, value=value)(image, generator())
    assert (erased.dtype, erased.shape) == (dtype, image.shape)
    assert (image == 200).all()
    inside = erased[(erased != 200).any(axis=2)]
    assert len(np.unique(inside)) == ({3: 1, (1, 2, 3): 3}.get(value) or len(np.unique(inside)))
    assert value != "random" or len(np.unique(inside)) > 20


def test_a_small_image_may_have_no_box() -> None:
    image = np.zeros((1, 1), np.uint8)
    assert RandomErasing(1, value=9)(image, generator()) is image


def test_wrong_arguments() -> None:
    for make in (
        lambda: RandomErasing(2),
        lambda: RandomErasing(scale=(0, 1)),
        lambda: RandomErasing(value="noise"),  # type: ignore[arg-type]
        lambda: GaussianBlur(0),
        lambda: GaussianBlur((2, 1)),
    ):
        with pytest.raises(ValueError, match="invalid"):
            make()
    with pytest.raises(TypeError, match="RandomErasing"):
        RandomErasing()([1], generator())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="GaussianBlur"):
        GaussianBlur()(np.zeros((2, 2, 4), np.uint8), generator())
