"""Masks and boxes move as torchvision's `transforms.v2` moves them, by crops, resizing and flips that were drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bushel.transforms import Boxes, Mask, RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import plan_decode

torch = pytest.importorskip("torch")
try:
    torchvision = pytest.importorskip("torchvision")
    v2 = pytest.importorskip("torchvision.transforms.v2.functional")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
except RuntimeError as error:  # a torchvision that was built for another torch
    pytest.skip(f"torchvision does not fit the torch that is installed: {error}", allow_module_level=True)

WIDTH, HEIGHT = 60, 44
NEAREST: Any = torchvision.transforms.InterpolationMode.NEAREST_EXACT


def moved(value: Any, geometry: Any) -> Any:
    """Return what torchvision makes of a value by a geometry that Bushel drew."""
    left, top, right, bottom = geometry.box
    value = v2.crop(value, top, left, bottom - top, right - left)
    value = v2.resize(value, [geometry.scaled[1], geometry.scaled[0]], NEAREST)
    start, above, stop, below = geometry.window
    value = v2.crop(value, above, start, below - above, stop - start)
    return v2.horizontal_flip(value) if geometry.flip_horizontal else value


@pytest.mark.parametrize("seed", range(12))
def test_masks_and_boxes_are_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = plan_decode([RandomResizedCrop(32), RandomHorizontalFlip()])
    geometry = plan.geometry(WIDTH, HEIGHT, rng)
    mask = rng.integers(0, 255, (HEIGHT, WIDTH), np.uint8)
    corners = rng.uniform(0, (WIDTH, HEIGHT), (9, 2, 2))
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], 1).astype(np.float32)

    own = Mask("mask").follow({"mask": mask}, geometry, (WIDTH, HEIGHT))["mask"]
    np.testing.assert_array_equal(own, moved(tv_tensors.Mask(torch.tensor(mask)), geometry).numpy())

    given = tv_tensors.BoundingBoxes(torch.tensor(boxes), format="XYXY", canvas_size=(HEIGHT, WIDTH))
    theirs = v2.clamp_bounding_boxes(moved(given, geometry)).numpy()
    kept = (theirs[:, 2] > theirs[:, 0]) & (theirs[:, 3] > theirs[:, 1])
    sample = {"boxes": boxes, "classes": np.arange(9)}
    found = Boxes("boxes", rows=("classes",)).follow(sample, geometry, (WIDTH, HEIGHT))
    assert found["classes"].tolist() == np.flatnonzero(kept).tolist()
    np.testing.assert_allclose(found["boxes"], theirs[kept], atol=1e-3)
