"""`bushel pack`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from .command import Argument, Option
from .options import ModeOptions, OutputOptions, Target, pairs
from .packoptions import (
    ImageOptions,
    SourceOptions,
    VideoOptions,
    check_options,
    given_options,
    image_types,
)
from .runs import RunOptions, tell_of_run

if TYPE_CHECKING:
    pass


class MediaOptions(Struct, frozen=True):
    """The options for images and videos."""

    images: ImageOptions
    videos: VideoOptions


class WorkOptions(Struct, frozen=True):
    """Options for a dataset that exists at the target, and for worker processes."""

    modes: ModeOptions
    processes: Annotated[
        int,
        Option("Number of worker processes that replace the threads.", min=0),
    ] = 0


def command(
    source: Annotated[
        str,
        Argument("Folder of images or videos, list (.lst, .csv, .json), arrays (.npz) or dataset."),
    ],
    target: Target,
    *,
    reading: SourceOptions,
    spec: Annotated[
        list[str] | None,
        Option("FIELD=TYPE: A new type, such as image=jpg; may be repeated."),
    ] = None,
    media: MediaOptions,
    run: RunOptions,
    work: WorkOptions,
    shown: OutputOptions,
) -> None:
    """Pack images, videos, lists, arrays or files into a dataset.

    Images are stored unchanged unless an option changes them. A bad item is listed in
    TARGET.errors.jsonl and skipped; more than --max-errors bad items end the run with exit code 1.
    --resume continues after that and after Ctrl-C.

    Examples:
      bushel pack photos/ out/ --container bag --resize 256 --max-errors 1%
      bushel pack photos/train.lst train.rec --root photos/
      bushel pack photos/ s3://bucket/train/ -c tar --parts 4096 --engine ray
      bushel pack clips/ gulped/ --container gulp --rate 12 --resize 256
    """
    mode, images, videos = work.modes.mode(), media.images, media.videos
    run.parts.check()
    from bushel._dataset.open.open import files_asked
    from bushel._pack import pack
    from bushel._pack.run_folder import planned_listing
    from bushel.sources.opening import KINDS, kind_of, open_source

    from .output import resumable

    options = reading.arguments()
    files = files_asked(source, reading.split)
    kind = reading.kind or kind_of(files, [*options, *given_options(videos)])
    framed = videos.framed(kind, resized=images.resize is not None or images.quality is not None)
    if kind in KINDS:
        options_of_source = given_options(replace(reading, kind=None), videos, images)
        options_of_source += [f"--images {name}" for name in run.writing.images or ()]
        check_options(kind, options_of_source, framed=framed)
    if (read := videos.media(framed=framed, images=images)) is not None:
        options["media"] = read
    change = None if framed or videos.clip else images.transforms()
    types = pairs(spec, "--spec")
    with resumable(target):
        listing = None
        if run.parts.parts is not None and not work.modes.overwrite:
            listing = planned_listing(target)
        opened = open_source(files, kind, listing=listing, **options)
        if change is not None:
            types = {**image_types(opened, images.codec), **types}
        result = pack(
            opened,
            target,
            spec=types,
            transforms=change,
            mode=mode,
            processes=work.processes,
            **run.arguments(shown),
        )
    tell_of_run(target, result, run.parts, shown)
