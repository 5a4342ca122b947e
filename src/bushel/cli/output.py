"""What commands print: JSON, aligned columns, sizes, and progress where somebody looks on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typing_extensions import Buffer

from bushel.errors import naming

__all__ = [
    "STDOUT",
    "columns",
    "count",
    "print_bytes",
    "print_json",
    "print_text",
    "progress",
    "resumable",
    "say",
    "size",
]

STDOUT = "standard output"
"""The file that an error of printing names."""

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def print_text(text: str) -> None:
    """Print a line; names of files and keys that are no UTF-8 come out as the bytes that they are."""
    print_bytes(text.encode("utf-8", "surrogateescape") + b"\n")


def print_bytes(data: Buffer) -> None:
    """Print bytes as they are."""
    with naming(STDOUT):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # names that are no UTF-8
        text = json.dumps(value, allow_nan=False, default=str)
    print_text(text)


def size(number: float) -> str:
    """Bytes as a person reads them: `12.3 MB`."""
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 else f"{number:.3g} {_UNITS[unit]}"


def count(number: int, noun: str) -> str:
    """`1 shard`, `2 shards`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of aligned columns: the first ones to the left, those of numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if cell[:1].isdigit() or at > 2 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


@contextmanager
def progress(what: str, unit: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """A progress bar on standard error while the block runs, if that is a terminal.

    Args:
        what: What is going on.
        unit: What is counted: `bytes`, or the name of things.
        quiet: Show nothing.

    Yields:
        A function of what is done and of all there is to do, or None when nothing is shown.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counted = (DownloadColumn(),) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    places = (TextColumn(what), BarColumn(), *counted, TimeRemainingColumn())
    bar = Progress(*places, console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def resumable(target: str) -> Iterator[None]:
    """Ctrl-C in the block says how the command is gone on with, and ends it."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"bushel: stopped; --resume goes on with {target}", quiet=False)
        raise typer.Exit(130) from None


def say(text: str, *, quiet: bool) -> None:
    """Print a remark on standard error."""
    if not quiet:
        typer.echo(text, err=True)
