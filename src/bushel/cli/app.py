"""The commands, and what becomes of the errors that they raise."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from bushel.cli.originals import ORIGINALS, Original
from bushel.cli.output import STDOUT
from bushel.errors import BushelError, CodecError, FormatError, TooManyErrors, naming

__all__ = ["app", "exit_code_of", "guarded"]

_COMMANDS = (
    *("pack", "list_", "adapter", "convert", "split", "merge"),
    *("index", "verify", "repair", "bench", "info", "ls", "cat", "get", "version"),
)
"""Modules of this package, each with a function `command`, in the order of the help."""

_ARGUMENT = re.compile(r"(?<![^\s(])(?P<name>mode|kind|container)=(?:'(?P<value>\w+)'|(?=[\s:]|$))")
"""How messages name the arguments of functions that are options of commands, too."""

_FOUND, _WRONG_USE, _FAULT, _STOPPED, _BROKEN_PIPE = 1, 2, 70, 130, 141


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that turns errors into a line on standard error and an exit code."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        try:
            try:
                command(**arguments)
            finally:
                with naming(STDOUT):  # now, and not when the interpreter ends, which would say it worse
                    sys.stdout.flush()
        except (typer.Exit, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _say("stopped")
            raise typer.Exit(_STOPPED) from None
        except Exception as error:
            if isinstance(error, OSError) and (error.errno == errno.EPIPE or error.filename == STDOUT):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where the interpreter flushes the rest at its end
                if error.errno == errno.EPIPE:
                    raise typer.Exit(_BROKEN_PIPE) from None
            expected = isinstance(error, BushelError | OSError | ValueError | LookupError | MemoryError)
            if arguments.get("debug") or not expected:
                traceback.print_exc()
            _say(_describe(error) if expected else "this is a fault of Bushel itself: please report it")
            found = isinstance(error, FormatError | CodecError | TooManyErrors)
            raise typer.Exit(_FOUND if found else _WRONG_USE if expected else _FAULT) from None

    return run


def exit_code_of(command: Callable[[], None]) -> int:
    """Run a command of a script of one's own: errors are told as `bushel` tells them.

    Returns:
        The exit code.
    """
    try:
        guarded(command)()
    except typer.Exit as end:
        return end.exit_code
    return 0


def _help(command: Callable[..., None]) -> str:
    """The docstring, with the examples marked by the backspace that makes Click keep their lines."""
    return re.sub(r"\n\n(?=Examples?:\n)", "\n\n\b\n", inspect.getdoc(command) or "")


def _describe(error: Exception) -> str:
    """An error in one line, and below it what to do about it and whose it is, in the words of the command line."""
    hint = error.hint if isinstance(error, FormatError) else None
    first = _first_line(error) if hint is None else str(error).removesuffix(f" ({hint})")
    lines = [first, *([] if hint is None else [hint]), *getattr(error, "__notes__", ())]
    return _ARGUMENT.sub(_as_option, "\n".join(lines))


def _as_option(argument: re.Match[str]) -> str:
    name, value = argument["name"], argument["value"]
    return f"--{value}" if name == "mode" else f"--{name}{' ' if value else ''}{value or ''}"


def _first_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    if isinstance(error, OSError) and error.strerror:
        files = [str(file) for file in (error.filename, error.filename2) if file is not None]
        return f"{' -> '.join(files)}: {error.strerror}" if files else error.strerror
    if isinstance(error, KeyError) and error.args and not isinstance(error, BushelError):
        return str(error.args[0])
    return str(error) or type(error).__name__


def _say(text: str) -> None:
    typer.echo("bushel: " + text.replace("\n", "\n        "), err=True)


class _Group(TyperGroup):
    """Lists the originals' commands in a group of their own."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write both groups of commands into the help."""
        names = self.list_commands(ctx)
        named = [(name, self.get_command(ctx, name)) for name in names]
        limit = formatter.width - max(map(len, names)) - 6
        own = [(name, command.get_short_help_str(limit)) for name, command in named if command is not None]
        for title, rows in (
            ("Commands", [row for row in own if row[0] not in ORIGINALS]),
            ("The originals' own commands, as they were", [row for row in own if row[0] in ORIGINALS]),
        ):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _as_it_was(original: Original) -> Callable[..., None]:
    """A command that hands all its arguments to the drop-in, which knows their old spelling."""

    def command(context: typer.Context) -> None:
        raise typer.Exit(original.load()(list(context.args)))

    return command


app = typer.Typer(
    name="bushel",
    cls=_Group,
    help="Training data in five containers: bag, tar, ffrecord, gulp and recordio.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 fine, 1 problems found in the data, 2 wrong use, 130 stopped by Ctrl-C.",
)
for name in _COMMANDS:
    function = import_module(f"bushel.cli.{name}").command
    app.command(name.rstrip("_"), help=_help(function))(guarded(function))
for name, original in ORIGINALS.items():
    app.command(
        name,
        help=original.help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
    )(guarded(_as_it_was(original)))
