"""The same results as torchvision's `transforms.v2`, where the parameters are given instead of drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.kernels.jpegs import picture

from bushel.transforms import CutMix, GaussianBlur, MixUp, Pad
from bushel.transforms.policies import apply_operation
from bushel.transforms.warp import affine, rotation

torch = pytest.importorskip("torch")
try:
    torchvision = pytest.importorskip("torchvision")
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
except RuntimeError as error:  # a torchvision that was built for another torch
    pytest.skip(f"torchvision does not fit the torch that is installed: {error}", allow_module_level=True)

IMAGE = picture(60, 44)
PICTURE = Image.fromarray(IMAGE)
BILINEAR: Any = torchvision.transforms.InterpolationMode.BILINEAR

OPERATIONS: list[tuple[str, float]] = [
    *[(name, value) for name in ("ShearX", "ShearY") for value in (-0.3, 0.1, 0.99)],
    *[(name, value) for name in ("TranslateX", "TranslateY") for value in (-12.7, 5)],
    *[("Rotate", value) for value in (-30, 8.5, 135)],
    *[(name, value) for name in ("Brightness", "Color", "Contrast", "Sharpness") for value in (-0.9, 0.35)],
    *[("Posterize", value) for value in (1, 4, 8)],
    *[("Solarize", value) for value in (0, 100.5, 255)],
    ("AutoContrast", 0),
    ("Equalize", 0),
    ("Identity", 0),
]


@pytest.mark.parametrize(("name", "magnitude"), OPERATIONS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_operations_of_policies_are_equal(name: str, magnitude: float, mode: str) -> None:
    policy = torchvision.transforms.v2.RandAugment()
    given = PICTURE.convert(mode)
    fill = [9.0] * len(given.getbands())
    theirs = magnitude / 255 if name == "Solarize" else magnitude  # a share of the highest level
    expected = policy._apply_image_or_video_transform(given, name, theirs, BILINEAR, {Image.Image: fill})
    found = apply_operation(given, name, magnitude, fill=9)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("values", [(20, (3, -2), 1.2, (10, -5)), (-75, (0, 0), 0.5, (0, 0)), (0, (5, 5), 1, (30, 0))])
def test_affine_maps_are_equal(values: Any) -> None:
    angle, shift, scale, shear = values
    expected = functional.affine(PICTURE, angle, list(shift), scale, list(shear), BILINEAR, fill=[1, 2, 3])
    found = affine((60, 44), angle, shift, scale, shear, (1, 2, 3)).apply(IMAGE)
    np.testing.assert_array_equal(found, np.asarray(expected))


@pytest.mark.parametrize("expand", [False, True])
def test_rotations_are_equal(expand: bool) -> None:
    expected = functional.rotate(PICTURE, 33.3, BILINEAR, expand=expand, fill=[0, 0, 0])
    np.testing.assert_array_equal(rotation(33.3, 60, 44, expand=expand, fill=0).apply(IMAGE), np.asarray(expected))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_paddings_are_equal(mode: Any) -> None:
    expected = functional.pad(PICTURE, [1, 2, 3, 4], [7, 7, 7], mode)
    np.testing.assert_array_equal(Pad((1, 2, 3, 4), 7, mode)(IMAGE), np.asarray(expected))


@pytest.mark.parametrize("sigma", [0.6, 1.0, 2.0])
def test_blurs_differ_by_less_than_two_levels_on_average(sigma: float) -> None:
    expected = np.asarray(functional.gaussian_blur(PICTURE, [23, 23], [sigma, sigma]), int)
    found = GaussianBlur(sigma)(IMAGE, np.random.default_rng(0))
    assert np.abs(found[8:-8, 8:-8] - expected[8:-8, 8:-8]).mean() < 2


@pytest.mark.parametrize("mix", [MixUp, CutMix])
def test_mixed_batches_are_equal(mix: Any) -> None:
    images = np.random.default_rng(0).random((6, 3, 16, 20), np.float32)
    labels = np.array([0, 3, 1, 1, 2, 0])
    ours = mix("image", "label", 4, **({"chw": True} if mix is CutMix else {}))
    made = ours({"image": images, "label": labels}, np.random.default_rng(3))
    kept = float(np.random.default_rng(3).beta(1.0, 1.0))
    theirs = torchvision.transforms.v2.MixUp(num_classes=4) if mix is MixUp else None
    if theirs is not None:
        params = {"lam": kept, "labels": torch.tensor(labels), "batch_size": 6}
        expected = theirs.transform(torch.tensor(images), params)
        np.testing.assert_allclose(made["image"], expected.numpy(), atol=1e-6)
        np.testing.assert_allclose(
            made["label"],
            theirs._mixup_label(torch.nn.functional.one_hot(torch.tensor(labels), 4), lam=kept),
            atol=1e-6,
        )
    else:
        cut = torchvision.transforms.v2.CutMix(num_classes=4)
        rows, columns = np.nonzero((made["image"][0] != images[0]).all(axis=0))
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        area = (box[2] - box[0]) * (box[3] - box[1])
        params = {"box": box, "lam_adjusted": 1 - area / 320, "labels": torch.tensor(labels), "batch_size": 6}
        np.testing.assert_allclose(made["image"], cut.transform(torch.tensor(images), params).numpy(), atol=1e-6)
        expected = cut._mixup_label(torch.nn.functional.one_hot(torch.tensor(labels), 4), lam=params["lam_adjusted"])
        np.testing.assert_allclose(made["label"], expected, atol=1e-6)
