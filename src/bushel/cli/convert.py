"""`bushel convert`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

from bushel.cli.command import Option
from bushel.cli.options import (
    Allow,
    IndexColumns,
    KeyOptions,
    ModeOptions,
    NewKind,
    OutputOptions,
    Path,
    Pickle,
    ProgressKind,
    Seek,
    ShardOptions,
    SplitOptions,
    Target,
    TileJpeg,
    View,
    Workers,
    pairs,
)
from bushel.cli.packoptions import allowed_errors, functions
from bushel.cli.runs import PartOptions, tell_of_errors, written

if TYPE_CHECKING:
    from bushel.ingest.images import Jpeg

__all__ = ["command"]


def command(
    source: Path,
    target: Target,
    *,
    container: NewKind = None,
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
    jpeg: TileJpeg = None,
    seek: Seek = False,
    index_columns: IndexColumns = None,
    shuffle: Annotated[bool, Option("--shuffle/--no-shuffle", help="Write in a random order.")] = False,
    seed: Annotated[int, Option("--seed", min=0, help="Seed of the random order.")] = 0,
    max_errors: Annotated[
        str, Option("--max-errors", help="Samples that may fail in the whole run: 100, 1% or all.")
    ] = "0",
    parts: PartOptions,
    chosen: SplitOptions,
    shards: ShardOptions,
    keys: KeyOptions,
    modes: ModeOptions,
    workers: Workers = None,
    allow_commands: Allow = False,
    pickle: Pickle = False,
    progress: ProgressKind = "bar",
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
    mode, form = modes.mode(), keys.form()
    parts.check()
    import bushel
    from bushel._dataset.open import open_any
    from bushel.cli.output import print_json, print_text, progress_bar, resumable, say

    opened = open_any(chosen.files(source), verify=True, allow_commands=allow_commands, pickle=pickle, view=view)
    with resumable(target), progress_bar("converting", quiet=shown.quiet, kind=progress) as report:
        done = bushel.convert(
            opened,
            target,
            container=container,
            fields=None if fields is None else [name for name in fields.split(",") if name],
            rename=pairs(rename, "--rename"),
            spec=pairs(spec, "--spec"),
            transforms=functions(transform, "--transform"),
            jpeg=cast("Jpeg", jpeg),
            seek=seek or None,
            columns=index_columns,
            shuffle=shuffle,
            seed=seed,
            max_errors=allowed_errors(max_errors),
            keys=None if form is True else form,
            mode=mode,
            workers=workers,
            progress=report,
            **parts.arguments(),
            **asdict(shards),
        )
    if parts.only_planned:
        parts.tell_of_plan(target)
        return
    if shown.as_json:
        print_json({"target": target, **asdict(done)})
        return
    for limit in done.limits:
        say(f"note: {limit}", quiet=shown.quiet)
    if not shown.quiet:
        print_text(written(target, done))
    tell_of_errors(done)
