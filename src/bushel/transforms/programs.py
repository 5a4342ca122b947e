"""Lists of transforms whose random numbers a kernel can draw: the steps that `bushel.kernels.draw_crops` takes.

The kernel gives the geometry that the `steps` of the transforms give, from the same random numbers. A list with
any other transform has no program, and its geometries are drawn by `DecodePlan.geometry`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

from bushel.transforms.flips import RandomHorizontalFlip, RandomVerticalFlip
from bushel.transforms.spatial import CenterCrop, RandomCrop, RandomResizedCrop, Resize, Spatial

Program: TypeAlias = tuple[tuple[str | float, ...], ...]
"""The kind and the numbers of each transform."""

_MOST_PIXELS = 1 << 24
_MOST_EXACT = 1 << 53


def program_of(transforms: Iterable[Spatial]) -> Program | None:
    """Return the steps of transforms for the kernel, or None if one of them has to be asked for each image."""
    steps = tuple(map(_step, transforms))
    if None in steps or not steps:
        return None
    return tuple(step for step in steps if step is not None)


def _step(transform: Spatial) -> tuple[str | float, ...] | None:
    kind: Any = type(transform)  # a subclass may do anything
    if isinstance(transform, RandomHorizontalFlip | RandomVerticalFlip) and kind in _FLIPS:
        return (_FLIPS[kind], float(transform.p)) if _are_plain(transform.p) else None
    if isinstance(transform, Resize | CenterCrop | RandomCrop | RandomResizedCrop) and kind in _SIZES:
        size: Any = transform.size
        sides = (size, size) if type(size) is int else tuple(size) if isinstance(size, tuple | list) else ()
        if len(sides) != 2 or not all(type(side) is int and side <= _MOST_PIXELS for side in sides):
            return None
        if kind is Resize and type(size) is int:
            return ("resize_shorter", size)
        if isinstance(transform, RandomResizedCrop):
            if not _are_plain(*transform.scale, *transform.ratio):
                return None
            numbers = (*map(float, (*transform.scale, *transform.ratio)), *map(math.log, transform.ratio))
            return ("random_resized_crop", *sides, *numbers)
        return (_SIZES[kind], *sides)
    return None


_FLIPS = {RandomHorizontalFlip: "flip_x", RandomVerticalFlip: "flip_y"}
_SIZES = {
    Resize: "resize",
    CenterCrop: "center_crop",
    RandomCrop: "random_crop",
    RandomResizedCrop: "random_resized_crop",
}


def _are_plain(*numbers: object) -> bool:
    """Return whether numbers are floats, or ints that a float holds. Other types have arithmetic of their own."""
    return all(type(number) is float or (type(number) is int and abs(number) < _MOST_EXACT) for number in numbers)
