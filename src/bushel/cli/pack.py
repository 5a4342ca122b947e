"""Writing datasets: `bushel pack`, `convert`, `split` and `merge`, and `bushel im2rec-list`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from msgspec import Struct, structs

import bushel

from .command import Argument, Option
from .options import (
    ModeOptions,
    OnePath,
    OutputOptions,
    Path,
    SameKind,
    SizeOptions,
    SplitOptions,
    Target,
    TrustOptions,
    View,
    names_in,
    pairs,
)
from .output import count, resumable, say, wrong_option
from .packoptions import (
    ImageOptions,
    SourceOptions,
    VideoOptions,
    check_options,
    functions,
    given_options,
    image_types,
)
from .runs import RunOptions, tell_of_run


class MediaOptions(Struct, frozen=True):
    """The options for images and videos."""

    images: ImageOptions
    videos: VideoOptions


class WorkOptions(Struct, frozen=True):
    """Options for a dataset that exists at the target, and for worker processes."""

    modes: ModeOptions
    processes: Annotated[
        int, Option("Number of worker processes that replace the threads.", min=0)
    ] = 0


def pack(
    source: Annotated[
        str,
        Argument("Folder of images or videos, list (.lst, .csv, .json), arrays (.npz) or dataset."),
    ],
    target: Target,
    *,
    reading: SourceOptions,
    spec: list[str] | None = None,
    media: MediaOptions,
    run: RunOptions,
    work: WorkOptions,
    shown: OutputOptions,
) -> None:
    """Pack images, videos, lists, arrays or files into a dataset.

    Images are stored unchanged unless an option changes them. A bad item is listed in
    TARGET.errors.jsonl and skipped; more than --max-errors bad items end the run with exit code 1.
    --resume continues after that and after Ctrl-C.

    Options:
        spec: FIELD=TYPE: A new type, such as image=jpg; may be repeated.

    Examples:
      bushel pack photos/ out/ --container bag --resize 256 --max-errors 1%
      bushel pack photos/train.lst train.rec --root photos/
      bushel pack photos/ s3://bucket/train/ -c tar --parts 4096 --engine ray
      bushel pack clips/ gulped/ --container gulp --rate 12 --resize 256
    """
    mode, images, videos = work.modes.mode(), media.images, media.videos
    run.parts.check()
    from bushel._pack.run_folder import planned_listing
    from bushel.sources.opening import KINDS, files_asked, open_source, recognised

    options = reading.arguments()
    files = files_asked(source, reading.split)
    listing = None
    if run.parts.parts is not None and not work.modes.overwrite:
        listing = planned_listing(target)
    names = [*options, *given_options(videos)]
    kind, folder = reading.kind, None
    if kind is None:
        kind, folder = recognised(files, names, listing)
    framed = videos.framed(kind, resized=images.resize is not None or images.quality is not None)
    if kind in KINDS:
        options_of_source = given_options(structs.replace(reading, kind=None), videos, images)
        options_of_source += [f"--images {name}" for name in run.writing.images or ()]
        check_options(kind, options_of_source, framed=framed)
    if (read := videos.media(framed=framed, images=images)) is not None:
        options["media"] = read
    change = None if framed or videos.clip else images.transforms()
    types = pairs(spec, "--spec")
    with resumable(target):
        opened: Any = folder
        if folder is not None and not options:  # it is listed already
            folder.report()
        else:
            opened = open_source(
                files,
                kind,
                listing=listing,
                on_damage=run.writing.on_damage,
                **options,
            )
        if change is not None:
            types = {**image_types(opened, images.codec), **types}
        result = bushel.pack(
            opened,
            target,
            spec=types,
            transforms=change,
            mode=mode,
            processes=work.processes,
            **run.arguments(shown),
        )
    tell_of_run(target, result, run.parts, shown)


class ChangeOptions(Struct, frozen=True):
    """The samples and fields of the new dataset, and how they differ from the old ones.

    Attributes:
        fields: Fields to keep, such as image,label. [default: all]
        rename: OLD=NEW: Rename a field; may be repeated.
        spec: FIELD=TYPE: A new type, such as label=int; may be repeated.
        transform: FIELD=MODULE:FUNCTION: Changes the values of a field (by its new name); may be
            repeated.
    """

    view: View = None
    fields: str | None = None
    rename: list[str] | None = None
    spec: list[str] | None = None
    transform: list[str] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.convert`.

        Raises:
            BadParameter: An option has another form, or names no function.
        """
        return {
            "fields": names_in(self.fields),
            "rename": pairs(self.rename, "--rename"),
            "spec": pairs(self.spec, "--spec"),
            "transforms": functions(self.transform),
        }


