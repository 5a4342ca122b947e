"""`bushel get`."""

from __future__ import annotations

import pathlib
import sys
from typing import Annotated

import click

from .command import Argument, Option
from .options import DatasetOptions, OnePath, Pickle


def command(
    path: OnePath,
    sample: Annotated[
        str,
        Argument("Key of the sample, or its position if no sample has that key.", files=False),
    ],
    field: Annotated[
        str | None,
        Argument("Name of a field; frames[3] is an element of a sequence.", files=False),
    ] = None,
    output: Annotated[str, Option("File to write; - is standard output.", "--output", "-o")] = "-",
    raw: Annotated[bool, Option("Print binary data even on a terminal.")] = False,
    position: Annotated[
        bool, Option("SAMPLE is a position, even if a sample has it as key.")
    ] = False,
    *,
    chosen: DatasetOptions,
    pickle: Pickle = False,
) -> None:
    """Print a sample as JSON, or the stored bytes of one of its fields.

    Examples:
      bushel get train/ n01440764/10026 image -o fish.jpg
      bushel get train/ 0
    """
    import bushel
    from bushel.errors import naming

    from .describe import find_sample, is_readable, lines, stored_value
    from .output import harmless, print_bytes, print_json

    dataset = bushel.open(chosen.files(path), container=chosen.container, pickle=pickle)
    at = find_sample(dataset, sample, by_position=position)
    if field is None:
        for line in lines(dataset, at, 1, None):
            print_json(line)
        return
    kind, data = stored_value(dataset, at, field)
    if output != "-":
        from bushel.storage import as_path, write_whole

        target = as_path(output)
        if isinstance(target, pathlib.Path):  # may be a device or a pipe; folders are not made
            with naming(target):
                target.write_bytes(data)
        else:
            write_whole(target, data)
        return
    if sys.stdout.isatty() and not raw and not is_readable(kind):
        raise click.BadParameter(
            f"{len(data)} bytes of {kind} cannot be shown on a terminal: use -o FILE to write a"
            " file, or --raw"
        )
    if sys.stdout.isatty() and not raw:
        data = harmless(bytes(data).decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
    print_bytes(data)
