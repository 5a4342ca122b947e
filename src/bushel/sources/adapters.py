"""GulpIO's adapters as sources."""

from __future__ import annotations

import copy
import importlib
import inspect
import shlex
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bushel.errors import FormatError, SpecError
from bushel.sources.base import Sample
from bushel.spec import KEY


class AdapterLike(Protocol):
    """The protocol of GulpIO's adapters."""

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def iter_data(self, slice_element: slice | None = None, /) -> Iterator[Mapping[str, Any]]:
        """Yield items with `id`, `frames` (RGB or grey arrays, or JPEG bytes) and `meta` (a dict)."""
        ...


class Adapter:
    """The items of an adapter: the fields `frames` and `meta`; the key is the id.

    The adapter yields one item at a time, to one thread at a time, since adapters keep state while
    they iterate. `processes=` runs several copies of one.

    Args:
        adapter: The adapter.

    Attributes:
        spec: `frames` as a sequence of JPEGs, and `meta` as JSON.

    Examples:
        >>> from bushel.sources import Adapter
        >>> class Grey:  # as GulpIO calls it
        ...     def __len__(self):
        ...         return 3
        ...     def iter_data(self, part):
        ...         for number in range(*part.indices(3)):
        ...             yield {"id": number, "frames": [np.full((8, 8), number, np.uint8)], "meta": {"label": number}}
        >>> bushel.pack(Adapter(Grey()), "grey/", container="gulp").samples
        3
    """

    spec: Mapping[str, str] = {"frames": "jpg[]", "meta": "json"}

    def __init__(self, adapter: AdapterLike) -> None:
        self._adapter = adapter
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_adapter": self._adapter}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return len(self._adapter)

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        with self._lock:
            # A copy, because some adapters cut their own list down to the requested slice.
            items = list(copy.copy(self._adapter).iter_data(slice(position, position + 1)))
        if len(items) != 1 or not len(items[0]["frames"]):
            raise FormatError(f"the adapter returned no frames for item {position}")
        [item] = items
        return {KEY: str(item["id"]), "frames": list(item["frames"]), "meta": dict(item["meta"])}


class NotImportedError(SpecError, ImportError):
    """A module that cannot be imported."""


class NoModuleError(SpecError, ModuleNotFoundError):
    """A module that does not exist.

    Examples:
        >>> bushel.sources.load_class("my_adapter", "MyVideos")
        Traceback (most recent call last):
            ...
        bushel.sources.adapters.NoModuleError: no module named my_adapter: pass the path of its
        file, name.py
    """


class NoClassError(SpecError, AttributeError):
    """A class that its module does not have."""


class ParameterError(SpecError, TypeError):
    """A parameter that a command line cannot set.

    Examples:
        >>> issubclass(bushel.sources.ParameterError, TypeError)
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
        >>> from bushel.sources import load_class
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
        >>> from bushel.sources import parameters_of
        >>> [(parameter.name, kind) for parameter, kind in parameters_of(bushel.transforms.Flip)]
        [('horizontal', <class 'bool'>)]
    """
    made_by: Any = kind.__init__ if inspect.isclass(kind) else kind
    if inspect.isclass(kind) and not inspect.isfunction(made_by):
        made_by = kind  # a struct, whose constructor is compiled: its attributes are the parameters
    hints = typing.get_type_hints(made_by)
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
        >>> from bushel.sources import write_script
        >>> write_script(Path("hello"), ["print('Hello')"])
    """
    python = sys.executable
    first = f"#!{python}" if " " not in python else f"#!/usr/bin/env -S {shlex.quote(python)}"
    with open(path, mode, encoding="utf-8") as file:
        file.write("\n".join((first, *lines, "")))
    path.chmod(path.stat().st_mode | 0o111)
