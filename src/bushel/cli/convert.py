"""`bushel convert`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from bushel.cli.options import Allow, Debug, Json, Path, Pickle, Quiet, pairs

if TYPE_CHECKING:
    from bushel.ingest.tiling import Jpeg

__all__ = ["command"]


def command(
    source: Path,
    target: Annotated[
        str, typer.Argument(help="A new folder, or one file: out/train.tar, train.ffr, s3://bucket/train.rec.")
    ],
    container: Annotated[
        str | None,
        typer.Option("--container", "-c", help="bag, tar, ffrecord, gulp or recordio. TARGET's suffix may say it."),
    ] = None,
    fields: Annotated[str | None, typer.Option("--fields", help="Keep only these: image,label.")] = None,
    rename: Annotated[list[str] | None, typer.Option("--rename", help="OLD=NEW; may be repeated.")] = None,
    spec: Annotated[
        list[str] | None, typer.Option("--spec", help="FIELD=TYPE: a new type, such as label=int; may be repeated.")
    ] = None,
    jpeg: Annotated[
        str | None, typer.Option("--jpeg", help="tile: store JPEGs, without loss, so that crops decode faster.")
    ] = None,
    shard_samples: Annotated[int | None, typer.Option("--shard-samples", min=1, help="Samples in a shard.")] = None,
    shard_bytes: Annotated[str | None, typer.Option("--shard-bytes", help="Bytes in a shard: 1GB, 500MiB.")] = None,
    generation: Annotated[
        str | None, typer.Option("--generation", help="Of a bag: B (Granular 0.20, 0.21) or C (from 0.22 on).")
    ] = None,
    keys: Annotated[bool, typer.Option("--keys/--no-keys", help="Keep keys, or leave them out.")] = True,
    replace_dots: Annotated[
        str | None, typer.Option("--replace-dots", help="Put this for every dot in a key; a tar can hold none.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to a dataset that is there.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted conversion.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Threads that read ahead.")] = 2,
    allow_commands: Allow = False,
    pickle: Pickle = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a dataset again, in another container or another shape.

    Keys and order stay. Bytes that both containers store alike are copied as they are: no JPEG is encoded again.

    Examples:
      bushel convert 'train-{000..146}.tar' out/ --container bag --shard-bytes 1GB
      bushel convert frames/ images.tar --fields frames --rename frames=jpg --spec frames=jpg
    """
    if append and resume:
        raise typer.BadParameter("a conversion is appended or resumed, not both", param_hint="--append")
    if not keys and replace_dots is not None:
        raise typer.BadParameter("there are no keys to replace dots in", param_hint="--replace-dots")
    import bushel
    from bushel.cli.output import count, print_json, print_text, progress, say, size

    opened = bushel.open(source, verify=True, allow_commands=allow_commands, pickle=pickle)
    try:
        with progress("converting", "samples", quiet=quiet) as report:
            done = bushel.convert(
                opened,
                target,
                container=container,
                fields=None if fields is None else [name for name in fields.split(",") if name],
                rename=pairs(rename, "--rename"),
                spec=pairs(spec, "--spec"),
                jpeg=cast("Jpeg", jpeg),
                keys=(lambda key: key.replace(".", replace_dots))
                if replace_dots is not None
                else None
                if keys
                else False,
                shard_samples=shard_samples,
                shard_bytes=shard_bytes,
                generation=cast("Literal['B', 'C'] | None", generation),
                mode="resume" if resume else "append" if append else "create",
                workers=workers,
                report=report,
            )
    except KeyboardInterrupt:
        say(f"bushel: stopped; --resume goes on with {target}", quiet=False)
        raise typer.Exit(130) from None
    if as_json:
        print_json({"target": target, **asdict(done)})
        return
    for limit in done.limits:
        say(f"note: {limit}", quiet=quiet)
    if not quiet:
        kept = f" after {done.kept:,} from before" if done.kept else ""
        print_text(
            f"{target}: {count(done.samples, 'sample')} written as {done.container}{kept}, "
            f"{size(done.bytes)} in {done.seconds:.1f} s"
        )
