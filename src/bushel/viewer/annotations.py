"""Boxes, polygons and key points of any common layout as shapes on a picture. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from bushel._runtime.arrays import F64, Bools

FORMS = ("xyxy", "xywh", "cxcywh")
"""The meanings of the four numbers of a box, in the words of `bushel.transforms.Boxes`."""
_BOX = ("bbox", "box", "bboxes", "boxes")
_CLASS = (
    "category_name",
    "class_name",
    "label_name",
    "name",
    "category",
    "categories",
    "category_id",
    "category_ids",
)
_CLASSES = (*_CLASS, "label", "labels", "class", "classes", "class_id")
_SCORE = ("score", "scores", "confidence")
_POLYGON = ("segmentation", "polygon", "polygons")
_POINTS = ("keypoints", "landmarks", "points")
_CORNERS = (
    ("xmin", "ymin", "xmax", "ymax"),
    ("x1", "y1", "x2", "y2"),
    ("left", "top", "right", "bottom"),
)
_SIZED = (("x", "y", "width", "height"), ("x", "y", "w", "h"), ("left", "top", "width", "height"))
_MOST = 500  # shapes of one value that are drawn


class Form(Struct, frozen=True):
    """The meaning of the numbers of a field."""

    box: str = "xyxy"  # one of `FORMS`
    # whether they are fractions of the width and height of the picture; if not, they are pixels
    relative: bool = False
    guessed: bool = False  # whether that was inferred from the values

    def __str__(self) -> str:
        return f"{self.box}, {'relative' if self.relative else 'pixels'}"


class Shape(Struct, frozen=True):
    """A shape on a picture."""

    kind: str  # `box`, `polygon` or `points`
    # numbers (points, 2), fractions of the width and height of the picture: of a box, its two
    # corners
    places: F64
    name: int | str | None = None  # its class: a number, a text, or None
    score: float | None = None
    seen: Sequence[bool] = field(default=())  # whether each key point is visible


def shapes_of(
    value: Any, form: Form, size: tuple[int, int], *, points: bool = False
) -> list[Shape]:
    """Return the shapes of a decoded value. A value without a known layout has no shapes.

    Args:
        value: An array (boxes, 4) or lists, a list of mappings such as COCO's annotations, or a
            mapping of lists.
        form: How its numbers are to be read.
        size: Width and height of the picture in pixels.
        points: Whether it holds key points: an array (points, 2), (points, 3) or with one more axis
            in front.
    """
    scale = np.array((1.0, 1.0) if form.relative else size, np.float64).clip(min=1e-9)
    if points and (several := _points(value)) is not None:
        return [
            Shape("points", points_of_shape[:, :2] / scale, seen=_seen(points_of_shape))
            for points_of_shape in several[:_MOST]
        ]
    shapes: list[Shape] = []
    for item in _items(value)[:_MOST]:
        shapes += _shapes_of_item(item, form, scale)
    return shapes


def box_numbers(value: Any) -> F64:
    """Return the four numbers of each box of a value that a `Form` applies to: (boxes, 4)."""
    boxes = [
        box for item in _items(value)[:_MOST] if (box := _four(_first(item, _BOX))) is not None
    ]
    return np.array(boxes, np.float64).reshape(-1, 4)


def guessed_form(boxes: F64, sizes: F64, *, usual: str) -> Form:
    """Guess the meaning of the numbers of boxes.

    Args:
        boxes: (boxes, 4).
        sizes: Width and height in pixels of the picture of each box, (boxes, 2).
        usual: The form to prefer among those that suit.
    """
    if not len(boxes):
        return Form(usual, guessed=True)
    relative = bool(boxes.max() <= 1.0 + 1e-3 and boxes.min() >= -1e-3)
    limits = np.full_like(sizes, 1.0) if relative else sizes
    slack = 0.01 * limits + (0.0 if relative else 1.0)
    first, second = boxes[:, :2], boxes[:, 2:]
    share = {
        "xyxy": np.mean(np.all((second >= first) & (second <= limits + slack), 1)),
        "xywh": np.mean(np.all(first + second <= limits + slack, 1)),
        "cxcywh": np.mean(
            np.all((first - second / 2 >= -slack) & (first + second / 2 <= limits + slack), 1)
            if relative
            else 0.0
        ),
    }
    order = sorted(FORMS, key=lambda form: form != usual)
    return Form(max(order, key=lambda form: share[form]), relative, guessed=True)


def _items(value: Any) -> list[Mapping[str, Any]]:
    """Return annotations as mappings, one for each object."""
    if isinstance(value, Mapping):
        for name in ("annotations", "objects", "detections"):
            if name in value:
                return _items(value[name])
        if (boxes := _first(value, _BOX)) is not None and _four(boxes) is None:
            return [
                dict(zip(("bbox", "category", "score"), row, strict=True))
                for row in _by_rows(value, boxes)
            ]
        return [value]
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf" or value.ndim == 0:
            return []
        if value.ndim > 1:
            value = value.reshape(-1, value.shape[-1])
        else:
            value = value[None]
    if not isinstance(value, list | tuple | np.ndarray):
        return []
    objects: list[Mapping[str, Any]] = []
    if _four(value) is not None:
        value = [value]
    for annotation in value:
        if isinstance(annotation, Mapping):
            objects.append(annotation)
        elif (
            (numbers := _array(annotation)) is not None and numbers.ndim == 1 and len(numbers) >= 4
        ):
            objects.append({"bbox": numbers[:4]} | _rest(numbers[4:]))
    return objects


def _by_rows(value: Mapping[str, Any], boxes: Any) -> list[tuple[Any, Any, Any]]:
    """Return boxes, classes and scores that are lists beside each other."""
    if not isinstance(boxes, list | tuple | np.ndarray):
        return []
    beside = [_first(value, names) for names in (_CLASSES, _SCORE)]
    columns = [
        column if _length(column) == len(boxes) else [None] * len(boxes) for column in beside
    ]
    return list(zip(boxes, *columns, strict=True))


def _rest(numbers: F64) -> dict[str, Any]:
    """Return class and score among the numbers after a box: score and class, or one of them, a class if it is whole."""
    if len(numbers) >= 2:
        return {"score": float(numbers[0]), "category": float(numbers[1])}
    if len(numbers) == 1:
        return {"category" if numbers[0] == np.floor(numbers[0]) else "score": float(numbers[0])}
    return {}


def _shapes_of_item(item: Mapping[str, Any], form: Form, scale: F64) -> list[Shape]:
    name, score = _name(_first(item, _CLASSES)), _score(_first(item, _SCORE))
    shapes = []
    if (corners := _corners(item, form)) is not None:
        shapes.append(Shape("box", corners / scale, name, score))
    polygons = _first(item, _POLYGON)
    if not isinstance(polygons, list | tuple):
        polygons = []
    elif polygons and not isinstance(polygons[0], list | tuple | np.ndarray):
        polygons = [polygons]
    shapes += [
        Shape("polygon", numbers.reshape(-1, 2) / scale, name, score)
        for numbers in map(_array, polygons)
        if numbers is not None and numbers.size >= 6 and not numbers.size % 2
    ]
    points = _first(item, _POINTS)
    if points is not None and (several := _points(points)) is not None:
        shapes += [
            Shape("points", joints[:, :2] / scale, name, seen=_seen(joints)) for joints in several
        ]
    return shapes


def _corners(item: Mapping[str, Any], form: Form) -> F64 | None:
    """Return the two corners of a box, (2, 2), in its own unit."""
    four, kind = _four(_first(item, _BOX)), form.box
    for names, named in ((_CORNERS, "xyxy"), (_SIZED, "xywh")):
        for keys in names:
            source = item if keys[0] in item else _first(item, _BOX)
            if four is None and isinstance(source, Mapping) and all(key in source for key in keys):
                four, kind = _four([source[key] for key in keys]), named
    if four is None:
        return None
    first, second = four[:2], four[2:]
    if kind == "xywh":
        second = first + second
    elif kind == "cxcywh":
        first, second = first - second / 2, first + second / 2
    return np.stack([np.minimum(first, second), np.maximum(first, second)])


def _points(value: Any) -> list[F64] | None:
    """Return key points as arrays (points, 2 or 3); None if the value has another layout."""
    array = _array(value)
    if array is None or not array.size:
        return None
    for numbers in (3, 2):
        if array.ndim == 1 and len(array) % numbers == 0:
            array = array.reshape(1, -1, numbers)
    if array.ndim == 2:
        array = array[None]
    if array.ndim == 3 and array.shape[2] in (2, 3):
        return list(array)
    return None


def _seen(points: F64) -> list[bool]:
    placed: Bools = np.all(np.isfinite(points), axis=1)
    if points.shape[1] == 3:
        placed &= points[:, 2] > 0
    seen: list[bool] = placed.tolist()
    return seen


def _array(value: Any) -> F64 | None:
    """Return an array of numbers, or lists that make one; None if the value is something else."""
    if not isinstance(value, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        return None
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None


def _four(value: Any) -> F64 | None:
    numbers = _array(value)
    if numbers is not None and numbers.shape == (4,) and np.isfinite(numbers).all():
        return numbers
    return None


def _first(item: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _length(value: Any) -> int:
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return len(value)
    return -1


def _name(value: Any) -> int | str | None:
    if isinstance(value, str):
        return value[:100]
    if (
        isinstance(value, int | float | np.integer | np.floating)
        and np.isfinite(value)
        and value == int(value)
    ):
        return int(value)
    return None


def _score(value: Any) -> float | None:
    if isinstance(value, int | float | np.floating) and np.isfinite(value):
        return float(value)
    return None
