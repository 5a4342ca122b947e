"""The vision transforms, on NumPy."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.folders import picture

import bushel
import bushel.compat.mxnet as mx
from bushel.compat.mxnet.gluon.data.vision import transforms
from bushel.compat.mxnet.gluon.data.vision.transforms import shifted_hue

IMAGE = picture(3, 40, 50)
EVERY = [
    transforms.Cast(),
    transforms.CenterCrop(20),
    transforms.CropResize(1, 2, 30, 20, 10),
    transforms.Normalize((1, 2, 3), 2.0),
    transforms.RandomApply(transforms.RandomHue(0.2), 0.5),
    transforms.RandomBrightness(0.3),
    transforms.RandomColorJitter(0.1, 0.2, 0.3, 0.1),
    transforms.RandomContrast(0.3),
    transforms.RandomFlipLeftRight(),
    transforms.RandomFlipTopBottom(),
    transforms.RandomHue(0.3),
    transforms.RandomLighting(0.1),
    transforms.RandomResizedCrop((20, 10)),
    transforms.RandomSaturation(0.3),
    transforms.Resize((20, 10)),
    transforms.ToTensor(),
]


@pytest.mark.parametrize("transform", EVERY, ids=lambda one: type(one).__name__)
def test_every_one(transform: Any) -> None:
    before = IMAGE.copy()
    results = []
    for _ in range(2):
        random.seed(7)
        results.append(transform(IMAGE))
    assert isinstance(results[0], mx.NDArray) or results[0] is IMAGE
    assert np.array_equal(*results)
    assert np.array_equal(IMAGE, before)
    assert pickle.loads(pickle.dumps(transform)) == transform
    with_rng = [transforms.Compose([transform])(IMAGE, rng=np.random.default_rng(4)) for _ in range(2)]
    assert np.array_equal(*with_rng)


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (transforms.Resize(10), (10, 10, 3)),
        (transforms.Resize((20, 10)), (10, 20, 3)),
        (transforms.Resize(20, keep_ratio=True), (20, 25, 3)),
        (transforms.CenterCrop((20, 10)), (10, 20, 3)),
        (transforms.CenterCrop(80), (80, 80, 3)),
        (transforms.CropResize(0, 0, 50, 40), (40, 50, 3)),
        (transforms.CropResize(5, 6, 10, 12, (4, 5)), (5, 4, 3)),
        (transforms.RandomResizedCrop((8, 9), (0.5, 1.0), (1.0, 1.0)), (9, 8, 3)),
        (transforms.ToTensor(), (3, 40, 50)),
    ],
)
def test_shapes(transform: Any, shape: tuple[int, ...]) -> None:
    assert transform(IMAGE).shape == shape


def test_batches() -> None:
    batch = np.stack([IMAGE, IMAGE[::-1]])
    assert np.array_equal(transforms.Resize(9)(batch)[1], transforms.Resize(9)(IMAGE[::-1]))
    assert transforms.CropResize(0, 0, 5, 6)(batch).shape == (2, 6, 5, 3)
    assert transforms.ToTensor()(batch).shape == (2, 3, 40, 50)


def test_numbers() -> None:
    tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5, 0.25, 0), (0.5, 1, 2))])(IMAGE)
    channels = IMAGE.astype(np.float32).transpose(2, 0, 1) / 255
    expected = [(channels[0] - 0.5) / 0.5, channels[1] - 0.25, channels[2] / 2]
    assert tensor.dtype == np.float32
    assert np.allclose(tensor, expected)
    assert np.array_equal(transforms.Normalize(0, 1)(IMAGE), IMAGE)
    assert np.array_equal(transforms.Normalize((1, 2, 3))(IMAGE), IMAGE - np.array([1, 2, 3], np.float32))
    assert transforms.Cast("int32")(IMAGE).dtype == np.int32


def test_colours() -> None:
    double = transforms.RandomBrightness(0).apply(IMAGE, 2.0)
    assert np.array_equal(double, np.minimum(IMAGE.astype(int) * 2, 255))
    grey = transforms.RandomSaturation(0).apply(IMAGE, 0.0)
    assert np.ptp(grey.astype(int), axis=2).max() == 0
    flat = transforms.RandomContrast(0).apply(IMAGE, 0.0)
    assert np.ptp(flat) == 0
    red = np.array([[[200, 50, 50]]], np.uint8)
    assert shifted_hue(red, 1 / 3).round().tolist() == [[[50, 200, 50]]]
    assert shifted_hue(red, 2 / 3).round().tolist() == [[[50, 50, 200]]]
    assert np.abs(shifted_hue(IMAGE, 1.0) - IMAGE).max() < 0.01
    assert np.array_equal(transforms.RandomLighting(0)(IMAGE), IMAGE)


def test_floats_go_beyond() -> None:
    bright = transforms.RandomBrightness(0).apply(IMAGE.astype(np.float32), 10.0)
    assert bright.max() > 255
    assert bright.dtype == np.float32


def test_flips_are_made_half_of_the_time() -> None:
    draws = [np.array_equal(transforms.RandomFlipLeftRight()(IMAGE), IMAGE) for _ in range(200)]
    assert 50 < sum(draws) < 150
    assert np.array_equal(transforms.RandomApply(transforms.CenterCrop(9), 0.0)(IMAGE), IMAGE)


def test_turning() -> None:
    tensor = transforms.ToTensor()(IMAGE[:, :40])
    assert np.array_equal(transforms.Rotate(0)(tensor), tensor)
    assert np.allclose(transforms.Rotate(90)(tensor), np.rot90(tensor, axes=(1, 2)), atol=1e-6)
    assert transforms.Rotate(45)(tensor)[:, 0, 0].tolist() == [0, 0, 0]
    assert transforms.Rotate(45, zoom_in=True)(tensor + 1).min() >= 1
    assert transforms.Rotate(45, zoom_out=True)(tensor).sum() < transforms.Rotate(45)(tensor).sum()
    batch = np.stack([tensor, tensor])
    assert np.array_equal(mx.image.imrotate(batch, [0, 90])[0], tensor)
    assert transforms.RandomRotation((10, 20))(batch).shape == batch.shape
    assert np.array_equal(transforms.RandomRotation((10, 20), rotate_with_proba=0)(tensor), tensor)
    with pytest.raises(TypeError, match="float32"):
        transforms.Rotate(3)(IMAGE)
    with pytest.raises(ValueError, match="both"):
        mx.image.imrotate(tensor, 3, True, True)
    with pytest.raises(ValueError, match="lower"):
        transforms.RandomRotation((20, 10))


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="is not inside"):
        transforms.CropResize(30, 0, 30, 10)(IMAGE)
    with pytest.raises(NotImplementedError, match="Block"):
        mx.gluon.Block()(1)


def test_in_a_loader(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.rec", {"image": "png"}) as writer:
        for number in range(6):
            writer.append({"image": picture(number)})
    steps: list[Any] = [transforms.RandomResizedCrop(8), transforms.RandomFlipLeftRight(), transforms.ToTensor()]
    batches = []
    for workers in (0, 3):
        dataset = bushel.open(tmp_path / "a.rec")
        loader = bushel.Loader(dataset, 6, seed=1, transforms={"image": steps}, threads=workers)
        batches.append(next(iter(loader))["image"])
    assert batches[0].shape == (6, 3, 8, 8)
    assert np.array_equal(*batches)
