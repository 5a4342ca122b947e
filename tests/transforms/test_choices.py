"""Transforms that contain others."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.transforms import (
    ColorJitter,
    Compose,
    CutMix,
    GaussianBlur,
    Lambda,
    MixUp,
    MultiCrop,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    ToCHW,
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def test_all_transforms_or_none() -> None:
    twice = RandomApply([Lambda(lambda x: x + 1), lambda x, rng: x * 10], p=0.25)
    found = [twice(1, generator(seed)) for seed in range(400)]
    assert set(found) == {1, 20}
    assert 60 < found.count(20) < 140
    assert RandomApply([Lambda(len)], p=0)([1], generator()) == [1]


def test_one_of_them_by_weight() -> None:
    choice = RandomChoice([lambda x: "a", lambda x: "b", lambda x, rng: "c"], weights=[3, 0, 1])
    found = [choice(0, generator(seed)) for seed in range(400)]
    assert set(found) == {"a", "c"}
    assert 60 < found.count("c") < 140
    assert {RandomChoice([abs, str])(-1, generator(seed)) for seed in range(20)} == {1, "-1"}


def test_wrong_arguments() -> None:
    crop = [RandomCrop(4)]
    for make in (
        lambda: RandomApply(crop, p=2),
        lambda: RandomChoice([]),
        lambda: RandomChoice(crop, weights=[1, 2]),
        lambda: RandomChoice(crop, weights=[0]),
        lambda: RandomChoice(crop, weights=[]),
        lambda: MultiCrop("image", {}),
        lambda: MultiCrop("image", {"views": (0, crop)}),
    ):
        with pytest.raises(ValueError, match="expected|needs"):
            make()
    with pytest.raises(KeyError, match="makes views"):
        MultiCrop("image", {"views": (1, crop)})({"photo": 1}, generator())


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    path: Path = tmp_path_factory.mktemp("choices") / "a.tar"
    with bushel.Writer(path, {"image": "png", "label": "int"}) as writer:
        for number in range(12):
            image = generator(number).integers(0, 256, (20, 24, 3), dtype=np.uint8)
            writer.append({"image": image, "label": number})
    return bushel.open(path)


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1, "threads": 1}], ids=str)
def test_views_of_one_image_in_a_loader(ds: bushel.Dataset, options: Any) -> None:
    views = MultiCrop(
        "image",
        {"image": (2, [RandomResizedCrop(16), RandomHorizontalFlip()]), "small": (3, [RandomResizedCrop(8)])},
    )
    batches = list(bushel.Loader(ds, 4, shuffle=True, seed=3, sample_transform=views, **options))
    same = list(bushel.Loader(ds, 4, shuffle=True, seed=3, sample_transform=views, threads=0))
    for batch, again in zip(batches, same, strict=True):
        assert (batch["image"].shape, batch["small"].shape) == ((4, 2, 16, 16, 3), (4, 3, 8, 8, 3))
        assert (batch["image"][:, 0] != batch["image"][:, 1]).any()
        for name in ("image", "small", "label"):
            np.testing.assert_array_equal(batch[name], again[name])


@pytest.mark.parametrize("mix", [MixUp, CutMix])
@pytest.mark.parametrize("options", [{"threads": 2}, {"processes": 1, "threads": 1}], ids=str)
def test_mixed_batches_in_a_loader(ds: bushel.Dataset, mix: Any, options: Any) -> None:
    transforms = RandomChoice([mix("image", "label", 12), mix("image", "label", 12, alpha=0.2)])
    loader = bushel.Loader(ds, 4, transforms=[RandomCrop(16)], batch_transform=transforms, seed=1, **options)
    again = bushel.Loader(ds, 4, transforms=[RandomCrop(16)], batch_transform=transforms, seed=1, threads=0)
    for batch, same in zip(loader, again, strict=True):
        assert (batch["label"].shape, batch["label"].dtype) == ((4, 12), np.float32)
        np.testing.assert_allclose(batch["label"].sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(batch["image"], same["image"])
        np.testing.assert_array_equal(batch["label"], same["label"])


AFFINE = partial(RandomAffine, 10)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        (RandomErasing, {"scale": 0.3}, "invalid scale=0.3: expected .lower, upper., two numbers above 0, up to 1"),
        (RandomErasing, {"ratio": "ab"}, "invalid ratio='ab': expected .lower, upper., two numbers above 0$"),
        (GaussianBlur, {"sigma": "a"}, "invalid sigma='a': expected a number above 0, or .low, high."),
        (ColorJitter, {"brightness": None}, "invalid brightness=None: expected a number or .low, high. between 0 and"),
        (ColorJitter, {"hue": ("a", 1)}, "invalid hue=.'a', 1.: expected a number or .low, high. between -0.5 and 0.5"),
        (RandomRotation, {"degrees": None}, "invalid degrees=None: expected a number of 0 or more, or .low, high.$"),
        (AFFINE, {"shear": "a"}, "invalid shear='a': expected a number of 0 or more, or .*, high. or .low, high, low"),
        (AFFINE, {"translate": 0.1}, r"invalid translate=0.1: expected \(x, y\), two shares between 0 and 1"),
        (AFFINE, {"scale": 1.1}, r"invalid scale=1.1: expected \(low, high\) above 0"),
        (Compose, {"transforms": ToCHW()}, "Compose: expected transforms such as .Resize.*not ToCHW()"),
        (Compose, {"transforms": {ToCHW()}}, "Compose: expected transforms such as"),
        (Compose, {"transforms": [[ToCHW()]]}, r"Compose\[0\] is .ToCHW.*a list of transforms has no lists within"),
        (RandomApply, {"transforms": [3]}, r"RandomApply\[0\] is 3, which is not callable"),
    ],
)
def test_options_of_another_form_are_named(kind: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        kind(**options)


@pytest.mark.parametrize("numbers", [(), (0.3,), (0.3, 0.4, 0.5), (float("nan"), 0.3), (0.3, float("nan"))])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (RandomErasing, "scale"),
        (RandomErasing, "ratio"),
        (GaussianBlur, "sigma"),
        (ColorJitter, "brightness"),
        (ColorJitter, "hue"),
        (RandomRotation, "degrees"),
        (AFFINE, "shear"),
        (AFFINE, "scale"),
        (AFFINE, "translate"),
    ],
)
def test_two_numbers_are_asked_for(kind: Any, name: str, numbers: Any) -> None:
    with pytest.raises(ValueError, match=f"^invalid {name}={re.escape(repr(numbers))}: expected "):
        kind(**{name: numbers})


@pytest.mark.parametrize(
    ("kind", "name"), [(ColorJitter, "hue"), (GaussianBlur, "sigma"), (RandomRotation, "degrees"), (AFFINE, "shear")]
)
def test_one_number_out_of_range_is_shown_as_it_was_given(kind: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"^invalid {name}=-7: expected a number "):
        kind(**{name: -7})


@pytest.mark.parametrize("groups", [{"a": 2}, [1], {"a": ("x", [])}, {"a": (1,)}, {}])
def test_views_are_numbers_and_transforms(groups: Any) -> None:
    with pytest.raises(ValueError, match="expected at least one group, and one view or more in each"):
        MultiCrop("image", groups)
