"""`bushel cat`."""

from __future__ import annotations

from typing import Annotated

from .command import Option
from .options import Allow, DatasetOptions, Path, Pickle


def command(
    path: Path,
    number: Annotated[
        int | None, Option("Number of samples to print. [default: all]", "-n", "--limit", min=0)
    ] = None,
    start: Annotated[int, Option("Position of the first sample.", min=0)] = 0,
    fields: Annotated[
        str | None, Option("Fields to print, such as label,text. [default: all]")
    ] = None,
    *,
    chosen: DatasetOptions,
    allow_commands: Allow = False,
    pickle: Pickle = False,
) -> None:
    """Print samples as lines of JSON.

    Text and numbers are decoded. Other values are printed as their size and SHA-256.

    Example:
      bushel cat train/ --fields label | jq .label | sort | uniq -c
    """
    from bushel._dataset.open.open import open_any

    from .describe import lines
    from .output import print_json

    files = chosen.files(path)
    try:
        dataset = open_any(
            files,
            container=chosen.container,
            pickle=pickle,
            allow_commands=allow_commands,
            on_damage="warn",
        )
    except FileNotFoundError as error:
        if not isinstance(path, str):
            error.add_note("several paths are one dataset; `bushel get PATH KEY` prints one sample")
        raise
    names = None if fields is None else [name for name in fields.split(",") if name]
    for line in lines(dataset, start, number, names):
        print_json(line)
