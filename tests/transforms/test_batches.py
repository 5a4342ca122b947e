"""MixUp and CutMix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bushel.transforms import CutMix, MixUp


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def batch(dtype: Any = np.uint8, shape: tuple[int, ...] = (4, 16, 20, 3)) -> dict[str, Any]:
    images = np.arange(1, 5, dtype=dtype).reshape(4, *[1] * (len(shape) - 1)) * np.ones(shape, dtype)
    return {"__key__": list("abcd"), "image": images * 10, "label": np.array([0, 1, 2, 2])}


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_mixup_blends_with_the_sample_before(dtype: Any) -> None:
    given = batch(dtype)
    mixed = MixUp("image", "label", 3)(given, generator(5))
    kept = float(generator(5).beta(1.0, 1.0))
    assert (mixed["image"].dtype, mixed["__key__"]) == (dtype, list("abcd"))
    expected = [10 * kept + 40 * (1 - kept), 20 * kept + 10 * (1 - kept)]
    np.testing.assert_allclose(mixed["image"][:2, 0, 0, 0].astype(float), expected, atol=0.5, rtol=1e-3)
    np.testing.assert_allclose(mixed["label"][0], [kept, 0, 1 - kept], rtol=1e-6)
    np.testing.assert_allclose(mixed["label"][3], [0, 0, 1], rtol=1e-6)
    assert (given["image"][0] == 10).all()


@pytest.mark.parametrize("chw", [False, True])
def test_cutmix_takes_a_box_of_the_sample_before(chw: bool) -> None:
    given = batch(shape=(4, 3, 16, 20) if chw else (4, 16, 20, 3))
    for seed in range(20):
        mixed = CutMix("image", "label", 3, chw=chw)(given, generator(seed))
        own = (mixed["image"][1] == 20).mean()
        assert set(np.unique(mixed["image"][1])) <= {10, 20}
        np.testing.assert_allclose(mixed["label"][1], [1 - own, own, 0], atol=1e-6)
    assert (given["image"][1] == 20).all()


def test_labels_that_are_shares_already_are_mixed_again() -> None:
    once = MixUp("image", "label", 3)(batch(), generator(1))
    twice = CutMix("image", "label", 3)(once, generator(2))
    np.testing.assert_allclose(twice["label"].sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("mix", [MixUp, CutMix])
def test_wrong_use(mix: Any) -> None:
    with pytest.raises(ValueError, match="alpha above 0"):
        mix("image", "label", 3, alpha=0)
    with pytest.raises(ValueError, match="labels from 0 to 2, but classes=2"):
        mix("image", "label", 2)(batch(), generator())
    with pytest.raises(TypeError, match="images of one size"):
        mix("image", "label", 3)(batch() | {"image": [np.zeros((2, 2)), np.zeros((3, 3))]}, generator())
    with pytest.raises(TypeError, match="expected integers"):
        mix("image", "label", 3)(batch() | {"label": np.zeros(4)}, generator())
    with pytest.raises(KeyError, match="labels"):
        mix("image", "labels", 3)(batch(), generator())
