"""Values with named fields, whose classes are made in 10 µs.

A dataclass compiles four functions for its class, which takes half a millisecond, and the first
sample of a process needs forty classes. So classes on that path are structs of msgspec. To
`dataclasses.replace`, `fields`, `asdict` and `inspect.signature`, they are like dataclasses.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["Struct"]


@cache
def _as_dataclass(owner: type[msgspec.Struct]) -> Any:
    """Return a dataclass with the fields of a struct."""
    from dataclasses import field, make_dataclass

    types: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        types.update(vars(base).get("__annotations__", {}))
    names, defaults = owner.__struct_fields__, owner.__struct_defaults__
    members: list[Any] = [(name, types[name]) for name in names[: len(names) - len(defaults)]]
    for name, default in zip(names[len(members) :], defaults, strict=True):
        factory = getattr(default, "factory", None)
        if factory is None:
            default_field = field(default=default)
        else:
            default_field = field(default_factory=factory)
        members.append((name, types[name], default_field))
    return make_dataclass(owner.__name__, members)


class _Meta(msgspec.StructMeta):
    @property
    def __signature__(cls) -> Signature:
        # msgspec's looks up the annotations, and some are imported by type checkers only
        from inspect import signature

        return signature(_as_dataclass(cls))


class _DataclassFields:
    """The attribute by which `dataclasses` recognises a class, and finds its fields."""

    def __get__(self, instance: object, owner: type[msgspec.Struct]) -> Any:
        return _as_dataclass(owner).__dataclass_fields__


if TYPE_CHECKING:
    # a class between would not be frozen, and a frozen class cannot inherit from it
    from msgspec import Struct
else:

    class Struct(msgspec.Struct, metaclass=_Meta):
        """A value with named fields: `class Extent(Struct, frozen=True)`."""

        __dataclass_fields__ = _DataclassFields()
