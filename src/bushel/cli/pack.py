"""`bushel pack`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from bushel.cli.options import (
    Append,
    Debug,
    Generation,
    Json,
    Keys,
    NewKind,
    Quiet,
    ReplaceDots,
    Resume,
    ShardBytes,
    ShardSamples,
    Target,
    TileJpeg,
    form_of_keys,
    mode_of,
    pairs,
)
from bushel.cli.packoptions import check_options, image_types

if TYPE_CHECKING:
    from bushel.ingest import Progress
    from bushel.ingest.tiling import Jpeg
    from bushel.transforms.values import Transform

__all__ = ["command"]


def command(
    source: Annotated[
        str, typer.Argument(help="A folder of images or videos, a list (.lst, .csv, .json), arrays (.npz), a dataset.")
    ],
    target: Target,
    container: NewKind = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            help="images, videos, list, table, arrays, dataset: told by the looks of SOURCE. Or files, samples (files "
            "that share a name), recipe, 20bn-json, 20bn-csv-webm, 20bn-csv-jpeg, kinetics, activitynet.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="The folder that the paths of a list start from.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", help="Of a table: a row's file, such as '{id}.webm' or '{id}/*.mp4'.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Of a CSV file without a line of names: id,label.")
    ] = None,
    exts: Annotated[list[str] | None, typer.Option("--exts", help="Suffix of files to take; may be repeated.")] = None,
    spec: Annotated[
        list[str] | None, typer.Option("--spec", help="FIELD=TYPE: another type, as image=jpg; may be repeated.")
    ] = None,
    resize: Annotated[str | None, typer.Option("--resize", help="Pixels of the shorter edge, or WIDTHxHEIGHT.")] = None,
    center_crop: Annotated[bool, typer.Option("--center-crop", help="Cut out the middle square first.")] = False,
    quality: Annotated[int | None, typer.Option("--quality", help="Of JPEGs (95), or of PNGs: 0 to 9 (3).")] = None,
    color: Annotated[int | None, typer.Option("--color", help="1 RGB, 0 grey, -1 as it is.")] = None,
    encoding: Annotated[str | None, typer.Option("--encoding", help=".jpg or .png.")] = None,
    inter_method: Annotated[
        int | None, typer.Option("--inter-method", help="0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9, 10.")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Frames a second to take of videos.")] = None,
    stride: Annotated[int, typer.Option("--stride", min=1, help="Of these frames, every so many-th.")] = 1,
    clip: Annotated[bool, typer.Option("--clip", help="Keep video files as they are.")] = False,
    allow_commands: Annotated[bool, typer.Option("--allow-commands", help="Let a recipe run commands.")] = False,
    orient: Annotated[bool, typer.Option("--orient", help="Turn photos as their Exif orientation says.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Decode images that are kept as they are, too.")] = False,
    jpeg: TileJpeg = None,
    shuffle: Annotated[int | None, typer.Option("--shuffle", min=0, metavar="SEED", help="Random order.")] = None,
    parts: Annotated[int | None, typer.Option("--parts", min=1, help="Make so many datasets, TARGET/part-*.")] = None,
    part: Annotated[int | None, typer.Option("--part", min=0, help="Make this one of them only, from 0.")] = None,
    max_errors: Annotated[str, typer.Option("--max-errors", help="Items that may fail: 100, or 1%.")] = "0",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first error, and resume from there.")] = False,
    shard_samples: ShardSamples = None,
    shard_bytes: ShardBytes = None,
    generation: Generation = None,
    keys: Keys = True,
    replace_dots: ReplaceDots = None,
    append: Append = False,
    resume: Resume = False,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Threads.")] = None,
    processes: Annotated[int, typer.Option("--processes", min=0, help="Worker processes instead of threads.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Pack images, videos, lists, arrays or files into a dataset.

    Images are stored as they are unless something changes them. A bad item is noted in TARGET.errors.jsonl and passed
    over; more than --max-errors of them end the run. Ctrl-C can be resumed. The exit code is 1 when items failed.

    Examples:
      bushel pack photos/ out/ --container bag --resize 256 --max-errors 1%
      bushel pack photos/train.lst train.rec --root photos/
      bushel pack clips/ gulped/ --container gulp --rate 12 --resize 256 --shard-samples 100
    """
    mode = mode_of(append=append, resume=resume)
    form = form_of_keys(keys=keys, replace_dots=replace_dots)
    from bushel.cli.output import count, print_json, print_text, resumable, say, size
    from bushel.ingest import pack
    from bushel.sources import Clip, Frames
    from bushel.sources.layouts import LAYOUTS
    from bushel.sources.opening import KINDS, kind_of, open_source

    what = kind or kind_of(source)
    framed = not clip and (
        what == "videos" or what in LAYOUTS or (what == "table" and (rate is not None or stride > 1))
    )
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
    options: dict[str, Any] = {}
    if exts:
        options["suffixes"] = exts
    if root is not None:
        options["root"] = root
    if file is not None:
        options["file"] = file
    if allow_commands:
        options["allow_commands"] = True
    if columns is not None:
        options["columns"] = columns.split(",")
    if clip:
        options["media"] = Clip()
    elif framed and not (rate is None and stride == 1 and resize is None and quality is None):
        options["media"] = Frames(rate, stride, _edge(resize), 95 if quality is None else quality)
    change = None if framed or clip else _im2rec(resize, center_crop, quality, color, encoding, inter_method)
    types = pairs(spec, "--spec")
    with resumable(target):
        opened = open_source(source, what, **options)
        if change is not None:
            types = {**image_types(opened, "png" if encoding == ".png" else "jpg"), **types}
        with _progress(quiet=quiet or as_json) as report:
            done = pack(
                opened,
                target,
                container=container,
                spec=types,
                transforms=change,
                orient=orient,
                check=check,
                jpeg=cast("Jpeg", jpeg),
                keys=form,
                shuffle=shuffle,
                parts=parts,
                part=part,
                max_errors=_allowed(max_errors),
                strict=strict,
                shard_samples=shard_samples,
                shard_bytes=shard_bytes,
                generation=cast("Literal['B', 'C'] | None", generation),
                mode=mode,
                workers=workers,
                processes=processes,
                report=report,
            )
    if as_json:
        print_json(asdict(done))
    elif not quiet:
        for limit in done.limits:
            say(f"note: {limit}", quiet=False)
        kept = f" after {done.kept:,} from before" if done.kept else ""
        written = f"{count(done.samples, 'sample')} written as {done.container}{kept}"
        rate_of = f"{done.samples / max(done.seconds, 1e-9):,.0f}/s"
        print_text(f"{target}: {written}, {size(done.bytes)} in {done.seconds:.1f} s, {rate_of}")
    if done.errors:
        say(f"bushel: {count(done.errors, 'item')} could not be packed: see {', '.join(done.error_logs)}", quiet=False)
        raise typer.Exit(1)


