"""`bushel adapter`, and the scripts that it writes."""

from __future__ import annotations

import argparse
import inspect
import re
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from bushel.cli.command import Argument, Option
from bushel.cli.options import Quiet


def command(
    module: Annotated[str, Argument("A Python file, or the name of a module.")],
    name: Annotated[
        str,
        Argument("Class in it with __len__ and iter_data(slice).", metavar="CLASS", files=False),
    ],
    output: Annotated[
        str | None,
        Option("Script to write. [default: the class's name in snake_case]", "--output", "-o"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make a command line for an adapter class of GulpIO.

    Parameters of the constructor become arguments of the script, in the same order. Parameters with
    a default become options. Both have the parameters' types.

    Example:
      bushel adapter my_adapters.py MyVideos
      ./my_videos list.json videos/ gulped/ --rate 12 --shard-samples 100
    """
    from bushel.cli.output import print_text
    from bushel.compat.gulpio2.scripts import load_class, write_script
    from bushel.errors import naming

    kind = load_class(module, name)
    build_parser(kind)
    where = str(Path(module).resolve()) if module.endswith(".py") else module
    path = Path(
        output or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    )
    lines = (
        "from bushel.cli.adapter import run",
        "",
        'if __name__ == "__main__":',
        f"    run({where!r}, {name!r})",
    )
    with naming(path):
        write_script(path, lines)
    if not quiet:
        print_text(f"{path}: run it with --help")


def build_parser(kind: Callable[..., Any]) -> argparse.ArgumentParser:
    """Return a parser for the parameters of a class's constructor and for the options of packing.

    Raises:
        ParameterError: A parameter has a type that a command line cannot give.
    """
    from bushel.compat.gulpio2.scripts import parameters_of

    summary = (inspect.getdoc(kind) or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary or None, allow_abbrev=False)
    adapter_group = parser.add_argument_group("adapter")
    for parameter, hint in parameters_of(kind):
        _add(adapter_group, parameter, hint)
    packing = parser.add_argument_group("packing")
    packing.add_argument("output", metavar="OUTPUT", help="new folder, or one file")
    packing.add_argument(
        "--container", default="gulp", help="bag, tar, ffrecord, gulp or recordio [gulp]"
    )
    packing.add_argument(
        "--shard-samples", type=int, default=100, metavar="N", help="items in a chunk [100]"
    )
    packing.add_argument("--threads", type=int, metavar="N", help="number of threads")
    packing.add_argument(
        "--processes", type=int, default=0, metavar="N", help="number of worker processes [0]"
    )
    packing.add_argument(
        "--max-errors", type=int, default=0, metavar="N", help="items that may fail [0]"
    )
    packing.add_argument("--append", action="store_true", help="add to an existing dataset")
    packing.add_argument("--resume", action="store_true", help="continue an interrupted run")
    return parser


def _add(group: Any, parameter: inspect.Parameter, kind: Any) -> None:
    name, default = parameter.name, parameter.default
    needed = default is parameter.empty
    if kind is bool:
        if needed:
            group.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, required=True)
        else:
            group.add_argument(
                f"--{name}",
                action=argparse.BooleanOptionalAction,
                default=default,
                help=f"[{default}]",
            )
    elif typing.get_origin(kind) in (list, tuple) or kind in (list, tuple):
        [element, *_] = [
            *typing.get_args(kind),
            type(default[0]) if default and not needed else str,
        ]
        if needed:
            group.add_argument(name, nargs="+", type=element)
        else:
            group.add_argument(
                f"--{name}", nargs="*", type=element, default=default, help=f"{default}"
            )
    elif kind in (str, int, float, Path):
        if needed:
            group.add_argument(name, type=kind)
        else:
            group.add_argument(f"--{name}", type=kind, default=default, help=f"[{default}]")
    elif needed:
        from bushel.compat.gulpio2.scripts import ParameterError

        raise ParameterError(
            f"the parameter {name} is a {kind}, which a command line cannot give: give it a default"
        )


def run(module: str, name: str, arguments: Sequence[str] | None = None) -> None:
    """Pack the items of an adapter with the options of a command line, and end the process.

    `module` is the path of a Python file, or the name of a module.
    """
    from bushel._pack import pack
    from bushel.cli.messages import exit_code_of
    from bushel.cli.output import count, print_text, say
    from bushel.compat.gulpio2.scripts import load_class
    from bushel.sources.foreign import Adapter

    def work() -> None:
        kind = load_class(module, name)
        options = vars(build_parser(kind).parse_args(arguments))
        adapter_options = {
            key: options[key] for key in inspect.signature(kind).parameters if key in options
        }
        result = pack(
            Adapter(kind(**adapter_options)),
            options["output"],
            container=options["container"],
            shard_samples=options["shard_samples"],
            threads=options["threads"],
            processes=options["processes"],
            max_errors=options["max_errors"],
            mode="resume" if options["resume"] else "append" if options["append"] else "create",
        )
        print_text(
            f"{options['output']}: {count(result.samples, 'sample')} written as {result.container}"
        )
        if result.errors:
            say(f"{count(result.errors, 'item')} failed: see {', '.join(result.error_logs)}")

    raise SystemExit(exit_code_of(work))
