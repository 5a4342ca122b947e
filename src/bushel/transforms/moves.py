"""Consecutive geometric transforms of decoded images, which are drawn first and then combined.

Transforms that can be fused into decoding are a `Geometry` (see `bushel.transforms.fused`).
Everything after it, such as a rotation and the crop that follows it, is a list of stages: a crop or
flip after a `Warp` becomes part of the warp, so that no pixel is computed that a crop drops, and
every pixel is interpolated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import F32, Array, Bools

from .geometry import Crop, Flip, Geometry, described
from .spatial import Spatial
from .values import Transform, frozen_transform
from .warp import Padding, Warp, Warping

Stage: TypeAlias = Geometry | Warp | Padding
"""A geometric step: the source of each pixel of the result."""
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
"""Left, top, right, bottom; left, top, width, height; or centre, width, height."""


class Moves(Struct, frozen=True):
    """Transforms of places that follow each other, as one transform. It draws what they would draw, in their order."""

    transforms: tuple[Spatial | Warping, ...]

    def draw(self, width: int, height: int, rng: np.random.Generator | None) -> tuple[Stage, ...]:
        """Return the stages for an image of this size. Raise ValueError if the image is too small for a crop."""
        stages: list[Stage] = []
        size = (width, height)
        for transform in self.transforms:
            stage: Stage
            if isinstance(transform, Warping):
                stage = transform.step(*size, rng)
            else:
                stage = Geometry.whole(*size)
                for step in transform.steps(*size, rng):
                    stage = stage.then(step)
            size = stage.size
            stages += _folded(stages.pop(), stage) if stages else [stage]
        return tuple(stages)

    def __call__(self, image: Any, rng: np.random.Generator) -> Any:
        """Transform an image: uint8, HxW or HxWxC."""
        for stage in self.draw(image.shape[1], image.shape[0], rng):
            image = moved_image(image, stage)
        return image


def grouped(transforms: Sequence[Transform]) -> list[Transform]:
    """Return the transforms, with neighbouring geometric ones joined if one of them cannot be fused."""
    joined: list[Transform] = []
    run: list[Any] = []
    for transform in [*transforms, None]:
        if isinstance(transform, Spatial | Warping):
            run.append(transform)
            continue
        if any(isinstance(move, Warping) for move in run):
            joined.append(Moves(tuple(run)))
        else:
            joined += run
        run = []
        if transform is not None:
            joined.append(transform)
    return joined


def _folded(before: Stage, after: Stage) -> list[Stage]:
    """Return two stages. If the first one is a warp, crop and flips of the second become part of it."""
    if isinstance(before, Geometry) and isinstance(after, Geometry) and not after.resizes:
        return [_cropped(before, after)]
    if not isinstance(before, Warp) or not isinstance(after, Geometry):
        return [before, after]
    left, top, right, bottom = after.box
    width, height = right - left, bottom - top
    a, b, c, d, e, f = before.matrix
    # place x of the result is place left + x of the warp, or right - x if the result is mirrored
    crops = not after.resizes
    x_sign, x_start = (-1, right) if crops and after.flip_horizontal else (1, left)
    y_sign, y_start = (-1, bottom) if crops and after.flip_vertical else (1, top)
    matrix = (
        a * x_sign,
        b * y_sign,
        a * x_start + b * y_start + c,
        d * x_sign,
        e * y_sign,
        d * x_start + e * y_start + f,
    )
    warp = replace(before, size=(width, height), matrix=matrix)
    if after.resizes:
        return [warp, replace(after, box=(0, 0, width, height))]
    return [warp]


def _cropped(before: Geometry, after: Geometry) -> Geometry:
    """Return a geometry followed by one that only crops and flips."""
    left, top, right, bottom = after.box
    geometry = before.then(Crop(left, top, right - left, bottom - top))
    for horizontal, flipped in ((True, after.flip_horizontal), (False, after.flip_vertical)):
        if flipped:
            geometry = geometry.then(Flip(horizontal))
    return geometry


def moved_image(image: Any, stage: Stage) -> Any:
    """Return a decoded image, or a list of them, after a stage.

    Raises:
        ValueError: An image is resized that is not uint8.
    """
    if isinstance(image, list):
        return [stage.apply(frame) for frame in image]
    return stage.apply(image)


@frozen_transform
class Mask:
    """A field of values per pixel, such as classes, that moves with an image.

    It is resampled by the nearest neighbour of each pixel's centre, as Pillow does, so its values
    stay exact. A centre that falls between two pixels takes the right or lower one.

    Attributes:
        field: The field: an array HxW or HxWxC of any dtype, of the size of the image; or a list of
            such arrays.
        fill: Value of pixels that a rotation, shift or padding leaves without a source, such as the
            class to ignore.

    Examples:
        >>> from bushel.transforms import Mask, RandomResizedCrop
        >>> samples = [{"image": np.zeros((48, 64, 3), np.uint8), "mask": np.eye(48, 64, dtype=np.uint8)}] * 4
        >>> with bushel.Writer("masks.tar", {"image": "jpg", "mask": "png"}) as writer:
        ...     numbers = [writer.append(sample) for sample in samples]
        >>> transforms = {("image", Mask("mask")): [RandomResizedCrop(32)]}
        >>> batch = bushel.Loader(bushel.open("masks.tar"), 4, transforms=transforms).peek()
        >>> batch["image"].shape, batch["mask"].shape
        ((4, 32, 32, 3), (4, 32, 32))
    """

    field: str
    fill: int = 0

    def follow(
        self, sample: Mapping[str, Any], geometry: Stage, size: tuple[int, int]
    ) -> dict[str, Any]:
        """Return the fields of a sample after a geometry.

        Args:
            sample: The sample.
            geometry: The geometry of its image, or a further stage.
            size: Width and height of its image before.

        Raises:
            ValueError: A mask has another size than the image.
        """
        value = sample[self.field]
        if isinstance(value, list):
            return {self.field: [self._moved(element, geometry, size) for element in value]}
        return {self.field: self._moved(value, geometry, size)}

    def _moved(self, mask: Any, geometry: Stage, size: tuple[int, int]) -> Array:
        if (
            not isinstance(mask, np.ndarray)
            or mask.ndim not in (2, 3)
            or mask.shape[:2] != size[::-1]
        ):
            raise ValueError(
                f"the mask {self.field!r} is {described(mask)}, but its image is {size[0]}x{size[1]}"
            )
        return geometry.nearest(mask, self.fill)


@frozen_transform
class Boxes:
    """A field of boxes that move with an image. Boxes are clipped to the image; those without area are dropped.

    Attributes:
        field: The field: numbers (boxes, 4), an array or a list of lists. It becomes a float32
            array.
        format: The meaning of the four numbers: `"xyxy"`, `"xywh"` or `"cxcywh"`.
        relative: Whether they are fractions of the image's width and height. If not, they are
            pixels.
        rows: Fields with an entry for each box, arrays or lists, such as `("classes",)`: entries of
            dropped boxes are dropped, too.

    Examples:
        >>> from bushel.transforms import Boxes, CenterCrop
        >>> from bushel.transforms.fused import plan_decode
        >>> boxes = Boxes("boxes", rows=("classes",))
        >>> sample = {"boxes": [[0, 0, 8, 8], [20, 12, 44, 36]], "classes": [3, 5]}
        >>> boxes.follow(sample, plan_decode([CenterCrop(32)]).geometry(64, 48), (64, 48))
        {'boxes': array([[ 4.,  4., 28., 28.]], dtype=float32), 'classes': [5]}
    """

    field: str
    format: BoxFormat = "xyxy"
    relative: bool = False
    rows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in get_args(BoxFormat):
            raise ValueError(
                f"unknown format {self.format!r} of boxes: "
                f"expected {', '.join(get_args(BoxFormat))}"
            )
        object.__setattr__(
            self, "rows", (self.rows,) if isinstance(self.rows, str) else tuple(self.rows)
        )

    def follow(
        self, sample: Mapping[str, Any], geometry: Stage, size: tuple[int, int]
    ) -> dict[str, Any]:
        """Return the fields of a sample after a geometry; see `Mask.follow`.

        Raises:
            ValueError: The boxes are not numbers (boxes, 4), or a field of `rows` has not one entry
                for each.
        """
        boxes = np.asarray(sample[self.field])
        if not boxes.size:
            boxes = np.zeros((0, 4), np.float32)
        if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype.kind not in "iuf":
            raise _not_numbers(boxes, self.field, "(rows, 4)")
        boxes = boxes.astype(np.float32)
        for name in self.rows:
            if len(sample[name]) != len(boxes):
                raise ValueError(
                    f"the field {name!r} has {len(sample[name])} rows for {len(boxes)} boxes"
                )
        first, second = boxes[:, :2], boxes[:, 2:]
        if self.format == "xywh":
            second = first + second
        elif self.format == "cxcywh":
            first, second = first - second / 2, first + second / 2
        corners = np.concatenate([first, second], 1)[:, [[0, 1], [2, 3], [0, 3], [2, 1]]]
        scale = size if self.relative else None
        corners = _moved(corners.reshape(-1, 2), geometry, scale).reshape(-1, 4, 2)
        limits = np.array(geometry.size, np.float32)
        low: Array = np.clip(corners.min(axis=1), 0, limits)
        high: Array = np.clip(corners.max(axis=1), 0, limits)
        remaining: Bools = np.all(high > low, axis=1)
        low, high = low[remaining], high[remaining]
        if self.relative:
            low, high = (low / limits).astype(np.float32), (high / limits).astype(np.float32)
        if self.format == "xywh":
            high = high - low
        elif self.format == "cxcywh":
            low, high = (low + high) / 2, high - low
        moved = np.concatenate([low, high], 1, dtype=np.float32)
        return {self.field: moved} | {name: _kept(sample[name], remaining) for name in self.rows}


@frozen_transform
class Points:
    """A field of points that move with an image, such as key points. Points that leave the image are kept.

    Like the corners of boxes, they are places between pixels: x = 0 is the left border of the
    image, and the centre of its first pixel is at 0.5. torchvision and Albumentations flip key
    points by the numbers of pixels: they are then one pixel farther to the left, or up.

    Attributes:
        field: The field: numbers (points, 2 or more), or (objects, points, 2 or more), x and y
            first; further numbers, such as visibility, stay. It becomes a float32 array.
            `Boxes("boxes", rows=("keypoints",))` in the same tuple drops the points of boxes that
            are dropped.
        relative: Whether x and y are fractions of the image's width and height. If not, they are
            pixels.
        columns: What follows the number of points in the shape of an empty list, such as 3, or (17,
            3) for 17 points per object. An empty array keeps its own.

    Examples:
        >>> from bushel.transforms import CenterCrop, Points
        >>> from bushel.transforms.fused import plan_decode
        >>> geometry = plan_decode([CenterCrop(32)]).geometry(64, 48)
        >>> Points("nose").follow({"nose": [[20, 12, 1]]}, geometry, (64, 48))
        {'nose': array([[4., 4., 1.]], dtype=float32)}
    """

    field: str
    relative: bool = False
    columns: int | tuple[int, ...] = 2

    def follow(
        self, sample: Mapping[str, Any], geometry: Stage, size: tuple[int, int]
    ) -> dict[str, Any]:
        """Return the fields of a sample after a geometry; see `Mask.follow`.

        Raises:
            ValueError: The points are not numbers (points, 2 or more) or (objects, points, 2 or
                more).
        """
        points = np.array(sample[self.field])
        if points.ndim < 2 and not points.size:
            points = np.zeros((0, *np.atleast_1d(self.columns)), np.float32)
        if points.ndim not in (2, 3) or points.shape[-1] < 2 or points.dtype.kind not in "iuf":
            raise _not_numbers(
                points, self.field, "(points, 2 or more) or (objects, points, 2 or more)"
            )
        points = points.astype(np.float32)
        places = points[..., :2].reshape(-1, 2)
        moved = _moved(places, geometry, size if self.relative else None)
        if self.relative:
            moved /= np.array(geometry.size, np.float32)
        points[..., :2] = moved.reshape(*points.shape[:-1], 2)
        return {self.field: points}


Follower: TypeAlias = Mask | Boxes | Points


def _moved(points: F32, stage: Stage, relative_to: tuple[int, int] | None) -> F32:
    """Return x and y after a stage, in pixels; given in fractions of a size, or in pixels."""
    places = points.astype(np.float64)
    if relative_to is not None:
        places = places * relative_to
    return stage.points(places).astype(np.float32)


def _not_numbers(array: Array, field: str, expected: str) -> ValueError:
    return ValueError(f"the field {field!r} is {described(array)}: expected numbers {expected}")


def _kept(rows: Any, kept: Bools) -> Any:
    if isinstance(rows, np.ndarray):
        return rows[kept]
    return [row for row, keep in zip(rows, kept.tolist(), strict=True) if keep]


def names_of(key: Sequence[str | Follower]) -> tuple[str, ...]:
    """Return the fields that a tuple of `transforms=` names. Points that are rows of boxes are named once."""
    points = {follower.field for follower in key if isinstance(follower, Points)}
    names: list[str] = []
    for member in key:
        rows = member.rows if isinstance(member, Boxes) else ()
        names += [
            member if isinstance(member, str) else member.field,
            *(name for name in rows if name not in points),
        ]
    return tuple(names)
