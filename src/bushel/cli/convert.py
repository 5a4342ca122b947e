"""`bushel convert`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal, cast

from bushel.cli.command import Option
from bushel.cli.options import (
    Allow,
    Append,
    Debug,
    EngineName,
    Generation,
    IndexColumns,
    Json,
    Keys,
    NewKind,
    Overwrite,
    Part,
    Parts,
    Path,
    Pickle,
    PlanOnly,
    ProgressKind,
    Quiet,
    ReplaceDots,
    Resume,
    Retries,
    Sbatch,
    Seek,
    ShardBytes,
    ShardSamples,
    Speculate,
    Target,
    TileJpeg,
    Workers,
    form_of_keys,
    mode_of,
    pairs,
)
from bushel.cli.runs import check_engine_options, tell_of_plan, written

if TYPE_CHECKING:
    from bushel.ingest.images import Jpeg

__all__ = ["command"]


def command(
    source: Path,
    target: Target,
    container: NewKind = None,
    fields: Annotated[
        str | None, Option("--fields", help="Fields to keep, such as image,label. [default: all]")
    ] = None,
    rename: Annotated[list[str] | None, Option("--rename", help="OLD=NEW: rename a field; may be repeated.")] = None,
    spec: Annotated[
        list[str] | None, Option("--spec", help="FIELD=TYPE: a new type, such as label=int; may be repeated.")
    ] = None,
    jpeg: TileJpeg = None,
    seek: Seek = False,
    index_columns: IndexColumns = None,
    parts: Parts = None,
    part: Part = None,
    plan_only: PlanOnly = False,
    engine: EngineName = None,
    retries: Retries = 3,
    speculate: Speculate = 3.0,
    sbatch: Sbatch = None,
    shard_samples: ShardSamples = None,
    shard_bytes: ShardBytes = None,
    generation: Generation = None,
    keys: Keys = True,
    replace_dots: ReplaceDots = None,
    append: Append = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = None,
    allow_commands: Allow = False,
    pickle: Pickle = False,
    progress: ProgressKind = "bar",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a dataset in another container, or with other fields, types or shards.

    Keys and order stay the same. Bytes that both containers store alike are copied: no JPEG is encoded again.

    Examples:
      bushel convert 'train-{000..146}.tar' out/ --container bag --shard-bytes 1GB
      bushel convert frames/ images.tar --fields frames --rename frames=jpg --spec frames=jpg
    """
    mode = mode_of(append=append, resume=resume, overwrite=overwrite)
    check_engine_options(engine, sbatch, parts, part)
    form = form_of_keys(keys=keys, replace_dots=replace_dots)
    import bushel
    from bushel.cli.output import print_json, print_text, progress_bar, resumable, say
    from bushel.core.dataset.open import open_any

    opened = open_any(source, verify=True, allow_commands=allow_commands, pickle=pickle)
    with resumable(target), progress_bar("converting", quiet=quiet, kind=progress) as report:
        done = bushel.convert(
            opened,
            target,
            container=container,
            fields=None if fields is None else [name for name in fields.split(",") if name],
            rename=pairs(rename, "--rename"),
            spec=pairs(spec, "--spec"),
            jpeg=cast("Jpeg", jpeg),
            seek=seek or None,
            columns=index_columns,
            keys=None if form is True else form,
            shard_samples=shard_samples,
            shard_bytes=shard_bytes,
            generation=cast("Literal['B', 'C'] | None", generation),
            mode=mode,
            workers=workers,
            parts=parts,
            part=part,
            plan_only=plan_only or engine == "slurm",
            engine=None if engine == "slurm" else engine,
            retries=retries,
            speculate=speculate,
            progress=report,
        )
    if plan_only or engine == "slurm":
        tell_of_plan(target, slurm=engine == "slurm", sbatch=sbatch, retries=retries)
        return
    if as_json:
        print_json({"target": target, **asdict(done)})
        return
    for limit in done.limits:
        say(f"note: {limit}", quiet=quiet)
    if not quiet:
        print_text(written(target, done))
