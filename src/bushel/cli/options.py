"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import click

if TYPE_CHECKING:
    from bushel.core.writer.dataset_writer import Mode

from bushel.cli.command import Argument, Option

__all__ = [
    "Allow",
    "Append",
    "Debug",
    "Generation",
    "Json",
    "Keys",
    "Kind",
    "NewKind",
    "Overwrite",
    "Path",
    "Pickle",
    "Quiet",
    "ReplaceDots",
    "Resume",
    "ShardBytes",
    "ShardSamples",
    "Target",
    "TileJpeg",
    "Workers",
    "form_of_keys",
    "mode_of",
    "pairs",
]

Path = Annotated[
    str,
    Argument(
        help="A file, a folder, a glob or a brace pattern such as 'train-{000..146}.tar'; local, or a URL: s3://, "
        "gs://, az://, https://."
    ),
]
Kind = Annotated[
    str | None,
    Option("--container", "-c", help="bag, tar, ffrecord, gulp or recordio, where a folder holds several."),
]
Target = Annotated[str, Argument(help="A new folder, or one file: out/train.tar, train.ffr, s3://bucket/train.rec.")]
NewKind = Annotated[
    str | None,
    Option("--container", "-c", help="bag, tar, ffrecord, gulp or recordio. TARGET's suffix may say it."),
]
ShardSamples = Annotated[int | None, Option("--shard-samples", min=1, help="Samples in a shard.")]
ShardBytes = Annotated[str | None, Option("--shard-bytes", help="Bytes in a shard: 1GB, 500MiB.")]
Generation = Annotated[
    str | None, Option("--generation", help="Of a bag: B (Granular 0.20, 0.21) or C (from 0.22 on).")
]
TileJpeg = Annotated[str | None, Option("--jpeg", help="tile: store JPEGs, without loss, so that crops decode faster.")]
Keys = Annotated[bool, Option("--keys/--no-keys", help="Keep keys, or leave them out.")]
ReplaceDots = Annotated[
    str | None, Option("--replace-dots", help="Put this for every dot in a key; a tar can hold none.")
]
Append = Annotated[bool, Option("--append", help="Add samples to the dataset at TARGET.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace the dataset at TARGET once the new one is complete.")]
Resume = Annotated[bool, Option("--resume", help="Continue an interrupted run with the same options.")]
Workers = Annotated[int | None, Option("--workers", min=1, help="Shards to work on at once.")]
Allow = Annotated[bool, Option("--allow-commands", help="Let 'pipe:COMMAND' as PATH run that command.")]
Pickle = Annotated[bool, Option("--pickle", help="Unpickle gulp metadata, which runs code of whoever wrote the file.")]
Json = Annotated[bool, Option("--json", help="Print JSON for machines on standard output.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print no progress and no summary.")]
Debug = Annotated[bool, Option("--debug", help="Show where in Bushel an error was raised.")]


def mode_of(*, append: bool, resume: bool, overwrite: bool = False) -> Mode:
    """Return the mode of `bushel.Writer`.

    Raises:
        BadParameter: More than one of the options is given.
    """
    modes: dict[Mode, bool] = {"append": append, "resume": resume, "overwrite": overwrite}
    given: list[Mode] = [mode for mode, wanted in modes.items() if wanted]
    if len(given) > 1:
        raise click.BadParameter(f"--{given[0]} and --{given[1]} exclude each other", param_hint=f"--{given[0]}")
    return given[0] if given else "create"


def form_of_keys(*, keys: bool, replace_dots: str | None) -> bool | Callable[[str], str]:
    """Whether keys are kept, or the new form of each.

    Raises:
        BadParameter: None are kept, and yet have a new form.
    """
    if replace_dots is None:
        return keys
    if not keys:
        raise click.BadParameter("there are no keys to replace dots in", param_hint="--replace-dots")
    return lambda key: key.replace(".", replace_dots)


def pairs(items: list[str] | None, option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` options.

    Raises:
        BadParameter: One has no `=`.
    """
    found = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{item!r} should be NAME=VALUE", param_hint=option)
        found[name] = value
    return found
