"""`bushel get`."""

from __future__ import annotations

import pathlib
import sys
from typing import Annotated

import click

from bushel.cli.command import Argument, Option
from bushel.cli.options import Debug, Kind, Path, Pickle

__all__ = ["command"]


def command(
    path: Path,
    sample: Annotated[str, Argument(help="Its key, or its position where no sample has that key.")],
    field: Annotated[str | None, Argument(help="Its name; frames[3] is an element of a sequence.")] = None,
    output: Annotated[str, Option("--output", "-o", help="File to write; '-' is standard output.")] = "-",
    raw: Annotated[bool, Option("--raw", help="Print binary data even on a terminal.")] = False,
    position: Annotated[bool, Option("--position", help="SAMPLE is a position, even if it is a key too.")] = False,
    container: Kind = None,
    pickle: Pickle = False,
    debug: Debug = False,
) -> None:
    """Print a sample as JSON, or the stored bytes of one of its fields.

    Examples:
      bushel get train/ n01440764/10026 image -o fish.jpg
      bushel get train/ 0
    """
    import bushel
    from bushel.cli.describe import find_sample, is_readable, lines, stored_value
    from bushel.cli.output import print_bytes, print_json
    from bushel.errors import naming
    from bushel.storage import as_path, write_whole

    dataset = bushel.open(path, container=container, pickle=pickle)
    at = find_sample(dataset, sample, by_position=position)
    if field is None:
        for line in lines(dataset, at, 1, None):
            print_json(line)
        return
    kind, data = stored_value(dataset, at, field)
    if output != "-":
        target = as_path(output)
        if isinstance(target, pathlib.Path):  # as it is: a device, a pipe, no new folder
            with naming(target):
                target.write_bytes(data)
        else:
            write_whole(target, data)
        return
    if sys.stdout.isatty() and not raw and not is_readable(kind):
        raise click.BadParameter(
            f"{len(data)} bytes of {kind} are not for a terminal: write them to a file with -o FILE, or use --raw"
        )
    print_bytes(data)
