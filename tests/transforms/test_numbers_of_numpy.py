"""Options that are numbers of NumPy are numbers of Python; bools are refused as sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bushel.transforms import ColorJitter, Compose, Pad, RandomResizedCrop, RandomRotation, Resize
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
