"""The values of `transforms=`: transforms for a field, in one form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bushel._runtime.public import did_you_mean
from bushel.codecs import holds_image
from bushel.errors import SpecError

from .moves import Follower, names_of
from .values import Transform, checked_transforms

Together = tuple[str | Follower, ...]
Transforms = Transform | Sequence[Transform] | Mapping[Any, Transform | Sequence[Transform]]
"""The argument `transforms=` of `Loader`, `StreamLoader`, `MapView` and `pack`.

It is one transform or a list of transforms for the only image field, or a mapping of field names to
either. A tuple names fields that move together, an image first:
`("image", Mask("mask"), Boxes("boxes"))`.
"""

_TOGETHER = 'write a field, or ("image", Mask("mask"), Boxes("boxes"), Points("points"))'


def transforms_by_field(
    transforms: Transforms | None, spec: Mapping[str, str], *, complete: bool = True
) -> dict[str, tuple[Transform, ...]]:
    """Return the transforms of each field, in the order in which they are applied.

    Args:
        transforms: The argument of a user; None for no transforms.
        spec: Field to type, such as `{"image": "jpg", "label": "int"}`.
        complete: Whether `spec` lists all fields. The fields of a stream are not known before it is
            read.

    Raises:
        SpecError: The field does not exist, or transforms without a field name are given and the
            number of image fields is not one.
        TypeError: `transforms`, or a value in it, is neither a function nor a list of functions.
    """
    if transforms is None:
        return {}
    if isinstance(transforms, Mapping):
        for name in transforms:
            if not isinstance(name, str):
                raise SpecError(f"transforms= names {name!r}: fields move together in loaders only")
        if complete:
            check_known("transforms", transforms, spec)
        return {
            name: _functions(value, f"transforms[{name!r}]") for name, value in transforms.items()
        }
    images = [name for name, kind in spec.items() if holds_image(kind.removesuffix("[]"))]
    functions = _functions(transforms, "transforms")
    if not functions:
        return {}
    if len(images) == 1 and complete:
        return {images[0]: functions}
    if not complete:
        problem = "the fields of a stream are not known before it is read"
    elif images:
        problem = f"there are {len(images)} image fields: {_names(images)}"
    else:
        problem = f"the dataset has no image field; the fields are {_names(spec)}"
    example = images[0] if images else next(iter(spec), "image")
    raise SpecError(
        "transforms= without a field name is for one image field, but "
        f"{problem}. Name the field: transforms={{{example!r}: [...]}}"
    )


def check_known(argument: str, names: Iterable[str], spec: Mapping[str, str]) -> None:
    """Check that a dataset has the fields that an argument names.

    Raises:
        SpecError: It lacks one.
    """
    for name in names:
        if name not in spec:
            meant = did_you_mean(str(name), list(spec)) or f"the fields are {_names(spec)}"
            raise SpecError(f"{argument}= names {name!r}, which the dataset does not have: {meant}")


def split_together(
    transforms: Transforms | None,
) -> tuple[dict[Together, tuple[Transform, ...]], Any]:
    """Return the transforms of fields that move together, and all others.

    Raises:
        TypeError: A key is neither a name nor a tuple of names and followers with a name first.
        SpecError: A field is named twice.
    """
    if not isinstance(transforms, Mapping):
        return {}, transforms
    together: dict[Together, tuple[Transform, ...]] = {}
    remaining: dict[str, Any] = {}
    seen = set[str]()
    for key, value in transforms.items():
        parts = (key,) if isinstance(key, str) else key
        if (
            not isinstance(parts, tuple)
            or not parts
            or not all(isinstance(part, str | Follower) for part in parts)
        ):
            raise TypeError(f"transforms= has the key {key!r}: {_TOGETHER}")
        if not isinstance(parts[0], str):
            raise TypeError(
                f"transforms= has the key {key!r}, which does "
                f"not begin with an image field: {_TOGETHER}"
            )
        if len(set(names := names_of(parts))) < len(names) or not seen.isdisjoint(names):
            raise SpecError(f"transforms= names a field twice, of {', '.join(map(repr, names))}")
        seen.update(names)
        if isinstance(key, str):
            remaining[key] = value
        else:
            together[parts] = _functions(value, f"transforms[{key!r}]")
    return together, remaining


def _functions(value: Any, name: str) -> tuple[Transform, ...]:
    """Return one transform, or a list of them, as a tuple."""
    return checked_transforms(name, (value,) if callable(value) else value)


def _names(names: Mapping[str, str] | Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "unknown"
