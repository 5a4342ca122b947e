"""What the commands print: JSON, aligned columns, progress, and the messages and exit codes of errors."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import Buffer

from bushel._runtime.messages import count as count
from bushel._runtime.messages import size as size
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

if TYPE_CHECKING:
    from bushel._runtime.progress import OnProgress, Progress, ShowProgress

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, change colours or titles, or turn the direction of text."""

STDOUT = "standard output"
"""The name of the file in errors of printing."""


def print_text(text: str) -> None:
    """Print a line. File names and keys that are not UTF-8 are printed as their original bytes.

    On a terminal, characters that control it are printed as Python writes them, since keys and
    values are not trusted.
    """
    if sys.stdout.isatty():
        text = harmless(text)
    print_bytes(text.encode("utf-8", "surrogateescape") + b"\n")


def harmless(text: str) -> str:
    r"""Return a text in which characters that control terminals are escaped, as in `\x1b`; tabs and line ends stay."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def print_bytes(data: Buffer) -> None:
    """Print bytes unchanged."""
    with naming(STDOUT):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_jsonable)
    try:
        text.encode()
    except UnicodeEncodeError:  # names that are not UTF-8
        text = json.dumps(value, allow_nan=False, default=_jsonable)
    print_text(text)


def _jsonable(value: Any) -> Any:
    """Return the fields of a dataclass, and anything else as text."""
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of aligned columns: text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if cell[:1].isdigit() or at > 2 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def wrong_option(option: str, message: str) -> click.BadParameter:
    """Return the error for a wrong value of an option."""
    return click.BadParameter(message, param_hint=option)


def progress_of(kind: str, *, quiet: bool) -> ShowProgress:
    """Return the `progress=` of a call.

    Args:
        kind: `bar`; `json` for a line of JSON at a time, in a terminal or not; or `none`.
        quiet: Whether to show no bar.

    Raises:
        BadParameter: The kind is unknown.
    """
    if kind == "json":
        return _show_json(time.monotonic())
    if kind not in ("bar", "none"):
        raise wrong_option("--progress", f"{kind!r} is not bar, json or none")
    return kind == "bar" and not quiet


def _show_json(started: float) -> OnProgress:
    def show(now: Progress) -> None:
        seconds = time.monotonic() - started
        import json

        from msgspec.structs import asdict

        facts = {"seconds": round(seconds, 3), **asdict(now)}
        say(json.dumps({**facts, "per_second": round(now.done / max(seconds, 1e-9), 1)}))

    return show


@contextmanager
def resumable(target: str) -> Iterator[None]:
    """On Ctrl-C in the block, print how to continue the command, and end it."""
    try:
        yield
    except KeyboardInterrupt:
        say(
            f"bushel: stopped; the same command with --resume continues {target} after its last finished shard"
        )
        raise click.exceptions.Exit(130) from None


def say(text: str) -> None:
    """Print a note on standard error."""
    click.echo(text, err=True)


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
    " of bushel.sources.Table": "",
    "root=": "--root ",
    "file=": "--file ",
    " (keys= takes a function)": "",
    "keys=False": "--no-keys",
}
"""Other terms in error messages that differ between Python and the commands."""

FOUND, WRONG_USE, _FAULT, _STOPPED, _BROKEN_PIPE = 1, 2, 70, 130, 141


def guarded(command: Callable[..., bool | None]) -> Callable[..., None]:
    """Wrap a command so that errors become a line on standard error and an exit code.

    The command returns False if it found problems in the data: the exit code is then 1.
    """

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
                    fine = command(**arguments)
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
            expected = _of_transform(error) or isinstance(
                error, BushelError | OSError | ValueError | LookupError | MemoryError
            )
            if options.get(DEBUG) or not expected:
                import traceback

                traceback.print_exc()
            text = _describe(error)
            is_problem = isinstance(error, FormatError | CodecError | TooManyErrors)
            exit_code = FOUND if is_problem else WRONG_USE
            if options.get("as_json") and expected and getattr(error, "filename", None) != STDOUT:
                say_json(type(error).__name__, text, exit_code)
                raise click.exceptions.Exit(exit_code) from None
            if not expected:
                text, exit_code = "this is a bug in Bushel: please report it", _FAULT
            _say(text)
            raise click.exceptions.Exit(exit_code) from None
        if fine is False:
            raise click.exceptions.Exit(FOUND)

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
    lines = [_first_line(error)]
    if isinstance(error, FormatError) and error.hint is not None:
        lines = [str(error).removesuffix(f" ({error.hint})"), error.hint]
    return with_options("\n".join([*lines, *getattr(error, "__notes__", ())]))


def with_options(text: str) -> str:
    """Return a message with the options of the running command in the place of arguments of Python functions."""
    text = _ARGUMENT.sub(_as_option, text)
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


def _of_transform(error: Exception) -> bool:
    """Return whether a function of the user raised the error, so that it is not a bug in Bushel."""
    notes = getattr(error, "__notes__", ())
    return any(note.startswith("in the transform ") for note in notes)


def _first_line(error: Exception) -> str:
    if _of_transform(error):
        return f"{type(error).__name__}: {error}"
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
