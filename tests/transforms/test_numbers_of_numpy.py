"""Options that are numbers of NumPy are numbers of Python; bools are refused as sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bushel.transforms import (
    ColorJitter,
    Compose,
    EachFrame,
    Lambda,
    Pad,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    RandomRotation,
    Resize,
)
from bushel.transforms.values import chained

NP: Any = np  # type checkers do not take its numbers for options
IMAGE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


@pytest.mark.parametrize(
    ("transform", "plain"),
    [
        (Resize(NP.int64(8)), Resize(8)),
        (Resize((NP.uint8(20), NP.uint8(30))), Resize((20, 30))),
        (Pad(NP.uint8(250), fill=NP.uint8(7)), Pad(250, fill=7)),
        (RandomRotation(NP.uint8(10)), RandomRotation(10)),
        (RandomResizedCrop(NP.uint8(9), scale=(NP.float64(0.5), 1)), RandomResizedCrop(9, scale=(0.5, 1))),
        (ColorJitter(NP.float64(0.25)), ColorJitter(0.25)),
        (Compose([Resize(NP.int64(9))]), Compose([Resize(9)])),
        (Compose({"a": Resize(9)}.values()), Compose([Resize(9)])),  # type: ignore[arg-type]
        (EachFrame(np.array([Resize(9)], object)), EachFrame([Resize(9)])),  # type: ignore[arg-type]
        (ColorJitter(NP.array([0.5, 0.75])), ColorJitter((0.5, 0.75))),
        (RandomErasing(1, NP.array([0.1, 0.2])), RandomErasing(1, (0.1, 0.2))),
        (RandomRotation(NP.array([3, 5])), RandomRotation((3, 5))),
        (RandomAffine(10, scale=NP.array([0.5, 2])), RandomAffine(10, scale=(0.5, 2.0))),
        (RandomAffine(10, shear=NP.array([1, 2, 3, 4])), RandomAffine(10, shear=(1, 2, 3, 4))),
    ],
    ids=str,
)
def test_numbers(transform: Any, plain: Any) -> None:
    assert repr(transform) == repr(plain)
    images = [chained([step], IMAGE, np.random.default_rng(1)) for step in (transform, plain)]
    assert np.array_equal(*images)


def test_a_bool_is_no_size() -> None:
    with pytest.raises(TypeError, match="size=True: expected numbers"):
        Resize(NP.True_)


def test_classes_of_numpy_are_functions() -> None:
    assert Lambda(np.float32).function is np.float32
