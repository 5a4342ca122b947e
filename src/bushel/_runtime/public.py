"""Public names: imported by packages when they are first used, shown in pickles and messages, and called by users.

Other packages add names by entry points, which are found when one is needed.

A pickle names a class by its `__module__`. A public class is named by the module from which users
import it, so that existing pickles can be read after its file has moved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from bushel.errors import UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Callable[..., Any])

_OTHER_LIBRARIES = {
    "num_workers": ("threads", "processes"),
    "workers": ("threads", "processes"),
    "collate_fn": ("collate", "batch_transform"),
    "columns": ("fields",),
    "format": ("container",),
    "resize": ("transforms",),
    "sampler": ("shuffle", "weights"),
}
"""Parameters of other libraries, and the ones that do their work."""


def public(module: str = "bushel") -> Callable[[T], T]:
    """Return a decorator that names a class or a function by a public module, which must have it."""

    def name(thing: T) -> T:
        if hasattr(thing, "__struct_fields__"):
            # a signature would look for the types in the public module
            annotations = vars(thing).get("__annotations__", {})
            types = {name: _AsWritten(str(text)) for name, text in annotations.items()}
            thing.__annotations__ = types
        thing.__module__ = module
        return thing

    return name


def names_of_stub(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package whose names are imported when they are first used.

    Args:
        package: Its dotted name.
        file: Its `__init__.py`. The stub beside it has a line `from MODULE import NAME as NAME` for
            each name.
    """
    with open(file.rpartition(".")[0] + ".pyi", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from ")]
    modules = {name: module for _, module, _, name, *_ in words}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(modules)
    return get, lambda: names, names


def check_names(called: str, given: Collection[str], known: Iterable[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        TypeError: It has no such parameter. The message has the one that may be meant.
    """
    names = list(known)
    for name in given:
        if name not in names:
            free = [parameter for parameter in names if parameter not in given]
            same = [parameter for parameter in _OTHER_LIBRARIES.get(name, ()) if parameter in free]
            question = _question(same) or did_you_mean(name, free)
            hint = f": {question}" if question else ""
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}{hint}")


def names_near(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that is called with a misspelt argument name the one that may be meant."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # it was called
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            from inspect import signature

            problem = error
            try:
                check_names(
                    function.__qualname__.removesuffix(".__init__"),
                    kwargs,
                    signature(function).parameters,
                )
            except TypeError as named:
                problem = named
            raise problem from None

    return run


def check_flags(**flags: Any) -> None:
    """Check options that are either True or False.

    Raises:
        TypeError: One is neither, such as the text `"no"`, which Python treats as true.
    """
    for name, value in flags.items():
        if value not in (True, False):
            raise TypeError(f"{name}={value!r}: expected True or False")


class _AsWritten:
    """The text of a type, which nobody looks up."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a question that names what may be meant, or nothing."""
    import difflib  # for mistakes only

    return _question(difflib.get_close_matches(name, dict.fromkeys(known), n=3, cutoff=0.6))


def meant(name: Any, known: Sequence[str]) -> str:
    """Return a question that names what may be meant, or the names that are expected."""
    question = did_you_mean(str(name), known)
    return question or f"expected one of {', '.join(map(repr, known)) or 'none'}"


def _question(near: Sequence[str]) -> str:
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return ""


def command(*words: object) -> str:
    """Return a command of `bushel` that an error proposes, as a shell takes it, in backquotes."""
    import shlex

    return f"`{shlex.join(['bushel', *map(str, words)])}`"


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name. The first package on the search path wins.

    Looking through the installed packages takes tens of milliseconds, so nothing calls this before
    it must.
    """
    from importlib.metadata import entry_points

    by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        by_name.setdefault(entry.name, entry)
    return by_name


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names that installed packages add to a group, such as `bushel.containers`. Nothing is imported."""
    return tuple(_entry_points(group))


def has_plugin(group: str, name: str) -> bool:
    """Return whether an installed package adds this name."""
    return name in _entry_points(group)


def load_plugin(group: str, name: str) -> Any:
    """Import the object that an installed package adds under a name.

    Raises:
        KeyError: No package adds it.
        UnsupportedError: Importing it fails; the message names the package.
    """
    entry = _entry_points(group)[name]
    try:
        return entry.load()
    except Exception as error:  # the module of another package may raise anything
        raise _broken(group, entry, f"{type(error).__name__}: {error}") from error


def broken_plugin(group: str, name: str, problem: str) -> UnsupportedError:
    """Return the error about an imported plugin that cannot be used."""
    return _broken(group, _entry_points(group)[name], problem)


def _broken(group: str, entry: EntryPoint, problem: str) -> UnsupportedError:
    package, update = "another package", ""
    if entry.dist is not None:
        package = f"{entry.dist.name} {entry.dist.version}"
        update = f": update it (`pip install -U {entry.dist.name}`) or uninstall it"
    return UnsupportedError(
        f"{package} adds {entry.name!r} to {group} "
        f"({entry.value}), which cannot be used ({problem}){update}"
    )


def imported(name: str, example: str) -> Any:
    """Return the object of a name such as `my_training:augment`. Modules are also looked for in the current directory.

    Raises:
        ValueError: The name is malformed, or refers to nothing.
    """
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise ValueError(f"{name!r}: expected MODULE:NAME, such as {example}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error
