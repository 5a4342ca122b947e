"""Output of the commands: JSON, aligned columns, sizes, and progress bars in terminals."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import Buffer

from bushel._runtime.amounts import count, size
from bushel.errors import naming

if TYPE_CHECKING:
    from bushel._runtime.progress import OnProgress, Progress, ShowProgress

__all__ = [
    "STDOUT",
    "columns",
    "count",
    "harmless",
    "print_bytes",
    "print_csv",
    "print_json",
    "print_text",
    "progress_of",
    "resumable",
    "say",
    "size",
]

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


def print_csv(row: Sequence[object]) -> None:
    """Print a line of CSV. None is empty."""
    import csv
    import io

    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(row)
    print_text(line.getvalue())


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # names that are not UTF-8
        text = json.dumps(value, allow_nan=False, default=str)
    print_text(text)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of aligned columns: text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if cell[:1].isdigit() or at > 2 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


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
        raise click.BadParameter(f"{kind!r} is not bar, json or none", param_hint="--progress")
    return kind == "bar" and not quiet


def _show_json(started: float) -> OnProgress:
    def show(now: Progress) -> None:
        seconds = time.monotonic() - started
        import json

        from msgspec.structs import asdict

        facts = {"seconds": round(seconds, 3), **asdict(now)}
        click.echo(
            json.dumps({**facts, "per_second": round(now.done / max(seconds, 1e-9), 1)}), err=True
        )

    return show


@contextmanager
def resumable(target: str) -> Iterator[None]:
    """On Ctrl-C in the block, print how to continue the command, and end it."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"bushel: stopped; --resume continues {target}")
        raise click.exceptions.Exit(130) from None


def say(text: str) -> None:
    """Print a note on standard error."""
    click.echo(text, err=True)
