"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Allow", "Debug", "Json", "Kind", "Path", "Pickle", "Quiet", "Workers", "pairs"]

Path = Annotated[
    str,
    typer.Argument(
        help="A file, a folder, a glob or a brace pattern such as 'train-{000..146}.tar'; local, or a URL: s3://, "
        "gs://, az://, https://."
    ),
]
Kind = Annotated[
    str | None,
    typer.Option("--container", "-c", help="bag, tar, ffrecord, gulp or recordio, where a folder holds several."),
]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Shards to work on at once.")]
Allow = Annotated[bool, typer.Option("--allow-commands", help="Let 'pipe:COMMAND' as PATH run that command.")]
Pickle = Annotated[
    bool, typer.Option("--pickle", help="Unpickle gulp metadata, which runs code of whoever wrote the file.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no summary.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in Bushel an error was raised.")]


def pairs(items: list[str] | None, option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` options.

    Raises:
        BadParameter: One has no `=`.
    """
    found = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise typer.BadParameter(f"{item!r} should be NAME=VALUE", param_hint=option)
        found[name] = value
    return found
