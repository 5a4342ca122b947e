"""`gulp2_register_adapter`, and the command lines that it writes."""

from __future__ import annotations

import argparse
import inspect
import re
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bushel.compat.gulpio2 import GulpIngestor
from bushel.compat.gulpio2.commands.ingest import made_by
from bushel.compat.gulpio2.scripts import (
    NoModuleError,
    ParameterError,
    load_class,
    parameters_of,
    write_script,
)

_USUAL = {"videos_per_chunk": 100, "num_workers": 4}
"""Options of every script, unless the adapter has a parameter of that name."""


def gulp2_register_adapter(arguments: list[str]) -> int:
    """Write a script that gulps with an adapter class into the current directory."""
    parser = argparse.ArgumentParser(
        prog="bushel gulp2_register_adapter",
        description="Write a command line for an adapter class: an executable in the current"
        " directory, named like the "
        "class in snake_case. Required parameters of the constructor become arguments, last one"
        " first; parameters "
        "with a default become options of that type.",
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
        "from bushel.cli.messages import exit_code_of",
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
    elif kind is bool:
        parser.add_argument(
            f"--{name}",
            nargs="?",
            type=read,
            const=True,
            default=default,
            metavar="True|False",
            help=f"[{default}]",
        )
    else:
        parser.add_argument(
            f"--{name}",
            type=read,
            default=default,
            metavar=name.upper(),
            help=f"[{_shown(default)}]",
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
