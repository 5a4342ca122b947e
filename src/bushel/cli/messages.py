"""The messages and the exit codes of errors."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import click

from bushel.errors import (
    BushelError,
    CodecError,
    DamagedWarning,
    FormatError,
    IncompleteWarning,
    TooManyErrors,
    UntrustedWarning,
    naming,
)

from .command import DEBUG, QUIET
from .output import STDOUT, print_json

_ARGUMENT = re.compile(
    r"(?<![^\s(])(?P<name>mode|kind|container|engine|parts?|resize|images|to|(?<!, )split)="
    r"(?:'(?P<text>\w+)'|(?P<number>-?\d+)|(?=[\s:,]|$))"
)
"""Arguments of Python functions in error messages. Commands show them as options."""
_LONG_ARGUMENT = re.compile(
    r"(?<![\w'\"./=-])(?P<name>[a-z]+(?:_[a-z]+)+)(?:=(?:True\b|(?P<value>[\w.+-]+)))?(?![\w'\"=(/])"
)
"""The same of those whose names have an underscore, with or without a value."""
_AS_OPTIONS = {
    "bushel.sources.Files": "--kind files",
    "suffixes=": "--exts",
    "root=": "--root ",
    "file=": "--file ",
    " (keys= takes a function)": "",
    "keys=False": "--no-keys",
}
"""Other terms in error messages that differ between Python and the commands."""
_NEW_NAME = re.compile(
    r"(?:choose fields with ds\.fields\(\[\.\.\.\]\), or" r" )?(.*)names=\{'(.+?)': '(.+?)'\}"
)

FOUND, WRONG_USE, _FAULT, _STOPPED, _BROKEN_PIPE = 1, 2, 70, 130, 141


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that errors become a line on standard error and an exit code."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        context = click.get_current_context(silent=True)
        options = {} if context is None else {**context.meta, **context.params}
        try:
            try:
                with warnings.catch_warnings():
                    warnings.showwarning = _show_warning
                    for kind in (DamagedWarning, IncompleteWarning, UntrustedWarning):
                        warnings.simplefilter("always", kind)
                    if options.get(QUIET) or options.get("quiet"):
                        warnings.simplefilter("ignore")
                    command(**arguments)
            finally:
                with naming(STDOUT):  # an error here is reported more clearly than one at exit
                    sys.stdout.flush()
        except (click.exceptions.Exit, click.BadParameter):
            raise
        except KeyboardInterrupt:
            raise stopped() from None
        except Exception as error:
            if isinstance(error, OSError) and (
                error.errno == errno.EPIPE or error.filename == STDOUT
            ):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes at exit
                if error.errno == errno.EPIPE:
                    raise click.exceptions.Exit(_BROKEN_PIPE) from None
            expected = isinstance(
                error, BushelError | OSError | ValueError | LookupError | MemoryError
            )
            if options.get(DEBUG) or not expected:
                import traceback

                traceback.print_exc()
            text, is_problem = (
                _describe(error),
                isinstance(error, FormatError | CodecError | TooManyErrors),
            )
            exit_code = FOUND if is_problem else WRONG_USE
            if options.get("as_json") and expected and getattr(error, "filename", None) != STDOUT:
                say_json(type(error).__name__, text, exit_code)
                raise click.exceptions.Exit(exit_code) from None
            if not expected:
                text, exit_code = "this is a bug in Bushel: please report it", _FAULT
            _say(text)
            raise click.exceptions.Exit(exit_code) from None

    return run


def _show_warning(
    message: Warning | str, category: type[Warning], *place: Any, **more: Any
) -> None:
    if isinstance(message, UntrustedWarning):
        _say(
            f"warning: {message}".partition(", or with spec=")[0].replace("pickle=True", "--pickle")
        )
    elif isinstance(message, IncompleteWarning):
        text = str(message).replace("; open it with allow_incomplete=True to use it as it is", "")
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
    if hint is None:
        first = _first_line(error)
    else:
        first = str(error).removesuffix(f" ({hint})")
    lines = [first, *([] if hint is None else [hint]), *getattr(error, "__notes__", ())]
    return with_options("\n".join(lines))


def with_options(text: str) -> str:
    """Return a message with the options of the running command in the place of arguments of Python functions."""
    text = _NEW_NAME.sub(r"\1--rename \2=\3", _ARGUMENT.sub(_as_option, text))
    for python, option in _AS_OPTIONS.items():
        text = text.replace(f"{python} ", f"{option.rstrip()} ").replace(python, option)
    context = click.get_current_context(silent=True)
    if context is None:
        options = set()
    else:
        options = {name for parameter in context.command.params for name in parameter.opts}

    def option_of(argument: re.Match[str]) -> str:
        option = f"--{argument['name'].replace('_', '-')}"
        if option in options:
            return f"{option} {argument['value'] or ''}".rstrip()
        return argument[0]

    return _LONG_ARGUMENT.sub(option_of, text)


def _as_option(argument: re.Match[str]) -> str:
    name, value = argument["name"], argument["text"] or argument["number"]
    if name == "mode":
        return f"--{value}"
    return f"--{name}{' ' if value else ''}{value or ''}"


def _first_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        if str(error):
            return f"out of memory: {error}"
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        files = [str(file) for file in (error.filename, error.filename2) if file is not None]
        if files:
            return f"{' -> '.join(files)}: {error.strerror}"
        return error.strerror
    if isinstance(error, KeyError) and error.args and not isinstance(error, BushelError):
        return str(error.args[0])
    return str(error) or type(error).__name__


def say_json(kind: str, text: str, code: int) -> None:
    """Print an error as JSON."""
    print_json({"error": {"type": kind, "message": text, "exit_code": code}})
    sys.stdout.flush()


def stopped() -> click.exceptions.Exit:
    """Print that Ctrl-C stopped the command, and return its exit."""
    _say("stopped")
    return click.exceptions.Exit(_STOPPED)


def _say(text: str) -> None:
    click.echo("bushel: " + text.replace("\n", "\n        "), err=True)
