"""`bushel sheet`."""

from __future__ import annotations

from typing import Annotated

import click

from bushel._runtime.structs import Struct
from bushel.cli.command import Argument, Option
from bushel.cli.options import DatasetOptions, OnePath, Quiet


class DrawOptions(Struct, frozen=True):
    """The samples to draw, and their size."""

    rows: Annotated[int, Option("Number of rows.", min=1, max=200)] = 8
    columns: Annotated[int, Option("Number of samples in a row.", min=1, max=200)] = 8
    side: Annotated[
        int,
        Option("Largest width and height of the samples in pixels.", min=16, max=1024),
    ] = 160
    where: Annotated[
        str | None,
        Option("Only samples that meet this condition on columns, such as 'label == 3'."),
    ] = None
    start: Annotated[int, Option("Position of the first sample, after --where.", min=0)] = 0
    field: Annotated[
        str | None,
        Option("The field to draw. [default: the first image, clip or array]"),
    ] = None


def command(
    path: OnePath,
    output: Annotated[str, Argument("The picture to write: .jpg, .png or .webp.", metavar="OUT")],
    *,
    drawing: DrawOptions,
    chosen: DatasetOptions,
    quiet: Quiet = False,
) -> None:
    """Write a contact sheet: many samples of a dataset in one picture.

    The exit code is 1 if a sample on it cannot be read or decoded; its frame is empty.

    Examples:
      bushel sheet train/ first.jpg
      bushel sheet train/ cats.jpg --where "label == 3" --rows 4
    """
    import os

    import bushel
    from bushel._pictures.notebook import main_field
    from bushel._pictures.sheet import contact_sheet
    from bushel.cli.output import count, say
    from bushel.errors import naming

    if os.path.splitext(output)[1].lower() not in (".jpg", ".jpeg", ".png", ".webp"):
        raise click.BadParameter(f"{output!r} should end in .jpg, .png or .webp", param_hint="OUT")
    dataset = bushel.open(chosen.files(path), container=chosen.container)
    if drawing.where is not None:
        dataset = dataset.where(drawing.where)
    drawn = drawing.field or main_field(dataset.spec)
    if drawn is None:
        raise ValueError(
            "the dataset has no image, clip or array to draw: the fields are"
            f" {', '.join(dataset.spec) or 'none'}"
        )
    if drawn not in dataset.spec:
        raise KeyError(f"unknown field {drawn!r}: the fields are {', '.join(dataset.spec)}")
    start, columns = drawing.start, drawing.columns
    keys = dataset.keys[start : start + drawing.rows * columns]
    if not keys:
        raise ValueError(
            f"no samples to draw: the dataset has {count(len(dataset), 'sample')}, --start {start}"
        )
    columns = min(columns, len(keys))
    sheet, bad = contact_sheet(
        dataset, drawn, keys, columns=columns, side=drawing.side, first=start
    )
    with naming(output):
        sheet.save(output, quality=88)
    if not quiet:
        say(f"{output}: {count(len(keys), 'sample')} of {len(dataset):,}")
    if bad:
        say(f"bushel: {count(bad, 'sample')} cannot be drawn; `bushel verify --decode` prints why")
        raise click.exceptions.Exit(1)
