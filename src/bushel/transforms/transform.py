"""The decorator of transforms."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

from bushel._runtime.arrays import python_numbers, refuse_bools

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen_transform(plain: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots, whose numbers of NumPy become Python's before they are checked."""
    check = getattr(plain, "__post_init__", None)

    def prepare(self: Any) -> None:
        for option in fields(self):
            value = python_numbers(getattr(self, option.name))
            if "bool" not in str(option.type):
                refuse_bools(**{option.name: value})
            if option.name == "p" and not 0 <= value <= 1:
                raise ValueError(f"invalid probability {value}: expected 0 to 1")
            if option.type == "Fill":
                _check_fill(value)
            object.__setattr__(self, option.name, value)
        if check is not None:
            check(self)

    plain.__post_init__ = prepare  # type: ignore[attr-defined]
    return dataclass(frozen=True, slots=True)(plain)


def _check_fill(fill: Any) -> None:
    """Check that a fill is made of levels. Raise ValueError if it is not."""
    levels = (fill,) if isinstance(fill, int) else fill
    if not levels or not all(isinstance(level, int) and 0 <= level <= 255 for level in levels):
        raise ValueError(
            f"invalid fill={fill!r}: expected a level between 0 and 255, or one for each channel"
        )
