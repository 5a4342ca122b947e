"""The values of `transforms=`."""

from __future__ import annotations

from typing import Any

import pytest

from bushel.errors import SpecError
from bushel.transforms import Grayscale, Resize
from bushel.transforms.by_field import Transforms, transforms_by_field

RESIZE, GREY = Resize(8), Grayscale()
ONE = {"image": "jpg", "label": "int"}
TWO = {"left": "jpg", "right": "png", "label": "int"}
FRAMES = {"frames": "jpg(95)[]", "label": "int"}


@pytest.mark.parametrize(
    ("transforms", "spec", "expected"),
    [
        (None, ONE, {}),
        ([], {"label": "int"}, {}),
        (RESIZE, ONE, {"image": (RESIZE,)}),
        ([RESIZE, GREY], ONE, {"image": (RESIZE, GREY)}),
        ((RESIZE, GREY), FRAMES, {"frames": (RESIZE, GREY)}),
        ({"left": RESIZE, "right": [RESIZE, GREY]}, TWO, {"left": (RESIZE,), "right": (RESIZE, GREY)}),
        ({"label": str}, TWO, {"label": (str,)}),
    ],
)
def test_every_form(transforms: Transforms | None, spec: dict[str, str], expected: dict[str, Any]) -> None:
    assert transforms_by_field(transforms, spec) == expected


@pytest.mark.parametrize(
    ("transforms", "spec", "error", "says"),
    [
        (RESIZE, TWO, SpecError, "2 image fields: 'left', 'right'.*transforms={'left': "),
        ([RESIZE], {"label": "int"}, SpecError, "no image field; the fields are 'label'"),
        (
            {"nose": [RESIZE]},
            ONE,
            SpecError,
            "'nose'.*: the fields are 'image', 'label'",
        ),
        (3, ONE, TypeError, r"transforms: expected transforms such as \[Resize.*, not 3"),
        ("resize", ONE, TypeError, "not 'resize'"),
        ([RESIZE, 3], ONE, TypeError, r"transforms\[1\] is 3"),
        ([[RESIZE]], ONE, TypeError, r"transforms\[0\] is .*a list of transforms has no lists within"),
        ([("image", RESIZE)], ONE, TypeError, 'transforms={"image": .transform, ....} names a field'),
        ({RESIZE}, ONE, TypeError, "transforms: expected transforms such as"),
        ({"image": 3}, ONE, TypeError, r"transforms\['image'\]: expected .*not 3"),
        ({"image": [None]}, ONE, TypeError, r"transforms\['image'\]\[0\] is None"),
        ((step for step in (RESIZE,)), ONE, TypeError, "not <generator"),
    ],
)
def test_anything_else_is_refused(transforms: Any, spec: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        transforms_by_field(transforms, spec)


def test_a_stream_needs_field_names() -> None:
    assert transforms_by_field({"jpg": RESIZE}, {}, complete=False) == {"jpg": (RESIZE,)}
    with pytest.raises(SpecError, match="fields of a stream"):
        transforms_by_field([RESIZE], {"jpg": "jpg"}, complete=False)
