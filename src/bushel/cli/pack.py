"""`bushel pack`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, cast

from bushel.cli.command import Argument, Option
from bushel.cli.options import (
    IndexColumns,
    KeyOptions,
    ModeOptions,
    NewKind,
    OutputOptions,
    ProgressKind,
    Seek,
    ShardOptions,
    Target,
    TileJpeg,
    Workers,
    pairs,
)
from bushel.cli.packoptions import (
    ImageOptions,
    SourceOptions,
    VideoOptions,
    allowed_errors,
    check_options,
    given_options,
    image_types,
)
from bushel.cli.runs import PartOptions, tell_of_errors, written

if TYPE_CHECKING:
    from bushel.ingest import PackResult
    from bushel.ingest.images import Jpeg

__all__ = ["command"]


def command(
    source: Annotated[
        str, Argument(help="Folder of images or videos, list (.lst, .csv, .json), arrays (.npz) or dataset.")
    ],
    target: Target,
    *,
    container: NewKind = None,
    reading: SourceOptions,
    spec: Annotated[
        list[str] | None, Option("--spec", help="FIELD=TYPE: a new type, such as image=jpg; may be repeated.")
    ] = None,
    images: ImageOptions,
    videos: VideoOptions,
    orient: Annotated[bool, Option("--orient", help="Rotate images by their Exif orientation.")] = False,
    check: Annotated[bool, Option("--check", help="Decode every image, to find damaged ones.")] = False,
    jpeg: TileJpeg = None,
    seek: Seek = False,
    index_columns: IndexColumns = None,
    shuffle: Annotated[bool, Option("--shuffle/--no-shuffle", help="Pack in a random order.")] = False,
    seed: Annotated[int, Option("--seed", min=0, help="Seed of the random order.")] = 0,
    parts: PartOptions,
    max_errors: Annotated[
        str, Option("--max-errors", help="Items that may fail in the whole run: 100, 1% or all.")
    ] = "0",
    strict: Annotated[bool, Option("--strict", help="Stop at the first error; --resume continues there.")] = False,
    strict_files: Annotated[
        bool, Option("--strict-files", help="Fail if SOURCE contains files that would be passed over.")
    ] = False,
    shards: ShardOptions,
    keys: KeyOptions,
    modes: ModeOptions,
    workers: Workers = None,
    processes: Annotated[
        int, Option("--processes", min=0, help="Number of worker processes that replace the threads.")
    ] = 0,
    progress: ProgressKind = "bar",
    shown: OutputOptions,
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
    mode, form = modes.mode(), keys.form()
    parts.check()
    from bushel.cli.output import print_json, progress_bar, resumable
    from bushel.compat.gulpio2.layouts import LAYOUTS
    from bushel.ingest import pack
    from bushel.ingest.run_folder import planned_listing
    from bushel.sources.opening import KINDS, kind_of, open_source

    kind = reading.kind or kind_of(source)
    framed = videos.framed(kind)
    if kind in KINDS or kind in LAYOUTS:
        given = given_options(
            reading=replace(reading, kind=None), videos=videos, images=images, orient=orient, check=check, jpeg=jpeg
        )
        check_options(kind, given, framed=framed)
    options = reading.arguments()
    if (media := videos.media(framed=framed, images=images)) is not None:
        options["media"] = media
    change = None if framed or videos.clip else images.transforms()
    types = pairs(spec, "--spec")
    with resumable(target):
        if parts.parts is not None and not modes.overwrite:
            options["listing"] = planned_listing(target)
        if kind in LAYOUTS:
            options.pop("listing", None)  # of a folder
            opened = LAYOUTS[kind](source, **options)
        else:
            opened = open_source(source, kind, **options)
        if change is not None:
            types = {**image_types(opened, images.codec), **types}
        with progress_bar("packing", quiet=shown.quiet or shown.as_json, kind=progress) as report:
            done = pack(
                opened,
                target,
                container=container,
                spec=types,
                transforms=change,
                orient=orient,
                check=check,
                jpeg=cast("Jpeg", jpeg),
                seek=seek or None,
                columns=index_columns,
                keys=None if form is True else form,
                shuffle=shuffle,
                seed=seed,
                max_errors=allowed_errors(max_errors),
                strict=strict,
                strict_files=strict_files,
                mode=mode,
                workers=workers,
                processes=processes,
                progress=report,
                **parts.arguments(),
                **asdict(shards),
            )
    if parts.only_planned:
        parts.tell_of_plan(target)
        return
    if shown.as_json:
        print_json(asdict(done))
    _tell(target, done, quiet=shown.quiet or shown.as_json)


def _tell(target: str, done: PackResult, *, quiet: bool) -> None:
    from bushel.cli.output import print_text, say
    from bushel.ingest.prepared import describe_skipped

    if not quiet:
        if done.skipped:
            say(f"note: passed over {describe_skipped(done.skipped)} (--strict-files: an error)", quiet=False)
        for limit in done.limits:
            say(f"note: {limit}", quiet=False)
        fields = ", ".join(f"{name}: {kind}" for name, kind in done.spec.items())
        print_text(f"{written(target, done, f' ({fields})')}, {done.samples / max(done.seconds, 1e-9):,.0f}/s")
    tell_of_errors(done)
