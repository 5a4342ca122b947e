"""The values of `transforms=`: transforms for a field, in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bushel.codecs import holds_image
from bushel.errors import SpecError
from bushel.transforms.values import Transform

__all__ = ["Transforms", "transforms_by_field"]

Transforms = Transform | Sequence[Transform] | Mapping[str, Transform | Sequence[Transform]]
"""The argument `transforms=` of `Loader`, `StreamLoader`, `MapView` and `pack`.

It is one transform or a list of transforms for the only image field, or a mapping of field names to either.
"""

_WRITE = 'write a transform, a list of transforms or {"image": [transform, ...]}'


def transforms_by_field(
    transforms: Transforms | None, spec: Mapping[str, str], *, complete: bool = True
) -> dict[str, tuple[Transform, ...]]:
    """Return the transforms of each field, in the order in which they are applied.

    Args:
        transforms: The argument of a user; None for no transforms.
        spec: Field to type, such as `{"image": "jpg", "label": "int"}`.
        complete: Whether `spec` lists all fields. The fields of a stream are not known before it is read.

    Raises:
        SpecError: There is no such field, or transforms without a field name are given and the number of image fields
            is not one.
        TypeError: `transforms`, or a value in it, is neither a function nor a list of functions.
    """
    if transforms is None:
        return {}
    if isinstance(transforms, Mapping):
        for name in transforms:
            if complete and name not in spec:
                raise SpecError(f"transforms= names the field {name!r}, but the fields are {_names(spec)}")
        return {name: _functions(value, f"transforms[{name!r}]") for name, value in transforms.items()}
    functions = _functions(transforms, "transforms")
    if not functions:
        return {}
    images = [name for name, kind in spec.items() if holds_image(kind.removesuffix("[]"))]
    if len(images) == 1 and complete:
        return {images[0]: functions}
    if not complete:
        problem = "the fields of a stream are not known before it is read"
    elif images:
        problem = f"there are {len(images)} image fields: {_names(images)}"
    else:
        problem = f"there is no image field; the fields are {_names(spec)}"
    example = images[0] if images else next(iter(spec), "image")
    raise SpecError(
        f"transforms= without a field name is for one image field, but {problem}. "
        f"Name the field: transforms={{{example!r}: [...]}}"
    )


def _functions(value: Any, name: str) -> tuple[Transform, ...]:
    if callable(value):
        return (value,)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{name} is {value!r}, which is not callable: {_WRITE}")
    for place, function in enumerate(value):
        if not callable(function):
            raise TypeError(f"{name}[{place}] is {function!r}, which is not callable: {_WRITE}")
    return tuple(value)


def _names(names: Mapping[str, str] | Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "unknown"
