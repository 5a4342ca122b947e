"""`bushel convert`."""

from __future__ import annotations

from typing import Annotated

from bushel.cli.command import Option
from bushel.cli.options import Allow, ModeOptions, OutputOptions, Path, Pickle, SplitOptions, Target, View, pairs
from bushel.cli.packoptions import functions
from bushel.cli.runs import PartOptions, WriteOptions, tell_of_run

__all__ = ["command"]


def command(
    source: Path,
    target: Target,
    *,
    view: View = None,
    fields: Annotated[
        str | None, Option("--fields", help="Fields to keep, such as image,label. [default: all]")
    ] = None,
    rename: Annotated[list[str] | None, Option("--rename", help="OLD=NEW: rename a field; may be repeated.")] = None,
    spec: Annotated[
        list[str] | None, Option("--spec", help="FIELD=TYPE: a new type, such as label=int; may be repeated.")
    ] = None,
    transform: Annotated[
        list[str] | None,
        Option(
            "--transform",
            help="FIELD=MODULE:FUNCTION: changes the values of a field (by its new name); may be repeated.",
        ),
    ] = None,
    writing: WriteOptions,
    parts: PartOptions,
    chosen: SplitOptions,
    modes: ModeOptions,
    allow_commands: Allow = False,
    pickle: Pickle = False,
    shown: OutputOptions,
) -> None:
    """Write a dataset in another container, or with other fields, types or shards.

    Keys and order stay the same. Bytes that both containers store alike are copied: no JPEG is encoded again.

    Examples:
      bushel convert 'train-{000..146}.tar' out/ --container bag --shard-bytes 1GB
      bushel convert train/ clean/ --container tar --view clean
      bushel convert frames/ images.tar --fields frames --rename frames=jpg --spec frames=jpg
      bushel convert texts/ tokens/ --rename text=tokens --spec text=array --transform tokens=tokenizer:encode
    """
    mode = modes.mode()
    parts.check()
    import bushel
    from bushel._dataset.open import open_any
    from bushel.cli.output import progress_bar, resumable

    opened = open_any(chosen.files(source), verify=True, allow_commands=allow_commands, pickle=pickle, view=view)
    quiet = shown.quiet or shown.as_json
    with resumable(target), progress_bar("converting", quiet=quiet, kind=writing.progress) as report:
        done = bushel.convert(
            opened,
            target,
            fields=None if fields is None else [name for name in fields.split(",") if name],
            rename=pairs(rename, "--rename"),
            spec=pairs(spec, "--spec"),
            transforms=functions(transform, "--transform"),
            mode=mode,
            progress=report,
            **writing.arguments(),
            **parts.arguments(),
        )
    tell_of_run(target, done, parts, shown)
