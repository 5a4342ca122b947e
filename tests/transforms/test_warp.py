"""Rotations, affine maps and padding: as Pillow does them, and followed by masks and points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.kernels.jpegs import picture

from bushel.transforms import (
    CenterCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
from bushel.transforms.moves import Moves, grouped, moved_image
from bushel.transforms.warp import Warp, affine, rotation

IMAGE = picture(40, 30)
GREY = IMAGE[:, :, 1].copy()


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("angle", [0, 12.5, 45, 90, 180, 270, -33, 400])
@pytest.mark.parametrize("image", [IMAGE, GREY], ids=["rgb", "grey"])
def test_rotations_are_those_of_pillow(image: Any, angle: float, expand: bool) -> None:
    warp = rotation(angle, 40, 30, expand=expand, fill=7)
    fill = 7 if image.ndim == 2 else (7, 7, 7)
    expected = Image.fromarray(image).rotate(angle, Image.Resampling.BILINEAR, expand=expand, fillcolor=fill)
    assert warp.size == expected.size
    np.testing.assert_array_equal(warp.apply(image), np.asarray(expected))


def test_the_angle_is_drawn_between_its_bounds() -> None:
    fixed = RandomRotation((30, 30), fill=(1, 2, 3))(IMAGE, generator())
    np.testing.assert_array_equal(fixed, rotation(30, 40, 30, expand=False, fill=(1, 2, 3)).apply(IMAGE))
    assert (RandomRotation(20)(IMAGE, generator(1)) != RandomRotation(20)(IMAGE, generator(2))).any()
    assert RandomRotation(20, expand=True)(GREY, generator(1)).ndim == 2


def test_an_affine_map_that_only_shifts_moves_pixels() -> None:
    shifted = affine((40, 30), shift=(3, -2), fill=9).apply(IMAGE)
    np.testing.assert_array_equal(shifted[:-2, 3:], IMAGE[2:, :-3])
    assert (shifted[:, :3] == 9).all()
    assert (shifted[-2:] == 9).all()
    assert RandomAffine(0)(IMAGE, generator()).tolist() == IMAGE.tolist()


def test_the_determinant_of_an_affine_map_is_its_scale() -> None:
    a, b, _, d, e, _ = affine((40, 30), 30, (1, 2), 1.5, (10, -5)).matrix
    assert 1 / (a * e - b * d) == pytest.approx(1.5**2)
    around = affine((40, 30), 70, scale=1.3, centre=(4, 9)).points(np.array([[4.0, 9.0]]))
    np.testing.assert_allclose(around, [[4, 9]])


@given(st.integers(0, 2**32))
def test_masks_and_points_go_where_the_pixels_go(seed: int) -> None:
    """One pixel is set, and the map is inverted: the point of its centre is on the pixel that shows it."""
    rng = generator(seed)
    step = RandomAffine(40, (0.2, 0.2), (1.0, 2.0), (-10, 10, -10, 10)).step(40, 30, rng)
    mask = np.zeros((30, 40), np.int64)
    row, column = int(rng.integers(30)), int(rng.integers(40))
    mask[row, column] = 1_000_000
    found = step.nearest(mask, fill=-1)
    assert found.shape == (30, 40)
    [(x, y)] = step.points(np.array([[column + 0.5, row + 0.5]]))
    rows, columns = np.nonzero(found == 1_000_000)
    if 1 < x < 39 and 1 < y < 29:  # enlarged, so at least one centre falls on it
        assert np.hypot(columns + 0.5 - x, rows + 0.5 - y).min() < 1.5
    shown = step.apply(np.where(mask > 0, 255, 0).astype(np.uint8))
    assert (shown[found > 0] > 0).all()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_padding_is_that_of_numpy(mode: Any) -> None:
    options: dict[str, Any] = {"constant_values": 5} if mode == "constant" else {}
    widths = [(2, 4), (1, 3)]
    pad = Pad((1, 2, 3, 4), 5, mode)
    np.testing.assert_array_equal(pad(IMAGE), np.pad(IMAGE, [*widths, (0, 0)], mode=mode, **options))
    np.testing.assert_array_equal(pad(GREY), np.pad(GREY, widths, mode=mode, **options))
    step = pad.step(40, 30)
    assert step.size == (44, 36)
    wide = np.arange(1200, dtype=np.int32).reshape(30, 40)
    options = {"constant_values": 255} if mode == "constant" else {}
    np.testing.assert_array_equal(step.nearest(wide, 255), np.pad(wide, widths, mode=mode, **options))
    np.testing.assert_array_equal(step.points(np.array([[0.0, 0.5]])), [[1, 2.5]])


def test_forms_of_padding() -> None:
    assert Pad(3)(IMAGE).shape == (36, 46, 3)
    assert Pad((3, 1))(IMAGE).shape == (32, 46, 3)
    assert Pad(1, (1, 2, 3))(IMAGE)[0, 0].tolist() == [1, 2, 3]


def test_wrong_arguments() -> None:
    wrong: list[Any] = [
        lambda: Pad(-1),
        lambda: Pad((1, 2, 3)),  # type: ignore[arg-type]
        lambda: Pad(1, mode="wrap"),  # type: ignore[arg-type]
        lambda: Pad(1, 256),
        lambda: RandomRotation((5, -5)),
        lambda: RandomRotation(-5),
        lambda: RandomRotation(5, fill=(1, -1, 3)),
        lambda: RandomAffine(0, (0.5, 2)),
        lambda: RandomAffine(0, scale=(0, 1)),
        lambda: RandomAffine(0, shear=(1, 2, 3)),  # type: ignore[arg-type]
        lambda: Pad(1, (1, 2))(IMAGE),
    ]
    for make in wrong:
        with pytest.raises(ValueError, match=r"invalid|unknown|does not fit"):
            make()
    with pytest.raises(TypeError, match="not an image"):
        RandomRotation(5)(IMAGE.astype(np.float32), generator())


AFTER: list[Any] = [
    [CenterCrop((11, 13))],
    [RandomHorizontalFlip(1)],
    [RandomVerticalFlip(1), RandomCrop(9), RandomHorizontalFlip(1)],
    [RandomResizedCrop(16), RandomHorizontalFlip(1)],
    [RandomCrop(20), Resize(10), CenterCrop(8), RandomVerticalFlip(1)],
    [RandomHorizontalFlip(1), Pad(3), RandomRotation(50), CenterCrop(12)],
]


@pytest.mark.parametrize("after", AFTER, ids=str)
@given(seed=st.integers(0, 2**32))
def test_what_is_combined_gives_the_pixels_of_one_transform_after_another(after: list[Any], seed: int) -> None:
    transforms = [RandomRotation(40), *after]
    rng = generator(seed)
    expected = IMAGE
    for transform in transforms:
        random = not isinstance(transform, CenterCrop | Resize | Pad)
        expected = transform(expected, rng) if random else transform(expected)
    [moves] = grouped(transforms)
    assert isinstance(moves, Moves)
    found = moves(IMAGE, generator(seed))
    assert found.shape == expected.shape
    difference = np.abs(found.astype(int) - expected)
    assert difference.max() <= 1 or (difference > 1).mean() < 0.02  # where rounding takes a place over the edge


def test_a_crop_after_a_rotation_is_part_of_it() -> None:
    stages = Moves((RandomRotation(10), RandomCrop(8), RandomHorizontalFlip(1))).draw(40, 30, generator())
    [warp] = stages
    assert isinstance(warp, Warp)
    assert warp.size == (8, 8)
    assert len(Moves((RandomRotation(10), RandomResizedCrop(8))).draw(40, 30, generator())) == 2
    assert [type(one) for one in grouped([RandomCrop(8), len, Pad(1), CenterCrop(4)])] == [
        RandomCrop,
        type(len),
        Moves,
    ]


def test_frames_are_moved_one_by_one() -> None:
    warp = rotation(20, 40, 30, expand=False, fill=0)
    for frame in moved_image([IMAGE, IMAGE], warp):
        np.testing.assert_array_equal(frame, warp.apply(IMAGE))


def test_images_of_two_channels() -> None:
    warp = rotation(20, 40, 30, expand=False, fill=3)
    both = warp.apply(np.ascontiguousarray(IMAGE[:, :, :2]))
    np.testing.assert_array_equal(both, warp.apply(IMAGE)[:, :, :2])
