"""The command group, and the messages and exit codes of errors."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from bushel import __version__
from bushel.cli.command import QUIET, command_from
from bushel.cli.originals import ORIGINALS, Original
from bushel.cli.output import STDOUT, print_json
from bushel.errors import BushelError, CodecError, DamagedWarning, FormatError, IncompleteWarning, TooManyErrors, naming

__all__ = ["app", "exit_code_of", "guarded"]

_COMMANDS = {
    "pack": "Pack images, videos, lists, arrays or files into a dataset.",
    "list": "Write lists of images for `bushel pack` and MXNet's im2rec.",
    "adapter": "Make a command line for an adapter class of GulpIO.",
    "convert": "Write a dataset in another container, or with other fields, types or shards.",
    "parts": "Show how far a run in parts is: missing parts, errors, and its driver.",
    "finish": "Join the parts of a run to one dataset: manifest, class names, error log.",
    "split": "Divide a dataset into several datasets.",
    "merge": "Concatenate several datasets into one.",
    "index": "Index a dataset, and store the index in `.bushel` beside it.",
    "verify": "Check a dataset: structure, index, checksums, keys.",
    "repair": "Write the intact samples of a damaged dataset to a new one.",
    "bench": "Measure how fast a dataset loads, and what limits it.",
    "view": "Look at datasets in a browser.",
    "sheet": "Write a contact sheet: many samples of a dataset in one picture.",
    "info": "Describe a dataset: container, samples, fields, sizes, keys, checksums.",
    "ls": "List the keys of a dataset, in order.",
    "cat": "Print samples as lines of JSON.",
    "get": "Print a sample as JSON, or the stored bytes of one of its fields.",
    "version": "Print the version of Bushel.",
    "completion": "Print a script that completes commands and options of `bushel` in a shell.",
}
"""The commands and what they do, in the order of the help. Each is the function `command` of the module of its name,
which is imported when the command is used."""

_ARGUMENT = re.compile(r"(?<![^\s(])(?P<name>mode|kind|container)=(?:'(?P<value>\w+)'|(?=[\s:]|$))")
"""Arguments of Python functions in error messages. Commands show them as options."""
_AS_OPTIONS = {"bushel.sources.Files": "--kind files", "suffixes=": "--exts"}
"""Other things in error messages that Python and the commands call differently."""

_FOUND, _WRONG_USE, _FAULT, _STOPPED, _BROKEN_PIPE = 1, 2, 70, 130, 141


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that errors become a line on standard error and an exit code."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        try:
            try:
                with warnings.catch_warnings():
                    warnings.showwarning = _show_warning
                    for kind in (DamagedWarning, IncompleteWarning):
                        warnings.simplefilter("always", kind)
                    if _wants_quiet(arguments):
                        warnings.simplefilter("ignore")
                    command(**arguments)
            finally:
                with naming(STDOUT):  # an error here is reported more clearly than one at exit
                    sys.stdout.flush()
        except (click.exceptions.Exit, click.BadParameter):
            raise
        except KeyboardInterrupt:
            _say("stopped")
            raise click.exceptions.Exit(_STOPPED) from None
        except Exception as error:
            if isinstance(error, OSError) and (error.errno == errno.EPIPE or error.filename == STDOUT):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes at exit
                if error.errno == errno.EPIPE:
                    raise click.exceptions.Exit(_BROKEN_PIPE) from None
            expected = isinstance(error, BushelError | OSError | ValueError | LookupError | MemoryError)
            if arguments.get("debug") or not expected:
                import traceback

                traceback.print_exc()
            text, found = _describe(error), isinstance(error, FormatError | CodecError | TooManyErrors)
            if arguments.get("as_json") and expected and getattr(error, "filename", None) != STDOUT:
                _say_json(type(error).__name__, text, _FOUND if found else _WRONG_USE)
                raise click.exceptions.Exit(_FOUND if found else _WRONG_USE) from None
            _say(text if expected else "this is a bug in Bushel: please report it")
            raise click.exceptions.Exit(_FOUND if found else _WRONG_USE if expected else _FAULT) from None

    return run


def _wants_quiet(arguments: dict[str, Any]) -> bool:
    context = click.get_current_context(silent=True)
    return bool(arguments.get("quiet") or (context is not None and context.meta.get(QUIET)))


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    if isinstance(message, IncompleteWarning):
        text = str(message).replace("; open it with partial=True to use it as it is", "")
        _say("warning: " + _ARGUMENT.sub(_as_option, text))
    else:
        _say(f"warning: {message}")


def exit_code_of(command: Callable[[], None]) -> int:
    """Run a command of another script, with the error messages of `bushel`.

    Returns:
        The exit code.
    """
    try:
        guarded(command)()
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0


def _describe(error: Exception) -> str:
    """Return an error as one line, followed by its hint and notes, with options instead of arguments."""
    hint = error.hint if isinstance(error, FormatError) else None
    first = _first_line(error) if hint is None else str(error).removesuffix(f" ({hint})")
    lines = [first, *([] if hint is None else [hint]), *getattr(error, "__notes__", ())]
    text = _ARGUMENT.sub(_as_option, "\n".join(lines))
    for python, option in _AS_OPTIONS.items():
        text = text.replace(python, option)
    return text


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


def _say_json(kind: str, text: str, code: int) -> None:
    print_json({"error": {"type": kind, "message": text, "exit_code": code}})
    sys.stdout.flush()


def _say(text: str) -> None:
    click.echo("bushel: " + text.replace("\n", "\n        "), err=True)


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(__version__)
        ctx.exit()


class _Group(click.Group):
    """The command group: Bushel's commands, and the commands of the original tools."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*_COMMANDS, *ORIGINALS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name in ORIGINALS:
            return _original(cmd_name, ORIGINALS[cmd_name])
        if cmd_name not in _COMMANDS:
            return None
        module = "list_" if cmd_name == "list" else cmd_name
        function = import_module(f"bushel.cli.{module}").command
        return command_from(function, cmd_name, guarded(function))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the arguments name. With `--json`, wrong use is told as JSON, too."""
        as_json = "--json" in [*ctx._protected_args, *ctx.args]
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not as_json:
                raise
            _say_json("UsageError", error.format_message(), _WRONG_USE)
            raise click.exceptions.Exit(_WRONG_USE) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=3)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both groups of commands into the help."""
        for title, rows in (
            ("Commands", list(_COMMANDS.items())),
            ("Commands of the original tools", [(name, original.help) for name, original in ORIGINALS.items()]),
        ):
            with formatter.section(title):
                formatter.write_dl(rows)


def _original(name: str, original: Original) -> click.Command:
    """Return a command that passes all its arguments to the drop-in, which parses them as the original did."""

    def call(arguments: tuple[str, ...]) -> None:
        raise click.exceptions.Exit(original.load()(list(arguments)))

    return click.Command(
        name,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        callback=guarded(call),
        help=original.help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )


app = _Group(
    "bushel",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version.",
        )
    ],
    help="Training data in five containers: bag, tar, ffrecord, gulp and recordio.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 problems found in the data, 2 wrong use, 130 stopped by Ctrl-C.",
)
