"""Crops that a kernel draws equal the crops that the transforms draw one by one, bit for bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.kernels.jpegs import picture, save

from bushel.kernels import draw_crops
from bushel.loader.decode.sample_transforms import SampleDraws, generator
from bushel.transforms import (
    CenterCrop,
    Compose,
    Lambda,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from bushel.transforms.fused import geometry_rows, plan_decode, program_of
from bushel.transforms.spatial import Still

FLIPS = [RandomHorizontalFlip(), RandomVerticalFlip(0.3)]
LISTS: list[list[Any]] = [
    [RandomResizedCrop(224), RandomHorizontalFlip()],
    [RandomHorizontalFlip(0.9), RandomResizedCrop((20, 31), (0.01, 0.02), (0.2, 7)), RandomVerticalFlip(0)],
    [RandomResizedCrop(8, scale=(1, 1), ratio=(1, 3)), RandomCrop(5), *FLIPS],
    [Resize(256), CenterCrop(224)],
    [Resize((33, 20)), RandomCrop((3, 20)), RandomHorizontalFlip(1)],
    [*FLIPS, CenterCrop((7, 6)), RandomCrop(2), Resize((9, 9)), *FLIPS, RandomCrop((4, 8)), CenterCrop(1)],
    [RandomCrop(30), *FLIPS],
    [Resize(7), *FLIPS, CenterCrop(7)],
]
SIDES = np.random.default_rng(0).integers(1, 2000, (150, 2)).tolist()
SIZES = [(1, 1), (1, 900), (65535, 1), (65535, 65535), (40, 3), (7, 7), (20, 33), (500, 375), (375, 500), *SIDES]
HEADER = save(picture(8, 8))


def jpeg(width: int, height: int) -> bytes:
    """Return the beginning of a JPEG of this size."""
    frame = HEADER.index(b"\xff\xc0") + 5
    return HEADER[:frame] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + HEADER[frame + 4 :]


def by_calls(transforms: list[Any], sizes: list[Any], words: tuple[int, int], samples: npt.NDArray[np.int64]) -> Any:
    """Return the row and the number of random numbers of each image; None for each that has no geometry."""
    found: list[Any] = []
    for (width, height), sample in zip(sizes, samples.tolist(), strict=True):
        rng = Counting(*words, sample)
        try:
            geometry = plan_decode(transforms).geometry(width, height, rng)  # type: ignore[arg-type]
        except ValueError:
            found.append(None)
        else:
            found.append((geometry_rows([geometry])[0].tolist(), rng.drawn))
    return found


class Counting:
    """A generator that counts the numbers that are drawn from it."""

    def __init__(self, *words: int) -> None:
        self._rng, self.drawn = generator(*words), 0

    def random(self, count: int | None = None) -> Any:
        self.drawn += 1 if count is None else count
        return self._rng.random(count)


@pytest.mark.parametrize("transforms", LISTS, ids=str)
@pytest.mark.parametrize("words", [(0, 0), (5, 3), (2**64 - 1, 2**40)])
def test_the_kernel_draws_what_the_calls_draw(transforms: list[Any], words: tuple[int, int]) -> None:
    samples = np.random.default_rng(1).integers(0, 2**48, len(SIZES))
    expected = by_calls(transforms, SIZES, words, samples)
    program = program_of(plan_decode(transforms).spatial)
    assert program is not None
    drawn = np.zeros(len(SIZES), np.int64)
    rows, left = draw_crops([jpeg(*size) for size in SIZES], program, *words, samples, drawn)
    assert left == [number for number, one in enumerate(expected) if one is None]
    for number, one in enumerate(expected):
        assert (rows[number].tolist(), drawn[number]) == (one or ([0] * 10, 0))
    assert None not in expected or len(left) < len(SIZES)


def test_images_of_other_kinds_are_left_to_the_caller() -> None:
    png = b"\x89PNG\r\n\x1a\n" + HEADER
    datas: list[Any] = [HEADER, png, b"", b"\xff\xd8", HEADER[:20], memoryview(HEADER)]
    program = program_of([RandomResizedCrop(4)])
    assert program is not None
    drawn = np.array([0, 0, 0, 0, 0, -1], np.int64)
    rows, left = draw_crops(datas, program, 0, 0, np.arange(6), drawn)
    assert left == [1, 2, 3, 4, 5]
    assert drawn.tolist() == [4, 0, 0, 0, 0, -1]
    assert not rows[1:].any()


def test_the_orientation_exchanges_the_sides() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = save(picture(60, 20), exif=exif)
    program = program_of([CenterCrop((40, 10))])
    assert program is not None
    args = program, 0, 0, np.zeros(1, np.int64), np.zeros(1, np.int64)
    assert draw_crops([data], *args)[1] == [0]
    assert draw_crops([data], *args, orient=True)[0][0, :4].tolist() == [5, 10, 15, 50]


def test_a_generator_goes_on_after_the_kernel() -> None:
    draws = SampleDraws(3, 1, np.array([7, 8, 9]), random=True)
    program = program_of([RandomResizedCrop(4), RandomHorizontalFlip()])
    assert program is not None
    first, _ = draws.crops([0, 1, 2], [HEADER] * 3, program, exif_rotate=False)
    again, left = draws.crops([1, 2], [HEADER] * 2, program, exif_rotate=False)
    assert left == []
    for at, sample in enumerate((7, 8, 9)):
        rng = generator(3, 1, sample)
        plan = plan_decode([RandomResizedCrop(4), RandomHorizontalFlip()])
        assert first[at].tolist() == geometry_rows([plan.geometry(8, 8, rng)])[0].tolist()
        if at:
            assert again[at - 1].tolist() == geometry_rows([plan.geometry(8, 8, rng)])[0].tolist()
        own = draws[at]
        assert own is not None
        assert (
            own.bit_generator.state["state"]["counter"].tolist() == rng.bit_generator.state["state"]["counter"].tolist()
        )
        assert own.random() == rng.random()
    assert draws.crops([0, 2], [HEADER] * 2, program, exif_rotate=False)[1] == [0, 1]
    assert SampleDraws(3, 1, np.arange(2), random=False)[0] is None


class LeftHalf:
    """A transform of a user."""

    resizes, output = False, None

    def steps(self, width: int, height: int, rng: Any) -> Any:
        return ()

    def __call__(self, image: Any, rng: Any = None) -> Any:
        return Still.__call__(self, image)


class Mine(RandomCrop):
    """A subclass may do anything."""


@pytest.mark.parametrize(
    "transform",
    [
        LeftHalf(),
        Mine(3),
        RandomHorizontalFlip(Fraction(1, 2)),  # type: ignore[arg-type]
        RandomResizedCrop(8, ratio=(1, 2**60)),
        RandomCrop((3, 2**25)),
    ],
)
def test_other_transforms_have_no_program(transform: Any) -> None:
    assert program_of([Resize(8), transform]) is None


def test_numbers_of_numpy_have_the_program_of_pythons() -> None:
    eight, half, three = cast("Any", (np.int64(8), np.float64(0.5), np.int64(3)))
    assert program_of([Resize(eight), RandomHorizontalFlip(half), CenterCrop(three)]) == program_of(
        [Resize(8), RandomHorizontalFlip(0.5), CenterCrop(3)]
    )


def test_plans_have_the_program_of_their_transforms() -> None:
    assert plan_decode([Compose([Resize(8), CenterCrop(8)]), Lambda(len)]).program == (
        ("resize_shorter", 8),
        ("center_crop", 8, 8),
    )
    assert plan_decode([Lambda(len)]).program is None


@pytest.mark.parametrize(
    "steps",
    [
        [("turn", 1)],
        [("resize", 1)],
        [("resize", 0, 4)],
        [("resize", 1, 2**24 + 1)],
        [("flip_x",)],
        [()],
        [("random_resized_crop", 3, 3)],
    ],
)
def test_wrong_steps_are_refused(steps: Any) -> None:
    with pytest.raises(ValueError, match="steps: "):
        draw_crops([HEADER], steps, 0, 0, np.zeros(1, np.int64), np.zeros(1, np.int64))


def test_wrong_arrays_are_refused() -> None:
    steps = [("flip_x", 0.5)]
    with pytest.raises(ValueError, match="a number for each image"):
        draw_crops([HEADER], steps, 0, 0, np.zeros(2, np.int64), np.zeros(1, np.int64))
    with pytest.raises(TypeError, match="samples: expected a contiguous"):
        draw_crops([HEADER], steps, 0, 0, np.zeros(1, np.int32), np.zeros(1, np.int64))


def test_samples_with_a_generator_are_left_to_the_caller() -> None:
    draws = SampleDraws(3, 1, np.array([7, 8, 9])[::-1], random=True)
    rng = draws[1]
    assert rng is not None
    assert rng.random() == generator(3, 1, 8).random()
    rows, left = draws.crops([0, 1, 2], [HEADER] * 3, (("random_crop", 3, 2),), exif_rotate=False)
    assert left == [1]
    for at, sample in ((0, 9), (2, 7)):
        geometry = plan_decode([RandomCrop((3, 2))]).geometry(8, 8, generator(3, 1, sample))
        assert rows[at].tolist() == geometry_rows([geometry])[0].tolist()
    assert draws[1] is rng
