"""The decorator of transforms."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

from bushel._runtime.arrays import python_numbers

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen_transform(plain: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots, whose numbers of NumPy become Python's before they are checked."""
    check = getattr(plain, "__post_init__", None)

    def prepare(self: Any) -> None:
        for option in fields(self):
            object.__setattr__(self, option.name, python_numbers(getattr(self, option.name)))
        if check is not None:
            check(self)

    plain.__post_init__ = prepare  # type: ignore[attr-defined]
    return dataclass(frozen=True, slots=True)(plain)
