"""`bushel pack`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from bushel.cli.command import Argument, Option
from bushel.cli.options import (
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
from bushel.cli.packoptions import ImageOptions, VideoOptions, allowed_errors, check_options, image_types
from bushel.cli.runs import check_engine_options, tell_of_plan, written

if TYPE_CHECKING:
    from bushel.ingest.images import Jpeg

__all__ = ["command"]


def command(
    source: Annotated[
        str, Argument(help="Folder of images or videos, list (.lst, .csv, .json), arrays (.npz) or dataset.")
    ],
    target: Target,
    container: NewKind = None,
    kind: Annotated[
        str | None,
        Option(
            "--kind",
            help="images, videos, list, table, arrays or dataset, detected from SOURCE by default; or files, samples "
            "(files that share a name), recipe, 20bn-json, 20bn-csv-webm, 20bn-csv-jpeg, kinetics, activitynet.",
        ),
    ] = None,
    root: Annotated[str | None, Option("--root", help="Folder that the paths of a list are relative to.")] = None,
    file: Annotated[
        str | None, Option("--file", help="Pattern of the file name of each row of a table, such as '{id}.webm'.")
    ] = None,
    columns: Annotated[
        str | None,
        Option("--columns", help="Column names of a CSV file without a header, such as id,label."),
    ] = None,
    exts: Annotated[list[str] | None, Option("--exts", help="Suffix of the files to pack; may be repeated.")] = None,
    spec: Annotated[
        list[str] | None, Option("--spec", help="FIELD=TYPE: a new type, such as image=jpg; may be repeated.")
    ] = None,
    resize: Annotated[str | None, Option("--resize", help="Pixels of the shorter edge, or WIDTHxHEIGHT.")] = None,
    center_crop: Annotated[bool, Option("--center-crop", help="Crop to the middle square first.")] = False,
    quality: Annotated[
        int | None, Option("--quality", help="JPEG quality, 1 to 100 [95], or PNG compression level, 0 to 9 [3].")
    ] = None,
    color: Annotated[int | None, Option("--color", help="1 RGB, 0 grey, -1 unchanged.")] = None,
    encoding: Annotated[str | None, Option("--encoding", help=".jpg or .png.")] = None,
    inter_method: Annotated[
        int | None, Option("--inter-method", help="0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9, 10.")
    ] = None,
    rate: Annotated[float | None, Option("--rate", help="Frames per second to take from videos.")] = None,
    stride: Annotated[int, Option("--stride", min=1, help="Keep every STRIDE-th of these frames.")] = 1,
    clip: Annotated[bool, Option("--clip", help="Store video files unchanged.")] = False,
    allow_commands: Annotated[bool, Option("--allow-commands", help="Allow a recipe to run commands.")] = False,
    orient: Annotated[bool, Option("--orient", help="Rotate images as their Exif orientation says.")] = False,
    check: Annotated[bool, Option("--check", help="Decode every image, to find damaged ones.")] = False,
    jpeg: TileJpeg = None,
    seek: Seek = False,
    index_columns: IndexColumns = None,
    shuffle: Annotated[bool, Option("--shuffle/--no-shuffle", help="Pack in a random order.")] = False,
    seed: Annotated[int, Option("--seed", min=0, help="Seed of the random order.")] = 0,
    parts: Parts = None,
    part: Part = None,
    plan_only: PlanOnly = False,
    engine: EngineName = None,
    retries: Retries = 3,
    speculate: Speculate = 3.0,
    sbatch: Sbatch = None,
    max_errors: Annotated[
        str, Option("--max-errors", help="Items that may fail in the whole run: 100, 1% or all.")
    ] = "0",
    strict: Annotated[bool, Option("--strict", help="Stop at the first error; --resume continues there.")] = False,
    strict_files: Annotated[
        bool, Option("--strict-files", help="Fail if SOURCE contains files that would be passed over.")
    ] = False,
    shard_samples: ShardSamples = None,
    shard_bytes: ShardBytes = None,
    generation: Generation = None,
    keys: Keys = True,
    replace_dots: ReplaceDots = None,
    append: Append = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = None,
    processes: Annotated[
        int, Option("--processes", min=0, help="Number of worker processes that replace the threads.")
    ] = 0,
    progress: ProgressKind = "bar",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Pack images, videos, lists, arrays or files into a dataset.

    Images are stored unchanged unless an option changes them. A bad item is listed in TARGET.errors.jsonl and skipped;
    more than --max-errors bad items end the run with exit code 1. --resume continues after that and after Ctrl-C.

    Examples:
      bushel pack photos/ out/ --container bag --resize 256 --max-errors 1%
      bushel pack photos/train.lst train.rec --root photos/
      bushel pack photos/ s3://bucket/train/ -c tar --parts 4096 --engine ray
      bushel pack clips/ gulped/ --container gulp --rate 12 --resize 256 --shard-samples 100
    """
    mode = mode_of(append=append, resume=resume, overwrite=overwrite)
    check_engine_options(engine, sbatch, parts, part)
    form = form_of_keys(keys=keys, replace_dots=replace_dots)
    from bushel.cli.output import count, print_json, print_text, progress_bar, resumable, say
    from bushel.ingest import pack
    from bushel.ingest.packing import describe_skipped
    from bushel.ingest.run_folder import planned_listing
    from bushel.sources.opening import KINDS, kind_of, open_source

    what = kind or kind_of(source)
    images = ImageOptions(resize, center_crop, quality, color, encoding, inter_method)
    videos = VideoOptions(rate, stride, clip)
    framed = videos.framed(what)
    given = {
        "--root": root,
        "--file": file,
        "--columns": columns,
        "--exts": exts,
        "--rate": rate,
        "--stride": stride > 1,
        "--clip": clip,
        "--resize": resize,
        "--center-crop": center_crop,
        "--quality": quality,
        "--color": color,
        "--encoding": encoding,
        "--inter-method": inter_method,
        "--orient": orient,
        "--check": check,
        "--jpeg": jpeg,
        "--allow-commands": allow_commands,
    }
    if what in KINDS:
        asked = [option for option, value in given.items() if value is not None and value is not False]
        check_options(what, asked, framed=framed)
    settings = {
        "suffixes": exts or None,
        "root": root,
        "file": file,
        "allow_commands": allow_commands or None,
        "columns": None if columns is None else columns.split(","),
        "media": videos.media(framed=framed, images=images),
    }
    options: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    change = None if framed or clip else images.transforms()
    types = pairs(spec, "--spec")
    with resumable(target):
        if parts is not None and not overwrite:
            options["listing"] = planned_listing(target)
        opened = open_source(source, what, **options)
        if change is not None:
            types = {**image_types(opened, images.codec), **types}
        with progress_bar("packing", quiet=quiet or as_json, kind=progress) as report:
            done = pack(
                opened,
                target,
                container=container,
                spec=types,
                transforms=change,
                orient=orient,
                check=check,
                jpeg=cast("Jpeg", jpeg),
                seek=seek,
                columns=index_columns,
                keys=form,
                shuffle=shuffle,
                seed=seed,
                parts=parts,
                part=part,
                plan_only=plan_only or engine == "slurm",
                engine=None if engine == "slurm" else engine,
                retries=retries,
                speculate=speculate,
                max_errors=allowed_errors(max_errors),
                strict=strict,
                strict_files=strict_files,
                shard_samples=shard_samples,
                shard_bytes=shard_bytes,
                generation=cast("Literal['B', 'C'] | None", generation),
                mode=mode,
                workers=workers,
                processes=processes,
                progress=report,
            )
    if plan_only or engine == "slurm":
        tell_of_plan(target, slurm=engine == "slurm", sbatch=sbatch, retries=retries)
        return
    if as_json:
        print_json(asdict(done))
    elif not quiet:
        if done.skipped:
            say(f"note: passed over {describe_skipped(done.skipped)} (--strict-files: an error)", quiet=False)
        for limit in done.limits:
            say(f"note: {limit}", quiet=False)
        fields = ", ".join(f"{name}: {kind_}" for name, kind_ in done.spec.items())
        print_text(f"{written(target, done, f' ({fields})')}, {done.samples / max(done.seconds, 1e-9):,.0f}/s")
    if done.errors:
        say(f"bushel: {count(done.errors, 'item')} could not be packed: see {', '.join(done.error_logs)}", quiet=False)