def convert(
    source: Path,
    target: Target,
    *,
    changes: ChangeOptions,
    run: RunOptions,
    chosen: SplitOptions,
    modes: ModeOptions,
    trust: TrustOptions,
    shown: OutputOptions,
) -> None:
    r"""Write a dataset in another container, or with other fields, types or shards.

    Keys and order stay the same. Bytes that both containers store alike are copied: no JPEG is
    encoded again.

    Examples:
      bushel convert 'train-{000..146}.tar' out/ --container bag --shard-bytes 1GB
      bushel convert train/ clean/ --container tar --view clean
      bushel convert frames/ images.tar --fields frames --rename frames=jpg \
        --spec frames=jpg
      bushel convert texts/ tokens/ --rename text=tokens --spec text=array \
        --transform tokens=tokenizer:encode
    """
    mode = modes.mode()
    run.parts.check()
    from bushel._dataset.open.open import open_any

    opened = open_any(
        chosen.files(source, ask=True),
        verify=True,
        on_damage=run.writing.on_damage,
        view=changes.view,
        **structs.asdict(trust),
    )
    with resumable(target):
        result = bushel.convert(
            opened, target, **changes.arguments(), mode=mode, **run.arguments(shown)
        )
    tell_of_run(target, result, run.parts, shown)


class ChoiceOptions(Struct, frozen=True):
    """Options that decide which samples each dataset gets.

    Attributes:
        stratify: Field, such as label: each dataset gets its share of the samples of every value.
    """

    shuffle: Annotated[
        bool,
        Option(
            "Choose samples at random, instead of the first ones for the first share.",
            "--shuffle/--no-shuffle",
        ),
    ] = False
    seed: Annotated[int, Option("Seed of the random choice.", min=0)] = 0
    stratify: str | None = None


def split(
    source: OnePath,
    target: Annotated[str, Argument("Folder for the new datasets.")],
    shares: Annotated[
        list[str],
        Argument(
            "NAME=SHARE of each new dataset, such as train=0.9 val=0.1, or its number of "
            "samples: train=200 val=40. One of them can be the rest: train=rest val=40.",
            files=False,
        ),
    ],
    *,
    container: SameKind = None,
    choice: ChoiceOptions,
    sizes: SizeOptions,
    modes: ModeOptions,
    shown: OutputOptions,
) -> None:
    """Divide a dataset into several datasets.

    Every sample is in exactly one of them.

    Examples:
      bushel split all/ out/ train=0.9 val=0.1 --shuffle
      bushel split all/ out/ train=0.9 val=0.1 --shuffle --seed 7 --stratify label
      bushel split all/ out/ train=rest val=1000 --shuffle
    """
    mode = modes.mode()
    parts = _parse_shares(shares)
    with resumable(target):
        results = bushel.split(
            source,
            target,
            parts,
            **structs.asdict(choice),
            container=container,
            **structs.asdict(sizes),
            mode=mode,
        )
    folder = target.rstrip("/")
    shown.show(
        results,
        *(
            f"{folder}/{name}: {count(result.samples, 'sample')} written as {result.container}"
            for name, result in results.items()
        ),
    )


def _parse_shares(shares: list[str]) -> dict[str, float | None]:
    """Return the share of each new dataset, None for the rest. Raise BadParameter if a share is malformed."""
    parsed: dict[str, float | None] = {}
    try:
        for name, share in pairs(shares, "SHARES").items():
            number = int if share.isdecimal() else float
            parsed[name] = None if share == "rest" else number(share)
    except ValueError as error:
        raise wrong_option(
            "SHARES", f"a share must be a number, such as train=0.9 or train=200, or rest: {error}"
        ) from None
    return parsed


