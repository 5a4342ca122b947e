"""`gulp2_register_adapter`, and the command lines that it writes."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shlex
import sys
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bushel.compat.gulpio2 import GulpIngestor
from bushel.errors import SpecError

from .ingest import made_by

_USUAL = {"videos_per_chunk": 100, "num_workers": 4}
"""Options of every script, unless the adapter has a parameter of that name."""


def gulp2_register_adapter(arguments: list[str]) -> int:
    """Write a script that gulps with an adapter class into the current directory."""
    parser = argparse.ArgumentParser(
        prog="bushel gulp2_register_adapter",
        description="Write a command line for an adapter class: an executable in the current "
        "directory, named like the class in snake_case. Required parameters of the constructor "
        "become arguments, last one first; parameters with a default become options of that type.",
    )
    parser.add_argument(
        "adapter_file", help="the module of the class, such as gulpio2.adapters, or its file"
    )
    parser.add_argument("class_name", help="the class, an AbstractDatasetAdapter")
    options = parser.parse_args(arguments)
    kind = _load(options.adapter_file, options.class_name)
    path = Path(script_name(options.class_name))
    build_parser(kind, path.name)  # fails now if a command line cannot give a parameter
    module = options.adapter_file
    module = str(Path(module).resolve()) if module.endswith(".py") else module
    lines = (
        f'"""Gulp with {options.class_name}: {path.name} --help."""',
        "",
        "from bushel.cli.output import exit_code_of",
        "from bushel.compat.gulpio2.commands.register import run",
        "",
        'if __name__ == "__main__":',
        f"    raise SystemExit(exit_code_of(lambda: run({module!r}, {options.class_name!r})))",
    )
    write_script(path, lines, "w")
    print(f"{path}: run ./{path} --help")
    return 0


def run(module: str, class_name: str, arguments: Sequence[str] | None = None) -> None:
    """Gulp with an adapter class of a module (or its file); `arguments` are by default those that the process got."""
    kind = _load(module, class_name)
    options = vars(build_parser(kind, script_name(class_name)).parse_args(arguments))
    GulpIngestor(
        made_by(kind, options),
        options["output_folder"],
        options["videos_per_chunk"],
        options["num_workers"],
    )()


def script_name(class_name: str) -> str:
    """Return `new_adapter_class_name` for `NewAdapterClassName`."""
    return re.sub("(?<!^)(?=[A-Z])", "_", class_name).lower()


def build_parser(kind: Callable[..., Any], name: str) -> argparse.ArgumentParser:
    """Return the command line of an adapter, or raise a `ParameterError` if it cannot give a required parameter."""
    summary = (inspect.getdoc(kind) or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=name, description=summary or None)
    parameters = parameters_of(kind)
    for parameter, hint in reversed(parameters):
        _add(parser, parameter, hint)
    taken = {parameter.name for parameter, _ in parameters}
    if "output_folder" not in taken:
        parser.add_argument("output_folder", help="folder of the chunks")
    for option, default in _USUAL.items():
        if option not in taken:
            parser.add_argument(
                f"--{option}", type=int, default=default, metavar="N", help=f"[{default}]"
            )
    return parser


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter, kind: Any) -> None:
    name, default = parameter.name, parameter.default
    needed = default is parameter.empty
    read = _reader(kind, default if not needed else None)
    if read is None:
        if needed:
            raise ParameterError(
                f"a command line cannot give the parameter {name}, a {kind}: give it a default"
            )
        return
    if needed:
        parser.add_argument(name, type=read)
    else:
        word: dict[str, Any] = {"metavar": name.upper()}
        if kind is bool:
            word = {"metavar": "True|False", "nargs": "?", "const": True}
        parser.add_argument(
            f"--{name}", type=read, default=default, help=f"[{_shown(default)}]", **word
        )


def _reader(kind: Any, default: Any) -> Callable[[str], Any] | None:
    """Return the function that turns a word of the command line into a value, or None."""
    if kind is bool:
        return _truth
    if kind in (str, int, float, Path):
        convert: Callable[[str], Any] = kind
        return convert
    if (typing.get_origin(kind) or kind) in (list, tuple, Sequence):
        [element, *_] = [*typing.get_args(kind), type(default[0]) if default else str]
        element_reader = _reader(element, None)
        if element_reader is not None:
            return lambda text: [
                element_reader(part.strip()) for part in text.split(",") if part.strip()
            ]
    return None


def _truth(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"expected True or False, found {text!r}")
    return words[text.lower()]


def _shown(default: Any) -> str:
    shown = ",".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
    return shown.replace("%", "%%")


def _load(module: str, name: str) -> Any:
    """Return the class; if GulpIO is not installed, of its adapters in this package."""
    try:
        return load_class(module, name)
    except NoModuleError:
        package, _, rest = module.partition(".")
        if package not in ("gulpio", "gulpio2"):
            raise
        return load_class(f"bushel.compat.gulpio2.{rest}".rstrip("."), name)


class NotImportedError(SpecError, ImportError):
    """A module that cannot be imported."""


class NoModuleError(SpecError, ModuleNotFoundError):
    """A module that does not exist.

    Examples:
        >>> from bushel.compat.gulpio2.commands.register import load_class
        >>> load_class("my_adapter", "MyVideos")
        Traceback (most recent call last):
            ...
        bushel.compat.gulpio2.commands.register.NoModuleError: no module named my_adapter: pass the path of its
        file, name.py
    """


class NoClassError(SpecError, AttributeError):
    """A class that its module does not have."""


class ParameterError(SpecError, TypeError):
    """A parameter that a command line cannot set.

    Examples:
        >>> from bushel.compat.gulpio2.commands.register import ParameterError
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
        >>> from bushel.compat.gulpio2.commands.register import load_class
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
        >>> from bushel.compat.gulpio2.commands.register import parameters_of
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
        >>> from bushel.compat.gulpio2.commands.register import write_script
        >>> write_script(Path("hello"), ["print('Hello')"])
    """
    python = sys.executable
    first = f"#!{python}" if " " not in python else f"#!/usr/bin/env -S {shlex.quote(python)}"
    with open(path, mode, encoding="utf-8") as file:
        file.write("\n".join((first, *lines, "")))
    path.chmod(path.stat().st_mode | 0o111)
