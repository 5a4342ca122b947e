"""Click commands made from annotated functions: `def command(path: Annotated[str, Argument("A folder.")])`."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import click

__all__ = ["Argument", "Option", "command_from"]


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of a command.

    Attributes:
        help: Description.
        metavar: Name in the help; by default the name of the parameter in capitals.
    """

    help: str
    metavar: str | None = None


class Option:
    """An option of a command. A bool makes it a flag, and a list makes it repeatable.

    Args:
        names: Names, such as `--number` and `-n`, or `--keys/--no-keys`.
        help: Description.
        min: Least value of a number.
        max: Greatest value of a number.
    """

    def __init__(self, *names: str, help: str, min: float | None = None, max: float | None = None) -> None:
        self.names, self.help, self.min, self.max = names, help, min, max


def command_from(function: Callable[..., None], name: str, run: Callable[..., None] | None = None) -> click.Command:
    """Make a command with the parameters, the defaults and the docstring of a function.

    Args:
        function: The function. Each parameter is annotated with an `Argument` or an `Option`.
        name: Name of the command.
        run: Called instead of `function`, with the same arguments.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = [_parameter(each, hints[each.name]) for each in inspect.signature(function).parameters.values()]
    # a backspace before the examples makes click keep their lines
    text = re.sub(r"\n\n(?=Examples?:\n)", "\n\n\b\n", inspect.getdoc(function) or "")
    repeatable = {each.name for each in parameters if isinstance(each, click.Option) and each.multiple}

    def call(**values: Any) -> None:
        lists = {name: list(values[name] or ()) or None for name in repeatable}
        (run or function)(**{**values, **lists})

    return _Command(name, params=parameters, callback=call, help=text)


class _Command(click.Command):
    """A command whose help describes its arguments as well as its options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options."""
        rows = [(each.make_metavar(ctx), each.text) for each in self.params if isinstance(each, _Argument)]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    """An argument with a description."""

    def __init__(self, names: list[str], text: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.text = text


def _parameter(parameter: inspect.Parameter, hint: Any) -> click.Parameter:
    kind, described = typing.get_args(hint)[:2]
    many, kind = _element(kind)
    needed = parameter.default is parameter.empty
    default = None if needed else parameter.default
    if isinstance(described, Argument):
        settings: dict[str, Any] = {"type": kind, "nargs": -1 if many else 1, "required": needed}
        return _Argument([parameter.name], described.help, metavar=described.metavar, **settings)
    declared = [*described.names, parameter.name]
    if kind is bool:
        return click.Option(declared, help=described.help, is_flag=True, default=default)
    if typing.get_origin(kind) is Literal:
        kind = click.Choice(typing.get_args(kind))
    elif described.min is not None or described.max is not None:
        kind = (click.IntRange if kind is int else click.FloatRange)(described.min, described.max)
    shown = default is not None and default != ""
    return click.Option(declared, help=described.help, type=kind, default=default, multiple=many, show_default=shown)


def _element(kind: Any) -> tuple[bool, Any]:
    """Return whether a type is a list, and the type of a single value, without `| None`."""
    if isinstance(kind, types.UnionType):
        [kind] = [each for each in typing.get_args(kind) if each is not type(None)]
    if typing.get_origin(kind) in (list, tuple):
        return True, typing.get_args(kind)[0]
    return False, kind
