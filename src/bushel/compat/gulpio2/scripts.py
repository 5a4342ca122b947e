"""Classes by name, the parameters of their constructors, and scripts that call them, for adapters of GulpIO."""

from __future__ import annotations

import importlib
import inspect
import shlex
import sys
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bushel.errors import SpecError


class NotImportedError(SpecError, ImportError):
    """A module that cannot be imported."""


class NoModuleError(SpecError, ModuleNotFoundError):
    """A module that does not exist.

    Examples:
        >>> from bushel.compat.gulpio2.scripts import load_class
        >>> load_class("my_adapter", "MyVideos")
        Traceback (most recent call last):
            ...
        bushel.compat.gulpio2.scripts.NoModuleError: no module named my_adapter: pass the path of its
        file, name.py
    """


class NoClassError(SpecError, AttributeError):
    """A class that its module does not have."""


class ParameterError(SpecError, TypeError):
    """A parameter that a command line cannot set.

    Examples:
        >>> from bushel.compat.gulpio2.scripts import ParameterError
        >>> issubclass(ParameterError, TypeError)
        True
    """


def load_class(module: str, name: str) -> Any:
    """Return a class by the name of its module.

    Args:
        module: The module's name, or the path of its file.
        name: The name of the class.

    Raises:
        FileNotFoundError, NoModuleError: The module does not exist (the latter is a
            `ModuleNotFoundError`).
        NotImportedError: The module cannot be imported (an `ImportError`).
        NoClassError: The module has no such class (an `AttributeError`).

    Examples:
        >>> from bushel.compat.gulpio2.scripts import load_class
        >>> load_class("collections", "Counter")
        <class 'collections.Counter'>
    """
    if module.endswith(".py"):
        path = Path(module).resolve()
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist")
        sys.path.insert(0, str(path.parent))  # for its own imports, here and in worker processes
        module = path.stem
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # a module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            raise NoModuleError(
                f"no module named {error.name}: pass the path of its file, name.py"
            ) from error
        raise NotImportedError(
            f"{module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(loaded, name, None)):
        raise NoClassError(f"{module} has no class {name}")
    return getattr(loaded, name)


def parameters_of(kind: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any]]:
    """Return the parameters of a class's constructor, except `*args` and `**kwargs`, each with its type.

    The type comes from the annotation (`X` for `X | None` and for `Annotated[X, …]`; `str` for a
    union with it), else from the default; it is `str` if there is neither.

    Examples:
        >>> from bushel.compat.gulpio2.scripts import parameters_of
        >>> from bushel.compat.gulpio2.adapters import KineticsAdapter
        >>> [kind for _, kind in parameters_of(KineticsAdapter)]
        [<class 'str'>, <class 'str'>, <class 'bool'>, <class 'int'>, <class 'str'>]
    """
    hints = typing.get_type_hints(kind.__init__ if inspect.isclass(kind) else kind)
    parameters = []
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = parameter.default
        untyped = str if default is parameter.empty or default is None else type(default)
        parameters.append((parameter, _plain(hints.get(parameter.name, untyped))))
    return parameters


def _plain(hint: Any) -> Any:
    """Return a type without `| None` and without annotations."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return _plain(kinds[0]) if len(kinds) == 1 else str if str in kinds else hint
    return _plain(typing.get_args(hint)[0]) if typing.get_origin(hint) is typing.Annotated else hint


def write_script(path: Path, lines: Sequence[str], mode: str = "x") -> None:
    """Write an executable Python script for this interpreter.

    Examples:
        >>> from bushel.compat.gulpio2.scripts import write_script
        >>> write_script(Path("hello"), ["print('Hello')"])
    """
    python = sys.executable
    first = f"#!{python}" if " " not in python else f"#!/usr/bin/env -S {shlex.quote(python)}"
    with open(path, mode, encoding="utf-8") as file:
        file.write("\n".join((first, *lines, "")))
    path.chmod(path.stat().st_mode | 0o111)