def merge(
    target: Target,
    sources: Annotated[list[str], Argument("Datasets to merge, in order.")],
    *,
    container: SameKind = None,
    keys: bool = True,
    sizes: SizeOptions,
    modes: ModeOptions,
    shown: OutputOptions,
) -> None:
    """Concatenate several datasets into one.

    Options:
        keys: Keep the keys or leave them out.

    Example:
      bushel merge all/ part-00000/ part-00001/ --shard-bytes 1GB
    """
    mode = modes.mode()
    with resumable(target):
        options = {"mode": mode, "keys": None if keys else False, **structs.asdict(sizes)}
        try:
            result = bushel.merge(sources, target, container=container, **options)
        except FileNotFoundError as error:
            error.add_note("the new dataset comes first: bushel merge TARGET SOURCES...")
            raise
    shown.show(
        {"target": target, **asdict(result)},
        f"{target}: {count(result.samples, 'sample')} written as {result.container}",
    )


class DivideOptions(Struct, frozen=True):
    """How the images are divided among the lists, and in which order they are listed.

    Attributes:
        im2rec_order: Number classes and shuffle as MXNet's im2rec does: every folder is a class;
            --seed has no effect.
    """

    chunks: Annotated[int, Option("Number of chunks to cut the images into.", min=1)] = 1
    train_ratio: Annotated[float, Option("Share for training.", min=0, max=1)] = 1.0
    test_ratio: Annotated[
        float, Option("Share for testing; the rest is for validation.", min=0, max=1)
    ] = 0.0
    shuffle: Annotated[
        bool, Option("Shuffle the images or sort them by name.", "--shuffle/--no-shuffle")
    ] = True
    seed: Annotated[int, Option("Seed of the random order.", min=0)] = 0
    im2rec_order: bool = False


def im2rec_list(
    prefix: Annotated[
        str, Argument("Prefix of the lists' names: PREFIX.lst, PREFIX_0_train.lst, …")
    ],
    root: Annotated[str, Argument("Folder of images.")],
    recursive: bool = False,
    exts: list[str] | None = None,
    *,
    dividing: DivideOptions,
    shown: OutputOptions,
) -> None:
    """Write lists of images for `bushel pack` and MXNet's im2rec.

    Every image is in exactly one list, for all ratios. The numbers of the classes are printed.

    Options:
        recursive: Descend into subfolders. Each folder in ROOT is a class, numbered as by pack.
        exts: Suffix of images; may be repeated. [default: .jpeg .jpg .png]

    Example:
      bushel im2rec-list lists/train photos/ --recursive --train-ratio 0.9
    """
    from bushel.compat.mxnet.lists import (
        IM2REC_SUFFIXES,
        ListPlan,
        find_images,
        list_parts,
        number_as_im2rec,
        number_as_pack,
        write_lists,
    )

    plan = ListPlan(**structs.asdict(dividing))
    images = find_images(root, suffixes=exts or IM2REC_SUFFIXES, recursive=recursive)
    if dividing.im2rec_order:
        lines, names, left_out = number_as_im2rec(images)
    else:
        lines, names, left_out = number_as_pack(images)
    lists = list_parts(lines, plan)
    if not any(lists.values()):
        hint = "" if recursive else ": --recursive descends into its subfolders"
        raise FileNotFoundError(f"no image found in {root}{hint}")
    paths = write_lists(prefix, lists)
    counts = {str(path): len(lines) for path, lines in zip(paths, lists.values(), strict=True)}
    shown.show(
        {"lists": counts, "labels": {"label": names} if names else {}, "left_out": left_out},
        *(f"{path}: {count(number, 'image')}" for path, number in counts.items()),
        *(f"class {number}: {name}" for number, name in enumerate(names)),
    )
    if left_out and not (shown.as_json or shown.quiet):
        say(f"note: skipped {count(left_out, 'image')} outside the class folders")
