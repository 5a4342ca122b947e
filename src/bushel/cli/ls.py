"""`bushel ls`."""

from __future__ import annotations

from typing import Annotated

from bushel.cli.command import Option
from bushel.cli.options import Allow, Debug, Json, Kind, Path, Pickle

__all__ = ["command"]


def command(
    path: Path,
    number: Annotated[int | None, Option("-n", min=0, help="Number of samples to list. [default: all]")] = None,
    start: Annotated[int, Option("--start", min=0, help="Position of the first sample.")] = 0,
    fields: Annotated[bool, Option("--fields", help="Show the size in bytes of every field.")] = False,
    container: Kind = None,
    allow_commands: Allow = False,
    pickle: Pickle = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the keys of a dataset, in order.

    Only the index is read.

    Examples:
      bushel ls train/ -n 10 --fields
      bushel ls train/ --json | jq .key
    """
    from bushel.cli.describe import listing
    from bushel.cli.output import print_json, print_text
    from bushel.core.dataset.open import open_any

    dataset = open_any(path, container=container, pickle=pickle, allow_commands=allow_commands, damaged="warn")
    for position, key, sizes in listing(dataset, start, number, sizes=fields or as_json):
        if as_json:
            print_json({"position": position, "key": key, "fields": sizes})
        else:
            print_text("  ".join([key, *(f"{name}={found}" for name, found in sizes.items())]))