def _edge(resize: str | None) -> int | None:
    size = _size(resize)
    if isinstance(size, tuple):
        raise typer.BadParameter("frames are resized by their shorter edge: give one number", param_hint="--resize")
    return size


def _size(resize: str | None) -> int | tuple[int, int] | None:
    if resize is None:
        return None
    numbers = resize.lower().split("x")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise typer.BadParameter(f"{resize!r} is neither a number of pixels nor WIDTHxHEIGHT", param_hint="--resize")
    return int(numbers[0]) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))


def _im2rec(
    resize: str | None,
    center_crop: bool,
    quality: int | None,
    color: int | None,
    encoding: str | None,
    inter_method: int | None,
) -> list[Transform] | None:
    """The transforms that these options ask for, if any does."""
    if not center_crop and all(option is None for option in (resize, quality, color, encoding, inter_method)):
        return None
    from bushel.ingest.im2rec import im2rec

    return im2rec(
        _size(resize),
        center_crop=center_crop,
        quality=quality,
        color=1 if color is None else color,
        encoding=encoding or ".jpg",
        inter_method=1 if inter_method is None else inter_method,
    )


def _allowed(text: str) -> int | float:
    """`100`, `1%` or `0.01`."""
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return float(text) if "." in text else int(text)
    except ValueError:
        message = f"{text!r} is neither a number nor a share such as 1%"
        raise typer.BadParameter(message, param_hint="--max-errors") from None


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A bar with rate, time left and errors on standard error, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    told = TextColumn("{task.fields[rate]:,.0f}/s  {task.fields[errors]:,} errors")
    columns = (TextColumn("packing"), BarColumn(), MofNCompleteColumn(), told, TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("packing", total=None, rate=0.0, errors=0)

        def report(now: Progress) -> None:
            rate = now.done / max(now.seconds, 1e-9)
            bar.update(task, completed=now.done, total=now.total, rate=rate, errors=now.errors)

        yield report
