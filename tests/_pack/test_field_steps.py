from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from bushel._pack.field_steps import FieldSteps
from bushel.codecs import get_codec
from bushel.compat.mxnet.steps import im2rec_steps
from bushel.errors import CodecError
from bushel.loader.decode.sample_transforms import generator
from bushel.transforms import CenterCrop, Grayscale, Lambda, Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize
from bushel.transforms.values import Transform

GENERATORS = partial(generator, 7, 0, 3)


def smooth(height: int, width: int) -> npt.NDArray[np.uint8]:
    down, across = np.mgrid[:height, :width]
    levels = [np.sin(down / 9) * np.cos(across / 11), np.sin(across / 7), np.cos((down + across) / 13)]
    return (128 + 100 * np.stack(levels, axis=2)).astype(np.uint8)


def jpeg(image: npt.NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def one_by_one(functions: Sequence[Transform], data: bytes) -> Any:
    """The same transforms on the decoded image, without planning."""
    return FieldSteps.of("image", [Lambda(lambda image: image), *functions]).on_stored("jpg", data, GENERATORS)


@pytest.mark.parametrize(
    "functions",
    [
        [Resize(64)],
        [Resize((50, 70)), CenterCrop(40)],
        [RandomResizedCrop(48), RandomHorizontalFlip()],
        [CenterCrop(60), Resize(30), Grayscale()],
        [CenterCrop(60)],
        im2rec_steps(64, center_crop=True, color=-1, encoding=".png")[:-1],
    ],
)
@pytest.mark.parametrize("grey", [False, True])
def test_fused_transforms_equal_separate_ones(functions: list[Transform], grey: bool) -> None:
    image = smooth(96, 120)
    data = jpeg(image[:, :, 0].copy() if grey else image)
    steps = FieldSteps.of("image", functions)
    assert steps.plan is not None
    if grey and isinstance(functions[-1], Grayscale):
        functions = functions[:-1]
        steps = FieldSteps.of("image", functions)
    found, expected = steps.on_stored("jpg", data, GENERATORS), one_by_one(functions, data)
    assert (found.dtype, found.shape) == (np.uint8, expected.shape)
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_large_images_shrink_while_they_are_decoded() -> None:
    image = smooth(960, 1200)
    data = jpeg(image)
    found, expected = (
        FieldSteps.of("image", [Resize(64)]).on_stored("jpg", data, GENERATORS),
        one_by_one([Resize(64)], data),
    )
    assert found.shape == expected.shape == (64, 80, 3)
    noise = np.mean((found.astype(float) - expected) ** 2)
    assert 10 * np.log10(255**2 / noise) > 35


def test_images_that_nothing_changes_keep_their_bytes() -> None:
    data = jpeg(smooth(40, 60))
    assert FieldSteps.of("image", [Resize(40), CenterCrop((40, 60))]).on_stored("jpg", data, GENERATORS) is data
    damaged = data[: len(data) // 2]
    with pytest.raises(CodecError):
        FieldSteps.of("image", [Resize(40)]).on_stored("jpg", damaged, GENERATORS)


def test_damaged_images_are_errors() -> None:
    data = jpeg(smooth(40, 60))
    for damaged in (data[: len(data) // 2], data[:20], b"\xff\xd8\xff"):
        with pytest.raises(CodecError):
            FieldSteps.of("image", [Resize(20)]).on_stored("jpg", damaged, GENERATORS)
    with pytest.raises(ValueError, match="too small for a crop"):
        FieldSteps.of("image", [CenterCrop(50)]).on_stored("jpg", data, GENERATORS)


def test_other_kinds_of_images_are_transformed_after_decoding() -> None:
    image = smooth(40, 60)
    found = FieldSteps.of("image", [Resize(20)]).on_stored("jpg", get_codec("png").encode(image), GENERATORS)
    np.testing.assert_array_equal(found, Resize(20)(image))


def test_numbers_are_not_made_while_decoding() -> None:
    numbers = Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    functions: list[Transform] = [Resize(20), numbers, Lambda(lambda levels: levels.tobytes())]
    steps = FieldSteps.of("image", functions)
    assert steps.plan is None
    assert len(steps.on_stored("jpg", jpeg(smooth(40, 60)), GENERATORS)) == 20 * 30 * 3 * 4
