"""Arrays as pixels."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from bushel._pictures.pixels import array_facts, array_pixels, class_colours, colours, displayable, encode_png


def test_a_heat_map_goes_from_dark_to_light_and_marks_nan() -> None:
    pixels = colours(np.array([[0.0, 1.0, np.nan]]))
    assert pixels[0, 0].tolist() == [68, 1, 84]
    assert pixels[0, 1].tolist() == [253, 231, 37]
    assert pixels[0, 2].tolist() == [214, 64, 120]


def test_a_constant_map_has_one_colour() -> None:
    assert len(np.unique(colours(np.full((3, 4), 7)).reshape(-1, 3), axis=0)) == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "what"),
    [
        ((5, 7), np.float64, "heat map"),
        ((40, 30, 3), np.uint8, "image"),
        ((40, 30), np.uint8, "image"),
        ((3, 20, 30), np.float32, "image"),
        ((9, 40, 30, 3), np.uint8, "image of [0]"),
        ((2, 3, 4, 5), np.int64, "heat map of [0, 0]"),
        ((100,), np.float16, "curve"),
    ],
)
def test_arrays_are_drawn_by_their_shape(shape: tuple[int, ...], dtype: type, what: str) -> None:
    drawn = array_pixels(np.arange(np.prod(shape)).reshape(shape).astype(dtype), 64)
    assert drawn is not None
    assert drawn[1] == what
    assert drawn[0].dtype == np.uint8
    assert drawn[0].ndim == 3


@pytest.mark.parametrize("array", [np.array(3), np.zeros(0), np.zeros((0, 4)), np.array(["a", "b"]), np.array([1])])
def test_some_arrays_have_no_picture(array: np.ndarray) -> None:
    assert array_pixels(array, 64) is None


def test_small_maps_are_enlarged_so_that_every_cell_is_seen() -> None:
    drawn = array_pixels(np.array([[0, 1], [2, 3]]), 64)
    assert drawn is not None
    assert drawn[0].shape == (64, 64, 3)


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int16, np.uint8, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5),
    )
)
def test_any_array_of_numbers_is_drawn_or_has_no_picture(array: np.ndarray) -> None:
    drawn = array_pixels(array, 32)
    assert drawn is None or (drawn[0].ndim == 3 and drawn[0].shape[2] == 3)
    assert array_facts(array).shape == array.shape


def test_facts_leave_out_what_is_not_finite() -> None:
    facts = array_facts(np.array([1.0, 3.0, np.nan, np.inf]))
    assert (facts.least, facts.greatest, facts.mean, facts.deviation, facts.not_finite) == (1.0, 3.0, 2.0, 1.0, 2)
    assert array_facts(np.array(["a"])).mean is None


def test_transparent_pixels_are_shown_on_squares() -> None:
    clear = np.zeros((16, 16, 4), np.uint8)
    shown = displayable(clear)
    assert shown[0, 0].tolist() == [240, 240, 240]
    assert shown[0, 8].tolist() == [204, 204, 204]


def test_deep_images_are_scaled() -> None:
    assert displayable(np.array([[0, 65535]], np.uint16))[0, :, 0].tolist() == [0, 255]
    assert displayable(np.array([[0.0, 0.5]], np.float32))[0, :, 0].tolist() == [0, 128]


def test_png_holds_the_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8)
    assert np.array_equal(np.array(Image.open(io.BytesIO(encode_png(pixels)))), pixels)


def test_masks_of_class_numbers_have_the_colours_of_classes() -> None:
    mask = np.array([[0, 1, 2], [5, 255, 1]], np.uint8)
    shown = displayable(mask)
    assert shown[0, 0].tolist() == [0, 0, 0]
    assert len(np.unique(shown.reshape(-1, 3), axis=0)) == 5
    assert np.array_equal(shown[0, 1], shown[1, 2])
    assert shown.max(axis=2)[mask > 0].min() > 100
    assert np.array_equal(displayable(mask[:, :, None]), shown)


@pytest.mark.parametrize("values", [[0, 255], [0, 0], [0, 200], [255, 255], [10, 64]])
def test_other_grey_images_are_shown_as_they_are(values: list[int]) -> None:
    grey = np.array([values], np.uint8)
    assert displayable(grey)[0, :, 1].tolist() == values


def test_the_colours_of_classes_differ() -> None:
    assert len(np.unique(class_colours(), axis=0)) > 250
