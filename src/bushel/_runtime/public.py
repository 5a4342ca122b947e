"""Public names: imported by packages when they are first used, shown in pickles and messages, and called by users.

Other packages add names by entry points, which are found when one is needed.

A pickle names a class by its `__module__`. A public class is named by the module from which users
import it, so that existing pickles can be read after its file has moved.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from bushel.errors import UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T", bound=Callable[..., Any])

PARAMETERS = {
    "collate": "collate_fn",
    "batch_transform": "collate_fn",
    "container": "format",
    "fields": "columns",
    "append": "mode",
    "mode": "overwrite append resume exist_ok",
    "overwrite": "mode",
    "resume": "mode",
    "threads": "num_workers workers num_proc",
    "processes": "num_workers workers persistent_workers num_proc",
    "seed": "generator random_state",
    "shard_bytes": "maxsize",
    "shard_samples": "maxcount",
    "shares": "train val test",
    "shuffle": "sampler",
    "spec": "features schema",
    "transforms": "resize augment",
    "weights": "sampler probabilities proportion proportions",
    "world_size": "num_replicas",
}
"""Parameters, and the parameters of other libraries that do the same work."""

_ELSEWHERE = {
    "a `for` over the loader for each epoch": "epochs num_epochs",
    "bushel.Loader(ds, batch_size=n)": "batch_size",
    "bushel.Loader(ds, shuffle=True)": "shuffle",
    "bushel.Loader(ds, transforms=…)": "transform transforms",
    "bushel.open(path).select_fields(names)": "columns fields",
    "bushel.open(path, split=name)": "split",
    "bushel.open('hf://datasets/ORG/NAME@REVISION')": "revision",
    "bushel.open_stream(path)": "streaming",
}
"""Calls to write instead of parameters of `open` and of loaders in other libraries."""


def public(module: str = "bushel", instead: Mapping[str, str] = {}) -> Callable[[T], T]:
    """Return a decorator that names a class or a function by a public module, which must have it.

    Args:
        module: The module from which users import it.
        instead: What to write, such as `len(ds)`, to the names of attributes of other libraries
            that do the same, such as `num_rows length`: errors of a class say it.
    """

    def name(thing: T) -> T:
        if isinstance(thing, type):
            type.__setattr__(thing, "__dir__", _names_without_private)
            if instead:
                type.__setattr__(thing, "__getattr__", _lookup(instead))
        if hasattr(thing, "__struct_fields__"):
            # a signature would look for the types in the public module
            annotations = vars(thing).get("__annotations__", {})
            types = {name: _AsWritten(str(text)) for name, text in annotations.items()}
            thing.__annotations__ = types
        thing.__module__ = module
        return thing

    return name


def _names_without_private(thing: object) -> list[str]:
    """Return the names of an object that messages may propose for a misspelt one, and shells for its beginning."""
    names = object.__dir__(thing)
    return [name for name in names if not name.startswith("_") or name.startswith("__")]


def _lookup(instead: Mapping[str, str]) -> Callable[[Any, str], Any]:
    """Return a `__getattr__` whose error says what to write in the place of the name.

    Type checkers do not see it, so that they still find misspelt names.
    """

    def get(self: Any, name: str) -> Any:
        try:
            # a property that failed fails again, with its own error
            return object.__getattribute__(self, name)
        except AttributeError as error:
            hints = instead_of(name, instead)
            # a dataset whose constructor has run has a selection: looked up as an attribute, a
            # missing one would come here again
            if name in getattr(vars(self).get("selection"), "fields", ()):
                hints.append(
                    f"sample[{name!r}] with a sample such as ds[0], or ds.column({name!r})"
                )
            if not hints:
                raise
            # without the object, so that Python adds no similar name
            raise AttributeError(f"{error}: write {hints[0]}", name=name, obj=None) from None

    return get


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
            question = did_you_mean(name, free, PARAMETERS)
            calls = instead_of(name, _ELSEWHERE)
            if calls and not question and called in ("open", "Loader", "StreamLoader"):
                question = f"write {calls[0]}"
            hint = f": {question}" if question else ""
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}{hint}")


def misspelt(
    error: TypeError, function: Callable[..., Any], given: Collection[str]
) -> TypeError | None:
    """Return the error of a call with misspelt arguments, which says what may be meant; None of another error.

    Args:
        error: The error, as the frame that called the function has caught it.
        function: The function.
        given: The names of its arguments.
    """
    # the function was called
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return None
    if "were given" in str(error):
        return TypeError(f"{error}: options are given by name, as in option=value")
    from inspect import signature

    called = function.__qualname__.removesuffix(".__init__")
    try:
        check_names(called, given, signature(function).parameters)
    except TypeError as named:
        return named
    return None


def check_flags(**flags: Any) -> None:
    """Check options that are either True or False.

    Raises:
        TypeError: One is neither, such as the text `"no"`, which Python treats as true.
    """
    for name, value in flags.items():
        if value not in (True, False):
            raise TypeError(f"{name}={value!r}: expected True or False")


def check_list(name: str, value: Any) -> None:
    """Check that an option takes names or None, and is not a single name, whose letters would be taken for names.

    Raises:
        TypeError: It is not a list.
    """
    if isinstance(value, str):
        raise TypeError(f"{name}={value!r} is one name: give a list, as in {name}=[{value!r}]")
    if value is not None and not isinstance(value, Iterable):
        raise TypeError(f"{name}={value!r}: expected a list of names")


class _AsWritten:
    """The text of a type, which nobody looks up."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def did_you_mean(name: str, known: Sequence[str], instead: Mapping[str, str] = {}) -> str:
    """Return a question that names what may be meant, or nothing.

    Args:
        name: The name that is not known.
        known: The names that are.
        instead: Names, and the names that other libraries have for the same.
    """
    import difflib  # for mistakes only

    near = [ours for ours in instead_of(name, instead) if ours in known]
    near = near or difflib.get_close_matches(name, dict.fromkeys(known), n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return ""


def meant(name: Any, known: Sequence[str]) -> str:
    """Return a question that names what may be meant, or the names that are expected."""
    question = did_you_mean(str(name), known)
    return question or f"expected one of {', '.join(map(repr, known)) or 'none'}"


def instead_of(name: str, table: Mapping[str, str]) -> list[str]:
    """Return the keys of a table whose texts have this word: the names of Bushel for a name of other libraries."""
    return [ours for ours, names in table.items() if name in names.split()]


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
