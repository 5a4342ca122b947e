"""Public names: imported by packages when they are first used, and shown in pickles, messages and tracebacks.

A pickle names a class by its `__module__`. A public class is named by the module from which users import it, so that a
pickle of today is read after its file has moved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any, TypeVar

__all__ = ["lazy_names", "public"]

T = TypeVar("T", bound=Callable[..., Any])


def public(module: str = "bushel") -> Callable[[T], T]:
    """Return a decorator that names a class or a function by a public module, which must have it.

    `inspect.getsource` still finds the file that defines it, except for protocols.

    Args:
        module: The public module.
    """

    def name(thing: T) -> T:
        if isinstance(thing, FunctionType):  # has its file in its code
            thing.__module__ = module
        elif isinstance(thing, type):
            if not getattr(thing, "_is_protocol", False):  # whose attributes are what `isinstance` looks for
                type.__setattr__(thing, "__wrapped__", _Definition(thing))
            type.__setattr__(thing, "__module__", module)
        return thing

    return name


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are imported when they are first used.

    Args:
        package: The package's `__name__`.
        modules: Public names, and for each the module below `bushel` that defines it.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"bushel.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


class _Definition:
    """Leads `inspect.unwrap` from a class to one like it that names the file. Instances and subclasses wrap nothing.

    `inspect` looks for the source of a class in the file of its module; of a class that wraps another, in that of the
    other one's.
    """

    __slots__ = ("_module", "_of")

    def __init__(self, of: type) -> None:
        self._of, self._module = of, of.__module__

    def __get__(self, instance: object, owner: type | None = None) -> type:
        if instance is not None or owner is not self._of:
            raise AttributeError("__wrapped__")
        kept = {name: value for name, value in vars(self._of).items() if name in ("__doc__", "__firstlineno__")}
        init = next(
            vars(each)["__init__"] for each in self._of.__mro__ if "__init__" in vars(each)
        )  # for the signature
        if isinstance(init, FunctionType):
            kept["__init__"] = init
        return type(self._of.__name__, (), {**kept, "__module__": self._module, "__qualname__": self._of.__qualname__})
