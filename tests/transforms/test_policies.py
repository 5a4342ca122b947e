"""RandAugment and TrivialAugment. `test_against_torchvision.py` compares their operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.kernels.jpegs import picture

from bushel.transforms import RandAugment, TrivialAugmentWide
from bushel.transforms.policies import apply_operation

IMAGE = picture(40, 30)
POLICIES: list[Any] = [
    RandAugment(),
    RandAugment(3, 20, fill=(1, 2, 3)),
    TrivialAugmentWide(),
]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_policy_is_a_function_of_its_random_numbers(policy: Any) -> None:
    results = [policy(IMAGE, generator(seed)) for seed in range(40)]
    for seed, result in enumerate(results):
        assert (result.dtype, result.shape) == (np.uint8, IMAGE.shape)
        np.testing.assert_array_equal(result, policy(IMAGE, generator(seed)))
    assert len({result.tobytes() for result in results}) > 15


@pytest.mark.parametrize("policy", [RandAugment(4, 30), TrivialAugmentWide()], ids=str)
def test_grey_images_stay_grey(policy: Any) -> None:
    for seed in range(60):
        assert policy(np.ascontiguousarray(IMAGE[:, :, 0]), generator(seed)).shape == (30, 40)


def test_no_operation_and_no_magnitude_leave_the_image() -> None:
    np.testing.assert_array_equal(RandAugment(0)(IMAGE, generator()), IMAGE)
    for name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Contrast", "Identity"):
        same = apply_operation(Image.fromarray(IMAGE), name, 0)
        np.testing.assert_array_equal(np.asarray(same), IMAGE)


def test_wrong_arguments() -> None:
    for make in (
        lambda: RandAugment(-1),
        lambda: RandAugment(1, 31),
        lambda: TrivialAugmentWide(1),
        lambda: RandAugment(fill=-1),
    ):
        with pytest.raises(ValueError, match="invalid"):
            make()
    for policy in (RandAugment(), TrivialAugmentWide()):
        with pytest.raises(TypeError, match=type(policy).__name__):
            policy(np.zeros((2, 2, 4), np.uint8), generator())
