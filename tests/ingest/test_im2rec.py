from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.sources.folders import picture

from bushel.codecs import get_codec
from bushel.ingest.im2rec import Im2Rec

RNG = np.random.default_rng(0)


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
    change = Im2Rec(resize, crop, encoding=".png")
    assert decoded(change(picture(1, *shape), RNG)).shape == (*expected, 3)


def test_the_middle_is_cut_out() -> None:
    image = picture(3, 30, 41)
    np.testing.assert_array_equal(decoded(Im2Rec(center_crop=True, encoding=".png")(image, RNG)), image[:, 5:35])


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
        assert decoded(Im2Rec(color=color, encoding=encoding)(value, RNG)).shape == shape


def test_quality_and_encoding() -> None:
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    sizes = [len(Im2Rec(quality=quality)(image, RNG)) for quality in (10, 50, None)]
    assert sizes == sorted(sizes)
    assert Im2Rec()(image, RNG) == get_codec("jpg(95)").encode(image)
    assert Image.open(io.BytesIO(Im2Rec(encoding=".png", quality=9)(image, RNG))).format == "PNG"
    assert (Im2Rec().codec, Im2Rec(encoding=".png").codec) == ("jpg", "png")


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
        found = decoded(Im2Rec((25, 20), inter_method=method, encoding=".png")(image, RNG))
        assert np.abs(found.astype(int) - resized((25, 20), chosen)).max() <= (method == 1)
    for side, chosen in (((99, 80), filters[2]), ((25, 20), filters[3]), ((99, 20), filters[1])):
        found = decoded(Im2Rec(side, inter_method=9, encoding=".png")(image, RNG))
        assert np.abs(found.astype(int) - resized(side, chosen)).max() <= (chosen == filters[1])
    rng = np.random.default_rng(3)
    several = {Im2Rec((25, 20), inter_method=10, encoding=".png")(image, rng) for _ in range(40)}
    assert len(several) == 5


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
        Im2Rec(**options)
