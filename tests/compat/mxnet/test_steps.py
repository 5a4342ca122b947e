from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.sources.folders import picture

from bushel.codecs import get_codec
from bushel.compat.mxnet.steps import im2rec_steps
from bushel.transforms.values import takes_rng

RNG = np.random.default_rng(0)


def changed(image: Any, rng: np.random.Generator = RNG, **options: Any) -> bytes:
    """What the transforms make of an image that is decoded already."""
    result = image
    for change in im2rec_steps(**options):
        result = change(result, rng=rng) if takes_rng(change) else change(result)
    assert isinstance(result, bytes)
    return result


def decoded(data: bytes) -> npt.NDArray[Any]:
    return np.asarray(get_codec("png").decode(data))


@pytest.mark.parametrize(
    ("shape", "resize", "crop", "expected"),
    [
        ((30, 40), 15, False, (15, 20)),
        ((41, 30), 15, False, (20, 15)),  # 41 * 15 // 30
        ((30, 41), 15, False, (15, 20)),
        ((30, 40), 60, False, (60, 80)),
        ((30, 40), (7, 9), False, (9, 7)),
        ((30, 41), None, True, (30, 30)),
        ((30, 40), 10, True, (10, 10)),
        ((30, 40), None, False, (30, 40)),
    ],
)
def test_sizes(shape: tuple[int, int], resize: Any, crop: bool, expected: tuple[int, int]) -> None:
    made = changed(picture(1, *shape), resize=resize, center_crop=crop, encoding=".png")
    assert decoded(made).shape == (*expected, 3)


def test_the_middle_is_cut_out() -> None:
    image = picture(3, 30, 41)
    np.testing.assert_array_equal(decoded(changed(image, center_crop=True, encoding=".png")), image[:, 5:35])


def test_colours() -> None:
    image, grey = picture(2), picture(2)[:, :, 0]
    alpha = np.dstack([image, grey])
    for color, encoding, value, shape in (
        (1, ".png", grey, (12, 16, 3)),
        (1, ".png", alpha, (12, 16, 3)),
        (0, ".png", image, (12, 16)),
        (-1, ".png", grey, (12, 16)),
        (-1, ".png", alpha, (12, 16, 4)),
        (-1, ".jpg", alpha, (12, 16, 3)),
        (-1, ".jpg", grey, (12, 16)),
    ):
        assert decoded(changed(value, color=color, encoding=encoding)).shape == shape


def test_quality_and_encoding() -> None:
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    sizes = [len(changed(image, quality=quality)) for quality in (10, 50, None)]
    assert sizes == sorted(sizes)
    assert changed(image) == get_codec("jpg(95)").encode(image)
    assert Image.open(io.BytesIO(changed(image, encoding=".png", quality=9))).format == "PNG"


def test_interpolations() -> None:
    image = picture(5, 40, 50)
    filters = (
        Image.Resampling.NEAREST,
        Image.Resampling.BILINEAR,
        Image.Resampling.BICUBIC,
        Image.Resampling.BOX,
        Image.Resampling.LANCZOS,
    )

    def resized(side: tuple[int, int], chosen: Image.Resampling) -> npt.NDArray[Any]:
        return np.asarray(Image.fromarray(image).resize(side, chosen))

    for method, chosen in enumerate(filters):
        found = decoded(changed(image, resize=(25, 20), inter_method=method, encoding=".png"))
        assert np.abs(found.astype(int) - resized((25, 20), chosen)).max() <= (method == 1)
    for side, chosen in (((99, 80), filters[2]), ((25, 20), filters[3]), ((99, 20), filters[1])):
        found = decoded(changed(image, resize=side, inter_method=9, encoding=".png"))
        assert np.abs(found.astype(int) - resized(side, chosen)).max() <= (chosen == filters[1])
    rng = np.random.default_rng(3)
    several = {changed(image, rng, resize=(25, 20), inter_method=10, encoding=".png") for _ in range(40)}
    assert len(several) == 5


def test_deep_grey_images_are_resized_too() -> None:
    deep = np.random.default_rng(2).integers(0, 1 << 16, (30, 40)).astype(np.uint16)
    found = decoded(changed(deep, resize=15, center_crop=True, color=-1, encoding=".png"))
    assert found.dtype == np.uint16
    assert found.shape == (15, 15)


@pytest.mark.parametrize(
    "options",
    [
        {"resize": 0},
        {"resize": (1, 0)},
        {"encoding": ".gif"},
        {"quality": 0},
        {"quality": 10, "encoding": ".png"},
        {"color": 2},
        {"inter_method": 5},
    ],
)
def test_wrong_parameters(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        im2rec_steps(**options)
